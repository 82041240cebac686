"""Sessions: to read, or to write in transactions that the stories commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from digest.errors import Unreachable


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads; whatever it changed is rolled back."""
    with answering(engine), Session(engine, autoflush=False) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a session for a story, which commits; what is left uncommitted is rolled back.

    On SQLite every transaction of it begins with the write lock.
    """
    bound = engine.execution_options(writing=True)
    with answering(engine), Session(bound, expire_on_commit=False) as session:
        yield session


@contextmanager
def answering(engine: Engine) -> Iterator[None]:
    """Turn a database that does not answer into one clear sentence."""
    try:
        yield
    except OperationalError as error:
        if not (error.connection_invalidated or is_refusal(error)):
            raise
        where = engine.url.render_as_string(hide_password=True)
        reason = str(error.orig).strip().splitlines()[0]
        raise Unreachable(
            f"The database {where} does not answer ({reason}). Start it, or set DIGEST_DATABASE_URL."
        ) from error


def is_refusal(error: DBAPIError) -> bool:
    """Return whether `error` is about reaching the database, not about what was asked of it."""
    said = str(error.orig).lower()
    return any(
        hint in said for hint in ("connection", "could not translate", "unable to open", "timeout expired")
    )


def commit_unhurried(session: Session) -> None:
    """Let this transaction's commit on PostgreSQL not wait for the disk.

    For work that is done again if it is lost. A later commit that does wait, such as the intent to send,
    takes everything before it to the disk too, so nothing is ever built on what may be lost.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql("SET LOCAL synchronous_commit = off")


@contextmanager
def in_order(session: Session) -> Iterator[None]:
    """Let what is asked in this block be read in the order that it asks for, by an index, until there is enough.

    Without figures PostgreSQL takes it that few rows answer: it would find all of them, however many, and sort
    them for the few that are wanted.
    """
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    session.connection().exec_driver_sql("SET LOCAL enable_sort = off")
    yield
    session.connection().exec_driver_sql("SET LOCAL enable_sort = on")
