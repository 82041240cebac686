"""Meanwhile: PostgreSQL is asked something and heard later; until then both sides work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from digest import db


@contextmanager
def asked(session: Session, question: str, given: Mapping[str, Any]) -> Iterator[Any]:
    """Ask while no transaction is open, and yield the cursor that has the answer when the block is over.

    What was asked is committed while the block goes on, not when it is over.
    """
    with db.driver(session) as raw:
        try:
            raw.autocommit = True  # or the driver waits for a BEGIN of its own
            with raw.pipeline():
                raw.execute("BEGIN")
                answer = raw.execute(question, given, prepare=True)
                raw.execute("COMMIT")
                raw.pgconn.flush()  # the driver sends what is asked last when it waits for the answer
                yield answer
        finally:
            if not raw.closed:
                raw.rollback()  # what failed half done
                raw.autocommit = False
