"""Build conditions that the two databases write differently, such as "one of many values"."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import BindParameter, Boolean, ColumnElement, Dialect, Integer, String, bindparam, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from digest.db.array_literals import array_literal, quote_array_text

LAST_KEY = 2**63 - 1  #: the largest key that a table can have


class ManyValues(TypeDecorator[Collection[Any]]):
    """Any number of values as one parameter: an array, or JSON on SQLite.

    PostgreSQL gets the literal "{1,2}", because the driver takes a microsecond for every value of a list.
    The parameter has no type, so that the planner sees an array: values made from a text would be compared
    one by one with every row.
    """

    impl = String
    cache_ok = True

    def __init__(self, of: TypeEngine[Any]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the parameter."""
        return NullType() if dialect.name == "postgresql" else dialect.type_descriptor(String())

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        """Return the values as one text."""
        values = value or ()
        if dialect.name != "postgresql":
            return json.dumps(list(values))
        return array_literal(values if self.holds_numbers else map(quote_array_text, values))

    @property
    def holds_numbers(self) -> bool:
        """Return whether the values are integers, not texts."""
        return isinstance(self.of, Integer)


class OneOf(ColumnElement[bool]):
    """The condition that a column is one of many values."""

    inherit_cache = True
    type = Boolean()
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy compares conditions by it
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
        ("are_rows", InternalTraversal.dp_boolean),
    ]

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any], *, are_rows: bool) -> None:
        self.column = column
        self.values = values
        self.are_rows = are_rows

    def self_group(self, against: Any = None) -> OneOf:
        """Return the condition unchanged: SQLAlchemy would compare it with 1 on SQLite, which no index supports."""
        return self


@compiles(OneOf, "postgresql")
def one_of_in_array(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with an array, or join its values as rows."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    kind = "BIGINT" if cast(ManyValues, element.values.type).holds_numbers else "TEXT"
    array = f"CAST({values} AS {kind}[])"
    return f"{column} IN (SELECT unnest({array}))" if element.are_rows else f"{column} = ANY ({array})"


@compiles(OneOf)
def one_of_in_json(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with the values of a JSON list."""
    values = compiler.process(element.values, **details)
    return f"{compiler.process(element.column, **details)} IN (SELECT value FROM json_each({values}))"  # noqa: S608


def one_of(
    column: ColumnElement[Any], values: Collection[int] | Collection[str] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`, sent as one parameter.

    An IN with a thousand parameters is written, parsed and planned each time. With `values_param` for the
    values a statement is built once, which takes as long as sending it. Texts are looked up one by one.
    """
    given = values if isinstance(values, BindParameter) else literal(values, ManyValues(column.type))
    return OneOf(column, given, are_rows=not cast(ManyValues, given.type).holds_numbers)


def one_of_few(
    column: ColumnElement[Any], values: Collection[int] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the same condition for a table of a few thousand rows.

    For a prepared statement PostgreSQL assumes that an array holds ten values: it would read the whole
    table and compare each row with hundreds of values.
    """
    given = values if isinstance(values, BindParameter) else literal(values, ManyValues(column.type))
    return OneOf(column, given, are_rows=True)


def hint_few_rows(key: ColumnElement[int]) -> ColumnElement[bool]:
    """Return a condition that every key meets, but that makes PostgreSQL expect few rows.

    It then looks up the joined rows one by one. Without the hint it may read the whole joined table, if it
    has no statistics yet, or compare hundreds of rows with each of hundreds.
    """
    return key.between(-LAST_KEY, LAST_KEY)


def values_param(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    """Return a parameter for any number of a column's values."""
    return bindparam(name, type_=ManyValues(column.type))


class Unindexed(ColumnElement[Any]):
    """A column that SQLite compares without using an index on it."""

    inherit_cache = True
    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - as in `OneOf`

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


@compiles(Unindexed, "sqlite")
def unindexed_sqlite(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Add a unary plus (sqlite.org/optoverview.html, "Disqualifying WHERE-Clause Terms")."""
    return f"+{compiler.process(element.column, **details)}"


@compiles(Unindexed)
def unindexed(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Leave the column as it is: PostgreSQL chooses indexes by its statistics."""
    return compiler.process(element.column, **details)
