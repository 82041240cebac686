"""Let PostgreSQL work on one statement while the next is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session


@contextmanager
def driver_connection(session: Session) -> Iterator[Any]:
    """Yield the driver's own connection; its errors are raised as SQLAlchemy's.

    A connection that is lost, or that cannot leave its pipeline, is invalidated.
    """
    connection = session.connection()
    dialect, raw = connection.dialect, cast(Any, connection.connection.driver_connection)
    try:
        yield raw
    except dialect.loaded_dbapi.Error as error:
        is_gone = bool(dialect.is_disconnect(error, raw, None) or raw.pgconn.pipeline_status)
        if is_gone:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_gone, dialect=dialect
        ) from error


@contextmanager
def pipelined(session: Session) -> Iterator[None]:
    """Send the writes of this block to PostgreSQL without waiting for each; the end of the block waits for all.

    No statement in it may need a result, not even a row count. An error is raised by a later statement or
    at the end. SQLite executes each statement at once.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    with driver_connection(session) as raw, raw.pipeline():
        yield
