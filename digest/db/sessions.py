"""Open sessions that only read, and units of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from digest.db.dialects import dialect_of
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
        if not (error.connection_invalidated or is_connection_error(error)):
            raise
        where = engine.url.render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise Unreachable(
            f"The database {where} does not respond ({reason}). Start it, or set DIGEST_DATABASE_URL."
        ) from error


def is_connection_error(error: DBAPIError) -> bool:
    """Return whether `error` was caused by a lost or refused connection, and not by the statement."""
    message = str(error.orig).lower()
    return any(
        hint in message for hint in ("connection", "could not translate", "unable to open", "timeout expired")
    )


def common_clock(session: Session, local_clock: Clock) -> Clock:
    """Return the clock that all workers of this database share, so that all agree on when a lease ends."""
    return dialect_of(session).common_clock(session, local_clock)


def commit_asynchronously(session: Session) -> None:
    """Let the commit of this transaction return before its changes are on disk, if supported.

    Use this function only for work that is repeated if the commit is lost in a crash. A later commit that
    waits for the disk also makes all earlier commits durable, unless that later transaction wrote nothing.
    """
    dialect_of(session).commit_asynchronously(session)


def pipelined(session: Session) -> AbstractContextManager[None]:
    """Send the writes of this block without waiting for each reply, if supported.

    All replies are awaited at the end. No statement in the block may need a result, not even a row count.
    Errors are raised by a later statement or at the end.
    """
    return dialect_of(session).pipelined(session)


def prefer_index_order(session: Session) -> AbstractContextManager[None]:
    """Read rows in the requested order from an index until the limit is reached."""
    return dialect_of(session).prefer_index_order(session)


def lock(session: Session, number: int) -> None:
    """Wait until no other transaction holds this lock, and hold it until this transaction ends."""
    dialect_of(session).lock(session, number)


def lock_shared(session: Session, number: int) -> None:
    """Wait until no transaction holds this lock exclusively, and share it until this transaction ends."""
    dialect_of(session).lock_shared(session, number)
