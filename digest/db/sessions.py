"""Open sessions that only read, and units of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, cast

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from digest.errors import Unreachable

Clock = Callable[[], datetime]


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads; any change is rolled back."""
    with report_unreachable(engine), Session(engine, autoflush=False) as session:
        yield session


@contextmanager
def write_session(engine: Engine) -> Iterator[Session]:
    """Open a unit of work: it is committed when the block ends, and rolled back if the block raises.

    Use cases do not commit, except for the few that work in batches. On SQLite each transaction begins with the
    write lock.
    """
    bound = engine.execution_options(writing=True)
    with report_unreachable(engine), Session(bound, expire_on_commit=False) as session:
        yield session
        session.commit()


@contextmanager
def report_unreachable(engine: Engine) -> Iterator[None]:
    """Raise Unreachable if the database does not respond."""
    try:
        yield
    except OperationalError as error:
        message = str(error.orig).lower()
        hints = ("connection", "could not translate", "unable to open", "timeout expired")
        if not (error.connection_invalidated or any(hint in message for hint in hints)):
            raise  # the statement caused the error, not a lost or refused connection
        where = engine.url.render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise Unreachable(
            f"The database {where} does not respond ({reason}). Start it, or set DIGEST_DATABASE_URL."
        ) from error


def dialect_name(session: Session) -> str:
    """Return "postgresql" or "sqlite" without beginning a transaction."""
    return session.get_bind().dialect.name


def common_clock(session: Session, local_clock: Clock) -> Clock:
    """Return the clock that all workers of this database share, so that all agree on when a lease ends.

    With SQLite, all workers run on this machine. On PostgreSQL, it is the server's clock, read once and
    advanced by a monotonic timer, so changes of the local clock have no effect.
    """
    if dialect_name(session) == "sqlite":
        return local_clock
    server_time: datetime = session.connection().exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    read_at = monotonic()
    return lambda: server_time.astimezone(UTC) + timedelta(seconds=monotonic() - read_at)


def commit_asynchronously(session: Session) -> None:
    """Let the commit of this transaction return before its changes are on disk; on SQLite, do nothing.

    Use this function only for work that is repeated if the commit is lost in a crash. A later commit that
    waits for the disk also makes all earlier commits durable, unless that later transaction wrote nothing.
    """
    if dialect_name(session) == "postgresql":
        session.connection().exec_driver_sql("SET LOCAL synchronous_commit = off")


@contextmanager
def prefer_index_order(session: Session) -> Iterator[None]:
    """Read rows in the requested order from an index until the limit is reached, as SQLite always does.

    Without statistics the planner of PostgreSQL expects few rows, and would find and sort all matching rows
    to return a few.
    """
    is_planned = dialect_name(session) == "postgresql"
    if is_planned:
        session.connection().exec_driver_sql("SET LOCAL enable_sort = off")
    yield
    if is_planned:
        session.connection().exec_driver_sql("SET LOCAL enable_sort = on")


def lock(session: Session, number: int) -> None:
    """Wait until no other transaction holds this lock, and hold it until this transaction ends.

    SQLite has only one writer, so it needs no lock.
    """
    if dialect_name(session) == "postgresql":
        session.connection().execute(select(func.pg_advisory_xact_lock(number)))


def lock_shared(session: Session, number: int) -> None:
    """Wait until no transaction holds this lock exclusively, and share it until this transaction ends."""
    if dialect_name(session) == "postgresql":
        session.connection().execute(select(func.pg_advisory_xact_lock_shared(number)))


@contextmanager
def driver_connection(session: Session) -> Iterator[Any]:
    """Yield the driver's connection; its errors are raised as SQLAlchemy errors.

    A connection that is lost or cannot leave its pipeline is invalidated.
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
