"""Conditions: that a column is one of many values, and other things that the two databases spell apart."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import BindParameter, Boolean, ColumnElement, Dialect, Integer, String, bindparam, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from digest.db.spelling import braced, quoted

LAST_KEY = 2**63 - 1  #: the largest that a table can have


class Many(TypeDecorator[Collection[Any]]):
    """Any number of values as one parameter: an array, or JSON on SQLite.

    They travel to PostgreSQL as they are written there, "{1,2}": the driver takes a microsecond for every
    value of a list. They have no type on the way, so that the planner sees an array: what is made of a
    text it compares value by value with every row.
    """

    impl = String
    cache_ok = True

    def __init__(self, of: TypeEngine[Any]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return what carries the values."""
        return NullType() if dialect.name == "postgresql" else dialect.type_descriptor(String())

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        """Return the values as they travel."""
        values = value or ()
        if dialect.name != "postgresql":
            return json.dumps(list(values))
        return braced(values if self.are_numbers else map(quoted, values))

    @property
    def are_numbers(self) -> bool:
        """Return whether the values are whole numbers; else they are texts."""
        return isinstance(self.of, Integer)


class Among(ColumnElement[bool]):
    """The condition that a column is one of many values."""

    inherit_cache = True
    type = Boolean()
    _traverse_internals = [  # noqa: RUF012 - as SQLAlchemy reads it, to know equal conditions
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
        ("are_rows", InternalTraversal.dp_boolean),
    ]

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any], *, are_rows: bool) -> None:
        self.column = column
        self.values = values
        self.are_rows = are_rows

    def self_group(self, against: Any = None) -> Among:
        """Stand as it is: SQLAlchemy would ask SQLite whether the condition is 1, and no index answers that."""
        return self


@compiles(Among, "postgresql")
def among_array(element: Among, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with an array, or look its values up as rows."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    kind = "BIGINT" if cast(Many, element.values.type).are_numbers else "TEXT"
    array = f"CAST({values} AS {kind}[])"
    return f"{column} IN (SELECT unnest({array}))" if element.are_rows else f"{column} = ANY ({array})"


@compiles(Among)
def among_json(element: Among, compiler: SQLCompiler, **details: Any) -> str:
    """Compare with the values of a JSON list."""
    values = compiler.process(element.values, **details)
    return f"{compiler.process(element.column, **details)} IN (SELECT value FROM json_each({values}))"  # noqa: S608


def among(
    column: ColumnElement[Any], values: Collection[int] | Collection[str] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`, sent as one parameter.

    An IN of a thousand parameters is written out, parsed and planned anew each time. With `many` for the
    values a statement is put together once, which takes as long as sending it. Texts are looked up one by one.
    """
    given = values if isinstance(values, BindParameter) else literal(values, Many(column.type))
    return Among(column, given, are_rows=not cast(Many, given.type).are_numbers)


def one_by_one(
    column: ColumnElement[Any], values: Collection[int] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the same condition for a table of some thousand rows.

    Of a statement that it has seen often PostgreSQL believes that an array holds ten values: it would read
    such a table whole, and compare each row with hundreds of values.
    """
    given = values if isinstance(values, BindParameter) else literal(values, Many(column.type))
    return Among(column, given, are_rows=True)


def looked_up(key: ColumnElement[int]) -> ColumnElement[bool]:
    """Return a condition that every key meets, and of which PostgreSQL takes it that few rows do.

    It looks up those few one by one in the table that they are joined to. Else it may read all of that, if it
    has no figures yet, or compare hundreds of rows with each of hundreds.
    """
    return key.between(-LAST_KEY, LAST_KEY)


def many(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    """Return the parameter of that name for any number of a column's values."""
    return bindparam(name, type_=Many(column.type))


class Unindexed(ColumnElement[Any]):
    """A column that SQLite compares without looking for an index on it."""

    inherit_cache = True
    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - as in `Among`

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


@compiles(Unindexed, "sqlite")
def unindexed_sqlite(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Say it as SQLite's manual does (sqlite.org/optoverview.html, "Disqualifying WHERE-Clause Terms")."""
    return f"+{compiler.process(element.column, **details)}"


@compiles(Unindexed)
def unindexed(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Compare as ever: who keeps statistics plans for himself."""
    return compiler.process(element.column, **details)
