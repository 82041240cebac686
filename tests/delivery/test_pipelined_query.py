"""PostgreSQL executes a statement while our process works, and commits it completely or not at all."""

from __future__ import annotations

from datetime import datetime

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from digest import db
from digest.delivery.outbox import postgresql
from tests.support.waiting import wait_until

ADDING = "INSERT INTO heartbeat (role, at) VALUES (%(role)s, %(at)s) RETURNING role"


def roles(session: Session) -> set[str]:
    """Return the committed rows."""
    session.rollback()  # a new transaction sees what was committed since
    return set(session.execute(text("SELECT role FROM heartbeat")).scalars())


def test_a_pipelined_query_is_committed_before_its_block_ends(postgres_engine: Engine, now: datetime) -> None:
    with db.write_session(postgres_engine) as session, db.read_session(postgres_engine) as other:
        with postgresql.pipelined_query(session, ADDING, {"role": "a", "at": now}) as answer:
            wait_until("the row", lambda: roles(other) == {"a"})

        assert answer.fetchall() == [("a",)]


def test_a_failed_query_stores_nothing_and_the_connection_still_works(
    postgres_engine: Engine, now: datetime
) -> None:
    with db.write_session(postgres_engine) as session:
        given = {"role": "a", "at": now}
        half = f"WITH added AS ({ADDING}) SELECT 1 / (length(role) - 1) FROM added"  # noqa: S608 - ours
        with (
            pytest.raises(DataError, match="division by zero"),
            postgresql.pipelined_query(session, half, given),
        ):
            pass
        session.rollback()

        assert roles(session) == set()
        session.rollback()
        with postgresql.pipelined_query(session, ADDING, given):
            pass
        assert roles(session) == {"a"}


def test_after_an_interrupt_the_connection_still_works(postgres_engine: Engine, now: datetime) -> None:
    with db.write_session(postgres_engine) as session:
        with (
            pytest.raises(KeyboardInterrupt),
            postgresql.pipelined_query(session, ADDING, {"role": "a", "at": now}),
        ):
            raise KeyboardInterrupt
        session.commit()

        assert roles(session) == {"a"}
