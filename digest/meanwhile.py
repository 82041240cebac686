"""Meanwhile: PostgreSQL is asked several things at once and heard later; until then both sides work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session


@contextmanager
def asked(session: Session, questions: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Sequence[Any]]:
    """Ask while no transaction is open, and yield the cursors that have the answers when the block is over.

    All of it is one transaction: it is committed when the block is over, or nothing of it is.
    """
    connection = session.connection()
    dialect, raw = connection.dialect, cast(Any, connection.connection.driver_connection)
    try:
        raw.autocommit = True  # or the driver waits for a BEGIN of its own
        with raw.pipeline():
            raw.execute("BEGIN")
            cursors = [raw.execute(statement, given, prepare=True) for statement, given in questions]
            raw.execute("COMMIT")
            raw.pgconn.flush()  # the driver sends what is asked last when it waits for the answer
            yield cursors
    except dialect.loaded_dbapi.Error as error:
        is_gone = dialect.is_disconnect(error, raw, None)
        raise DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_gone, dialect=dialect
        ) from error
    finally:
        if not raw.closed:
            raw.rollback()  # what failed half done
            raw.autocommit = False
