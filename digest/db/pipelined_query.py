"""Send PostgreSQL a statement, continue, and fetch its result later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from digest import db


@contextmanager
def pipelined_query(session: Session, statement: str, parameters: Mapping[str, Any]) -> Iterator[Any]:
    """Execute a statement in a transaction of its own, and yield the cursor that has the result after the block.

    No transaction may be open. The statement is committed while the block runs, not at its end.
    """
    with db.driver_connection(session) as raw:
        try:
            raw.autocommit = True  # or the driver waits for a BEGIN of its own
            with raw.pipeline():
                raw.execute("BEGIN")
                cursor = raw.execute(statement, parameters, prepare=True)
                raw.execute("COMMIT")
                raw.pgconn.flush()  # else the driver sends the last statement only when it waits for the result
                yield cursor
        finally:
            if not raw.closed:
                raw.rollback()  # a statement that failed halfway
                raw.autocommit = False
