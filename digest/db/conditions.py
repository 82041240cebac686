"""Build conditions that differ between the two databases, such as "one of many values"."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Integer,
    Subquery,
    Table,
    bindparam,
    func,
    literal,
    literal_column,
    select,
    true,
)  # fmt: skip
from sqlalchemy import cast as cast_sql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

LAST_KEY = 2**63 - 1  #: the largest key that a table can have


class ManyValues(TypeDecorator[Collection[Any]]):
    """The type of a parameter that sends any number of values as a single string.

    The driver of PostgreSQL takes a microsecond for each value in a list, so it is sent an array literal,
    "{1,2}". The parameter has no type, so that the planner sees an array. SQLite gets a JSON list.
    """

    impl = NullType
    cache_ok = True

    def __init__(self, of: TypeEngine[Any]) -> None:
        super().__init__()
        self.holds_numbers = isinstance(of, Integer)

    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> str:
        """Return the values as the text of a JSON list or of an array literal."""
        values = value or ()
        if dialect.name == "sqlite":
            return json.dumps(list(values))
        return f"{{{','.join(map(str if self.holds_numbers else quote_text, values))}}}"


def quote_text(text: str) -> str:
    """Return a string quoted for an array literal of PostgreSQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
    column: ColumnElement[Any],
    values: Collection[int] | Collection[str] | BindParameter[Any],
    *,
    is_small_table: bool = False,
) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`, sent as one parameter.

    An IN with a thousand parameters would be compiled, parsed and planned each time. With a parameter from
    `values_param`, the statement can be built once and reused; building it takes as long as sending it.

    In a prepared statement, PostgreSQL assumes that an array has ten values, and may compare each row of a
    table of a few thousand rows with hundreds of values, unless `is_small_table`.
    """
    given = values if isinstance(values, BindParameter) else literal(values, ManyValues(column.type))
    return OneOf(column, given, are_rows=is_small_table or not cast(ManyValues, given.type).holds_numbers)


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
    return bindparam(name, type_=ManyValues(column.type))


def rows_by_key(
    dialect_name: str,
    table: Table,
    key: Column[int],
    keys: BindParameter[Any],
    condition: ColumnElement[bool],
) -> Subquery:
    """Return a subquery for the rows with these keys that meet the condition.

    With one condition for all keys, PostgreSQL scans the whole table as long as it has no statistics. A
    lateral join looks up key by key.
    """
    if dialect_name == "sqlite":
        return select(table).where(one_of(key, keys), condition).subquery("found")
    one = func.unnest(cast_sql(keys, ARRAY(BigInteger))).table_valued("key", name="one").render_derived()
    own_rows = select(table).where(key == one.c.key, condition)
    each = own_rows.offset(literal_column("0")).lateral("each")
    return select(each).select_from(one.join(each, true())).subquery("found")


def row_version_sql(dialect_name: str, table: str, columns: Sequence[str]) -> str:
    """Return the SQL for a text that changes with a row: on SQLite, the values of these columns."""
    if dialect_name == "sqlite":
        return " || ' ' || ".join(f"coalesce({table}.{column}, '')" for column in columns)
    return f"CAST({table}.xmin AS text)"  # the number of the transaction that last wrote the row


@compiles(OneOf, "sqlite")
def one_of_in_json(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the condition as a comparison with the values of a JSON list."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608


@compiles(OneOf, "postgresql")
def one_of_in_array(element: OneOf, compiler: SQLCompiler, **details: Any) -> str:
    """Compile the condition as a comparison with an array, or with a subquery of its values."""
    column, values = (compiler.process(part, **details) for part in (element.column, element.values))
    array = f"CAST({values} AS {'BIGINT' if element.holds_numbers else 'TEXT'}[])"
    return f"{column} IN (SELECT unnest({array}))" if element.are_rows else f"{column} = ANY ({array})"
