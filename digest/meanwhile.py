"""Meanwhile: PostgreSQL is asked several things at once and heard later; until then both sides work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from digest import db


@contextmanager
def asked(session: Session, questions: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Sequence[Any]]:
    """Ask while no transaction is open, and yield the cursors that have the answers when the block is over.

    All of it is one transaction: it is committed when the block is over, or nothing of it is.
    """
    with db.driver(session) as raw:
        try:
            raw.autocommit = True  # or the driver waits for a BEGIN of its own
            with raw.pipeline():
                raw.execute("BEGIN")
                cursors = [raw.execute(statement, given, prepare=True) for statement, given in questions]
                raw.execute("COMMIT")
                raw.pgconn.flush()  # the driver sends what is asked last when it waits for the answer
                yield cursors
        finally:
            if not raw.closed:
                raw.rollback()  # what failed half done
                raw.autocommit = False
