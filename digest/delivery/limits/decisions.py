"""What the limits decide about a letter: it may go, or it waits until a moment, for a reason. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

MAX_CLOCK_SKEW = timedelta(seconds=60)  #: how far the clocks of two workers may differ
ALL_MAIL = "*"  #: the scope of a limit on all mail; otherwise a scope is a domain or a server


class Allowed(NamedTuple):
    """The letter may go."""

    server: str = ""  #: the one it must go through, if servers have rates


class Wait(NamedTuple):
    """Until when a letter waits, and why."""

    until: datetime
    reason: str


class Refill(Wait):
    """A wait for tokens that come so soon that the worker keeps the letter."""

    __slots__ = ()


def is_ahead(moment: datetime, now: datetime, *, at_most: timedelta) -> bool:
    """Return whether a moment is yet to come, and so near that no wrong clock can have stored it."""
    return now < moment <= now + at_most
