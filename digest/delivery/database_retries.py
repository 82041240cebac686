"""Retry a database commit that must not be lost, such as the outcomes of a window.

Only the worker knows what the mail server replied. If it tried to record that only once, a database restart
at that moment would leave a window in doubt and send every letter of it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from time import monotonic, sleep
from types import TracebackType

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

MAX_RETRY_TIME = timedelta(minutes=5)  #: how long we retry, if the lease lasts
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  #: seconds between two tries
GIVEN_UP = "The database did not return in time."  #: noted on the error that ends the retries


class Try:
    """One run of a block; the error of a lost database is kept for whoever decides about the next."""

    def __init__(self, error: DBAPIError | None = None, *, is_retry: bool = False):
        self.is_retry = is_retry  #: the one before may have been committed
        self.error = error

    def __enter__(self) -> Try:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        self.error = retriable(error)
        return self.error is not None


def tries(
    session: Session,
    *,
    description: str,
    deadline: float,
    is_stopping: Callable[[], bool],
    lost: DBAPIError | None = None,
) -> Iterator[Try]:
    """Yield tries of a block that commits, each over a new connection, until the database is not lost in one.

    The caller has made the first one if it was `lost` in that.

    Raise the error after `MAX_RETRY_TIME`, at the monotonic moment `deadline`, or when `is_stopping`.
    Running the block again after a commit whose reply was lost must be safe.
    """
    pause, lost_at = FIRST_PAUSE, 0.0
    one = Try(lost)
    if lost is None:
        yield one
    while one.error:
        session.invalidate()
        if not lost_at:
            lost_at = monotonic()
            log.warning(
                "Lost the database while recording %s; retrying: %s", description, first_line(one.error)
            )
        if is_stopping() or monotonic() + pause >= min(deadline, lost_at + MAX_RETRY_TIME.total_seconds()):
            log.error("The database did not return in time to record %s", description)
            one.error.add_note(GIVEN_UP)
            raise one.error
        sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)
        yield (one := Try(is_retry=True))
    if lost_at:
        log.warning("The database is back after %.1f s; recorded %s", monotonic() - lost_at, description)


def is_given_up(error: BaseException | None) -> bool:
    """Return whether this error has ended retries."""
    return GIVEN_UP in getattr(error, "__notes__", ())


def retriable(error: BaseException | None) -> DBAPIError | None:
    """Return the error if it is about a database that is away, busy or full, and not about the statement."""
    if not isinstance(error, DBAPIError) or is_given_up(error):
        return None
    is_lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return error if is_lost else None


def first_line(error: DBAPIError) -> str:
    """Return the first line of the driver's message."""
    return str(error.orig).strip().partition("\n")[0]
