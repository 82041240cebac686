"""Pipelines: PostgreSQL works on one thing while we go on to the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session


@contextmanager
def driver(session: Session) -> Iterator[Any]:
    """Yield the driver's own connection; what it raises in this block is raised as SQLAlchemy would.

    A connection that turns out to be gone is given up, and so is one that could not even leave its pipeline.
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
def ahead(session: Session) -> Iterator[None]:
    """Let PostgreSQL work on what is written in this block while we go on; the end of the block waits for it.

    Nothing in it may ask for an answer, a number of rows included. What fails is raised by a later
    statement or at the end. SQLite does each thing when it is told.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    with driver(session) as raw, raw.pipeline():
        yield
