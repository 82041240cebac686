"""Write counts in sentences."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 paper`, `2 papers`, `1,203 papers`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
