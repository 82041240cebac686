"""PostgreSQL works while we do, and what it was asked together is kept together or not at all."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from digest import db, meanwhile

ADDING = "INSERT INTO heartbeat (role, at) VALUES (%(role)s, %(at)s) RETURNING role"


def roles(session: Session) -> set[str]:
    """What is committed."""
    return set(session.execute(text("SELECT role FROM heartbeat")).scalars())


def test_it_is_committed_while_we_do_something_else(postgres_engine: Engine, now: datetime) -> None:
    with db.writing(postgres_engine) as session, db.reading(postgres_engine) as other:
        with meanwhile.asked(session, [(ADDING, {"role": name, "at": now}) for name in "ab"]) as answers:
            ends_at = time.monotonic() + 20
            while roles(other) != {"a", "b"} and time.monotonic() < ends_at:
                other.rollback()
            assert roles(other) == {"a", "b"}

        assert [(each.rowcount, each.fetchall()) for each in answers] == [(1, [("a",)]), (1, [("b",)])]


def test_what_fails_takes_all_of_it_with_it_and_the_connection_goes_on(
    postgres_engine: Engine, now: datetime
) -> None:
    with db.writing(postgres_engine) as session:
        questions = [(ADDING, {"role": "a", "at": now}), ("SELECT nonsense FROM heartbeat", {})]
        with pytest.raises(ProgrammingError, match="nonsense"), meanwhile.asked(session, questions):
            pass
        session.rollback()

        assert roles(session) == set()
        session.rollback()
        with meanwhile.asked(session, questions[:1]):
            pass
        assert roles(session) == {"a"}


def test_who_is_interrupted_meanwhile_leaves_a_connection_that_works(
    postgres_engine: Engine, now: datetime
) -> None:
    with db.writing(postgres_engine) as session:
        with (
            pytest.raises(KeyboardInterrupt),
            meanwhile.asked(session, [(ADDING, {"role": "a", "at": now})]),
        ):
            raise KeyboardInterrupt
        session.commit()

        assert roles(session) == {"a"}
