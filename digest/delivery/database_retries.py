"""Retry a database commit that must not be lost, such as the commit of a window's outcomes.

Only the worker knows the mail server's replies. If the worker tried to record the replies only once, a
database restart at that time would leave a window in doubt, and all its letters would be sent twice.
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

MAX_RETRY_TIME = timedelta(minutes=5)  #: how long to retry, unless the caller's deadline is earlier
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  #: shortest and longest pause between two tries, in seconds
#: The note added to the last error when the retries end without success.
GIVEN_UP = "The database did not become available in time."


class Try:
    """One attempt to run a block, and the database error that it raised, if any."""

    def __init__(self, *, is_retry: bool = False):
        self.is_retry = is_retry  #: whether an earlier try failed; its commit may have succeeded
        self.error: DBAPIError | None = None

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
) -> Iterator[Try]:
    """Yield a `Try` for each attempt to commit a block; retry while the database is unreachable, busy or full.

    Each try uses a new connection.
    Raises the last error after `MAX_RETRY_TIME`, at the monotonic time `deadline`, or when `is_stopping`
    returns True. The block must be safe to run again after a commit whose reply was lost.
    """
    pause, lost_at = FIRST_PAUSE, 0.0
    yield (one := Try())
    while one.error:
        session.invalidate()
        if not lost_at:
            lost_at = monotonic()
            log.warning(
                "The database failed while recording %s; retrying: %s",
                description,
                str(one.error.orig).strip().partition("\n")[0],
            )
        if is_stopping() or monotonic() + pause >= min(deadline, lost_at + MAX_RETRY_TIME.total_seconds()):
            log.error("The database did not become available in time to record %s", description)
            one.error.add_note(GIVEN_UP)
            raise one.error
        sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)
        yield (one := Try(is_retry=True))
    if lost_at:
        log.warning(
            "The database was unavailable for %.1f s; recorded %s", monotonic() - lost_at, description
        )


def is_given_up(error: BaseException | None) -> bool:
    """Return whether this error ended the retries."""
    return GIVEN_UP in getattr(error, "__notes__", ())


def retriable(error: BaseException | None) -> DBAPIError | None:
    """Return the error if its cause is an unreachable, busy or full database, else None."""
    if not isinstance(error, DBAPIError) or is_given_up(error):
        return None
    is_lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return error if is_lost else None
