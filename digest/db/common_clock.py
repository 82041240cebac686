"""Give all workers of a database one clock, so that they agree when a lease ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic

from sqlalchemy.orm import Session

Clock = Callable[[], datetime]


def common_clock(session: Session, local_clock: Clock) -> Clock:
    """Return PostgreSQL's clock, read once and advanced by a monotonic timer, so changes of the local clock do not matter.

    On SQLite all workers are on one machine and use its clock.
    """
    if session.get_bind().dialect.name != "postgresql":
        return local_clock
    server_time: datetime = session.connection().exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    read_at = monotonic()
    return lambda: server_time.astimezone(UTC) + timedelta(seconds=monotonic() - read_at)
