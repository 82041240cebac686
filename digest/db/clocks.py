"""Clocks: who works on one database goes by one clock, or a lease is over for one and not for the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic

from sqlalchemy.orm import Session

Clock = Callable[[], datetime]


def common_clock(session: Session, ours: Clock) -> Clock:
    """Return PostgreSQL's clock, asked once and carried on from there, whatever is done to ours meanwhile.

    On SQLite all who work are on one machine: its clock is ours.
    """
    if session.get_bind().dialect.name != "postgresql":
        return ours
    theirs: datetime = session.connection().exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    asked = monotonic()
    return lambda: theirs.astimezone(UTC) + timedelta(seconds=monotonic() - asked)
