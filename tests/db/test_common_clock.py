"""All workers of one database use the same clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Engine

from digest import db
from tests.support.waiting import wait_until

HOUR = timedelta(hours=1)


def test_a_machine_with_a_wrong_clock_uses_postgresqls_time(postgres_engine: Engine, now: datetime) -> None:
    with db.read_session(postgres_engine) as session:
        slow = db.common_clock(session, lambda: now - HOUR)
        fast = db.common_clock(session, lambda: now + HOUR)

        assert abs(fast() - slow()) < timedelta(minutes=1)
        before = slow()
        wait_until("time to pass", lambda: before < slow())


def test_on_sqlite_the_common_clock_is_the_machines_own(sqlite_engine: Engine, now: datetime) -> None:
    with db.read_session(sqlite_engine) as session:
        assert db.common_clock(session, lambda: now)() == now
