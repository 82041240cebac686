"""Define the decisions about a letter: it may be sent now, or must wait until a given time. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

MAX_CLOCK_SKEW = timedelta(seconds=60)  #: how far the clocks of two workers may differ
ALL_MAIL = "*"  #: the scope of a limit on all mail; all other scopes are domains or servers
ALL, BULK = "all", "bulk"  #: the scopes of emergency stops: all mail, or digests


class Allowed(NamedTuple):
    """The decision that a letter may be sent now."""

    server: str = ""  #: the server that must send the letter; empty unless servers have rates


class Wait(NamedTuple):
    """The decision that a letter must wait: until when, and why."""

    until: datetime
    reason: str


class Refill(Wait):
    """A short wait for tokens, during which the worker holds the letter."""

    __slots__ = ()


def is_ahead(moment: datetime, now: datetime, *, at_most: timedelta) -> bool:
    """Return whether a datetime is in the future, but at most `at_most` ahead.

    A datetime further ahead was stored by a machine with a wrong clock.
    """
    return now < moment <= now + at_most
