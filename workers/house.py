"""The house of this process, opened once and only after the fork."""

from __future__ import annotations

from functools import cache

from digest.house import House, opened
from digest.settings import load


@cache
def house() -> House:
    """Return the house of this process."""
    return opened(load())
