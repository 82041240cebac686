"""Insisting: what only we know is told to the database until it is there to hear it.

What a mail server has replied is known to nobody but the worker that heard it. If the database were asked
but once, its restart at that moment would leave a window in doubt, and bring every letter of it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from time import monotonic, sleep

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

LONGEST = timedelta(minutes=5)  #: for so long we ask, if the lease lasts
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  #: seconds between two times


def insist(
    session: Session,
    keep: Callable[[], None],
    *,
    what: str,
    until: float,
    is_stopping: Callable[[], bool],
) -> None:
    """Do `keep`, which commits, again and again over new connections while the database is lost.

    Its error is raised after `LONGEST`, at the monotonic moment `until`, or when told to stop. `keep` must
    bear being done again after a commit whose reply was lost.
    """
    pause, lost_at = FIRST_PAUSE, 0.0
    while True:
        try:
            keep()
            break
        except DBAPIError as error:
            if not is_loss(error):
                raise
            session.invalidate()
            if not lost_at:
                lost_at = monotonic()
                log.warning("The database was lost over %s, and is asked again: %s", what, in_short(error))
            if is_stopping() or monotonic() + pause >= min(until, lost_at + LONGEST.total_seconds()):
                log.error("The database did not come back in time for %s", what)  # noqa: TRY400 - it is raised
                raise
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    if lost_at:
        log.warning("The database is back after %.1f s, in time for %s", monotonic() - lost_at, what)


def is_loss(error: DBAPIError) -> bool:
    """Return whether it is about the database being away, busy or full, and not about what was asked."""
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)


def in_short(error: DBAPIError) -> str:
    """Return the first line of what the driver said."""
    return str(error.orig).strip().partition("\n")[0]
