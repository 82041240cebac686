"""Delete rows that digests no longer need, in small batches that do not block other writers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import bounce_score, opt_outs, suppressions
from digest.db import kept_pages
from digest.db.tables.deliveries import PressRow
from digest.delivery import press_store, shown
from digest.delivery.limits import shared_limits
from digest.delivery.outbox import delete_old
from digest.papers.catalog import other_versions
from digest.publishing.retention_rules import KEEP_PRESSES_FOR, KEEP_SHOWN_FOR, Retention
from digest.subscribers import unsubscribe_and_undo

PAUSE_SECONDS = 0.01  #: seconds between two batches, in which other processes can write to SQLite


def delete_old_rows(
    session: Session,
    *,
    kept: Retention,
    now: datetime,
    is_over: Callable[[], bool] = lambda: False,
    between: float = PAUSE_SECONDS,
) -> tuple[Counter[str], bool]:
    """Delete rows whose retention period is over; return the counts by kind, and whether none is left.

    Each batch has its own transaction. No batch begins once `is_over` returns true; the next call of this
    function continues. At the end, SQLite's log is emptied, because it contains the deleted rows.
    """
    deleted: Counter[str] = Counter()
    for what, batches in deletions(session, kept, now):
        for number in batches:
            session.commit()
            deleted[what] += number
            if number and is_over():
                return deleted, False
            time.sleep(between)
        session.commit()
    db.truncate_log(session.get_bind().engine)
    return deleted, True


def deletions(session: Session, kept: Retention, now: datetime) -> Iterator[tuple[str, Iterator[int]]]:
    """Yield the name of each kind of row, with the batches that delete such rows."""
    past = now - kept.deliveries
    yield "rates", iter([shared_limits.delete_old_limits(session, now=now)])
    yield "presses", iter([press_store.delete_old_presses(session, before=now - KEEP_PRESSES_FOR)])
    yield "shingles", iter([other_versions.delete_old_shingles(session, before=now - KEEP_SHOWN_FOR)])
    yield "answers to forms", iter([kept_pages.delete_old_pages(session, now=now)])
    yield "attempts", delete_old.prune_attempts(session, before=now - kept.attempts)
    yield "deliveries", delete_old.prune_deliveries(session, before=past)
    yield "suppressions of full mailboxes", iter([suppressions.end_temporary_suppressions(session, now=now)])
    yield "bounces", bounce_score.delete_old_failures(session, before=past)
    yield "opt-outs", opt_outs.delete_old_opt_outs(session, before=past)
    yield "unconfirmed addresses", unsubscribe_and_undo.prune_unconfirmed(session, before=past)


def delete_old_shown(
    session: Session,
    *,
    now: datetime,
    after: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    between: float = PAUSE_SECONDS,
) -> tuple[int, int | None]:
    """Delete `shown` rows that are older than 180 days and belong to subscribers with ids above `after`.

    Returns the number of deleted rows, and the subscriber id to continue after, or None if no old rows are
    left.
    """
    deleted = 0
    for number, last in shown.delete_old(session, before=(now - KEEP_SHOWN_FOR).date(), after=after):
        session.commit()
        deleted += number
        if is_over():
            return deleted, last
        time.sleep(between)
    return deleted, None


def is_cleanup_overdue(session: Session, now: datetime) -> bool:
    """Return whether there is a press that should have been deleted over a day ago."""
    before = now - KEEP_PRESSES_FOR - timedelta(days=1)
    return bool(session.scalar(select(exists().where(PressRow.made_at < before))))
