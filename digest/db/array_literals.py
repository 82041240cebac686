"""Encode many values as one string, because the driver takes a microsecond for each value in a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

UNIT, NULL_MARK = "\x1f", "\x1e"  #: the separator between values, and the string for a missing value


def join_values(values: Sequence[Any]) -> str:
    """Return a column's values as one string.

    Raises ValueError if a value contains the separator, or if the string would be empty.
    """
    text = UNIT.join([NULL_MARK if value is None else str(value) for value in values])
    if not text or text.count(UNIT) != len(values) - 1:
        raise ValueError(f"a value contains the separator: {text[:200]!r}")
    return text


def array_literal(values: Iterable[int | str]) -> str:
    """Return a PostgreSQL array of numbers, or of strings that are already quoted."""
    return f"{{{','.join(map(str, values))}}}"
