"""Open sessions: to read, or to write in transactions that use cases commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from digest.errors import Unreachable


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads; any change is rolled back."""
    with report_unreachable(engine), Session(engine, autoflush=False) as session:
        yield session


@contextmanager
def write_session(engine: Engine) -> Iterator[Session]:
    """Open a session for a use case, which commits; uncommitted changes are rolled back.

    On SQLite each of its transactions begins with the write lock.
    """
    bound = engine.execution_options(writing=True)
    with report_unreachable(engine), Session(bound, expire_on_commit=False) as session:
        yield session


@contextmanager
def report_unreachable(engine: Engine) -> Iterator[None]:
    """Raise Unreachable, with one clear sentence, if the database does not answer."""
    try:
        yield
    except OperationalError as error:
        if not (error.connection_invalidated or is_connection_error(error)):
            raise
        where = engine.url.render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise Unreachable(
            f"The database {where} does not answer ({reason}). Start it, or set DIGEST_DATABASE_URL."
        ) from error


def is_connection_error(error: DBAPIError) -> bool:
    """Return whether `error` is about the connection, not about the statement."""
    message = str(error.orig).lower()
    return any(
        hint in message for hint in ("connection", "could not translate", "unable to open", "timeout expired")
    )


def commit_asynchronously(session: Session) -> None:
    """Commit this transaction on PostgreSQL without waiting for the disk.

    Use it for work that is repeated if it is lost. A later commit that waits, such as the intent to send,
    flushes all earlier commits too, so nothing ever depends on a commit that may be lost.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql("SET LOCAL synchronous_commit = off")


@contextmanager
def prefer_index_order(session: Session) -> Iterator[None]:
    """Make PostgreSQL read rows in the requested order from an index until the limit is reached.

    Without statistics it expects few rows: it would find all of them, however many, and sort them to
    return a few.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    session.connection().exec_driver_sql("SET LOCAL enable_sort = off")
    yield
    session.connection().exec_driver_sql("SET LOCAL enable_sort = on")
