"""Spelling: many values as one text, since the driver takes a microsecond for every value of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, String, bindparam, func, literal
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql

UNIT, NONE = "\x1f", "\x1e"  #: what stands between two values, and for one that is missing


def spelled(values: Sequence[Any]) -> str:
    """Return a column's values as one text: the driver takes a microsecond for every value of a list."""
    text = UNIT.join([NONE if value is None else str(value) for value in values])
    if not text or text.count(UNIT) != len(values) - 1:
        raise ValueError(f"a value that cannot be told from its neighbours: {text[:200]!r}")
    return text


def array(column: Column[Any]) -> ColumnElement[Any]:
    """Return the values of a column that `spelled` has put into one text."""
    texts = func.string_to_array(
        bindparam(f"new_{column.name}", type_=String()), literal(UNIT, String()), literal(NONE, String())
    )
    return texts if isinstance(column.type, String) else sql_cast(texts, postgresql.ARRAY(column.type))


def quoted(text: str) -> str:
    """Return a text as PostgreSQL writes it in an array."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def braced(values: Iterable[int | str]) -> str:
    """Return numbers, or texts that are `quoted`, as PostgreSQL writes an array of them."""
    return f"{{{','.join(map(str, values))}}}"
