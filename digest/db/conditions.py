"""Build conditions that differ between the two databases, such as "one of many values"."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Dialect,
    Integer,
    String,
    Table,
    bindparam,
    literal,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from digest.db.array_literals import array_literal, quote_array_text

LAST_KEY = 2**63 - 1  #: the largest key that a table can have


class ManyValues(TypeDecorator[Collection[Any]]):
    """The type of a parameter that sends any number of values as a PostgreSQL array literal, "{1,2}".

    The values are sent as a single string, because the driver takes a microsecond for each value in a list. The
    parameter has no type, so that the planner sees an array. If SQL split a string into values, PostgreSQL
    would compare them one by one with every row.
    """

    impl = NullType
    cache_ok = True

    def __init__(self, of: TypeEngine[Any]) -> None:
        super().__init__()
        self.holds_numbers = isinstance(of, Integer)

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> str:
        """Return the values as the text of an array literal."""
        del dialect
        values = value or ()
        return array_literal(values if self.holds_numbers else map(quote_array_text, values))


class JsonValues(TypeDecorator[Collection[Any]]):
    """The type of a parameter that sends any number of values to SQLite as a JSON list."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> str:
        """Return the values as the text of a JSON list."""
        del dialect
        return json.dumps(list(value or ()))


def many_values(of: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type of a parameter that contains many values, with a variant for SQLite."""
    return ManyValues(of).with_variant(JsonValues(), "sqlite")


class OneOf(ColumnElement[bool]):
    """The condition that a column is one of many values."""

    inherit_cache = True
    type = Boolean()
    _traverse_internals = [  # noqa: RUF012 - used by SQLAlchemy to compare conditions
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
        ("are_rows", InternalTraversal.dp_boolean),
    ]

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any], *, are_rows: bool) -> None:
        self.column = column
        self.values = values
        self.are_rows = are_rows

    @property
    def holds_numbers(self) -> bool:
        """Return whether the values are integers, not strings."""
        return cast(ManyValues, self.values.type).holds_numbers

    def self_group(self, against: Any = None) -> OneOf:
        """Return the condition unchanged; SQLAlchemy would add `= 1` on SQLite, which prevents index use."""
        return self


def one_of(
    column: ColumnElement[Any], values: Collection[int] | Collection[str] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`, sent as one parameter.

    An IN with a thousand parameters would be compiled, parsed and planned each time. With a parameter from
    `values_param`, the statement can be built once and reused; building it takes as long as sending it.
    """
    given = values if isinstance(values, BindParameter) else literal(values, many_values(column.type))
    return OneOf(column, given, are_rows=not cast(ManyValues, given.type).holds_numbers)


def one_of_few(
    column: ColumnElement[Any], values: Collection[int] | BindParameter[Any]
) -> ColumnElement[bool]:
    """Return the same condition as `one_of`, in a form for tables of a few thousand rows.

    In a prepared statement, PostgreSQL assumes that an array has ten values. With `one_of`,
    PostgreSQL would therefore scan the table and compare each row with hundreds of values.
    """
    given = values if isinstance(values, BindParameter) else literal(values, many_values(column.type))
    return OneOf(column, given, are_rows=True)


def hint_few_rows(key: ColumnElement[int]) -> ColumnElement[bool]:
    """Return a condition that is always true but makes PostgreSQL expect few rows.

    PostgreSQL then looks up the joined rows one by one. Without the hint, PostgreSQL may scan a joined table
    that has no statistics yet, or use a nested loop over hundreds of rows.
    """
    return key.between(-LAST_KEY, LAST_KEY)


def unique_where(table: Table, key: Sequence[str]) -> ColumnElement[bool] | None:
    """Return the condition of the partial unique index on `key`, which ON CONFLICT must repeat, or None."""
    return next(
        (
            index.info.get("where")
            for index in table.indexes
            if index.unique and index.columns.keys() == list(key)
        ),
        None,
    )


def values_param(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    """Return a parameter for any number of values of a column."""
    return bindparam(name, type_=many_values(column.type))


class Unindexed(ColumnElement[Any]):
    """A column, written so that SQLite does not use the column's indexes in a comparison."""

    inherit_cache = True
    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - as in `OneOf`

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


@compiles(Unindexed)
def unindexed(element: Unindexed, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the column unchanged, because PostgreSQL chooses indexes according to its statistics."""
    return compiler.process(element.column, **details)
