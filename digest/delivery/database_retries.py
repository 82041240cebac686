"""Retry a database commit that must not be lost, such as the outcomes of a window.

Only the worker knows what the mail server replied. If it tried to record that only once, a database restart
at that moment would leave a window in doubt and send every letter of it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from time import monotonic, sleep

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

MAX_RETRY_TIME = timedelta(minutes=5)  #: how long we retry, if the lease lasts
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  #: seconds between two tries


def retry_until(
    session: Session,
    action: Callable[[], None],
    *,
    description: str,
    deadline: float,
    is_stopping: Callable[[], bool],
) -> None:
    """Run `action`, which commits, again over new connections while the database is unavailable.

    Raise its error after `MAX_RETRY_TIME`, at the monotonic moment `deadline`, or when `is_stopping`.
    Running `action` again after a commit whose reply was lost must be safe.
    """
    pause, lost_at = FIRST_PAUSE, 0.0
    while True:
        try:
            action()
            break
        except DBAPIError as error:
            if not is_database_lost(error):
                raise
            session.invalidate()
            if not lost_at:
                lost_at = monotonic()
                log.warning(
                    "Lost the database while recording %s; retrying: %s", description, first_line(error)
                )
            if is_stopping() or monotonic() + pause >= min(
                deadline, lost_at + MAX_RETRY_TIME.total_seconds()
            ):
                log.error("The database did not return in time to record %s", description)  # noqa: TRY400 - raised below
                raise
        sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)
    if lost_at:
        log.warning("The database is back after %.1f s; recorded %s", monotonic() - lost_at, description)


def is_database_lost(error: DBAPIError) -> bool:
    """Return whether the error is about a database that is away, busy or full, and not about the statement."""
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)


def first_line(error: DBAPIError) -> str:
    """Return the first line of the driver's message."""
    return str(error.orig).strip().partition("\n")[0]
