"""Encode many values as one string, because the driver takes a microsecond for each value in a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ARRAY, Column, ColumnElement, String, bindparam, func, literal
from sqlalchemy import cast as sql_cast

UNIT, NULL_MARK = "\x1f", "\x1e"  #: the separator between values, and the string for a missing value


def join_values(values: Sequence[Any]) -> str:
    """Return a column's values as one string.

    Raises ValueError if a value contains the separator, or if the string would be empty.
    """
    text = UNIT.join([NULL_MARK if value is None else str(value) for value in values])
    if not text or text.count(UNIT) != len(values) - 1:
        raise ValueError(f"a value contains the separator: {text[:200]!r}")
    return text


def split_to_array(column: Column[Any]) -> ColumnElement[Any]:
    """Return the SQL that splits the string from `join_values` into the column's values."""
    texts = func.string_to_array(
        bindparam(f"new_{column.name}", type_=String()), literal(UNIT, String()), literal(NULL_MARK, String())
    )
    return texts if isinstance(column.type, String) else sql_cast(texts, ARRAY(column.type))


def quote_array_text(text: str) -> str:
    """Return a string quoted for a PostgreSQL array."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def array_literal(values: Iterable[int | str]) -> str:
    """Return a PostgreSQL array of numbers, or of strings that are already quoted."""
    return f"{{{','.join(map(str, values))}}}"
