"""Decide which edition a reader gets next, and say when it is due.

Whatever promises a digest asks here. Publishing makes the same decision from the stored row.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables import Subscriber, SubscriberState
from digest.delivery import outbox
from digest.editions.schedule import Schedule, ScheduleStatus, schedule_status
from digest.letters import figures_in_words
from digest.subscribers import subscriber_rows

_ = figures_in_words.TRANSLATIONS.gettext


def edition_status(
    session: Session, subscriber: Subscriber, now: datetime, *, schedule: Schedule | None = None
) -> ScheduleStatus:
    """Return which of the subscriber's editions is due and which comes next.

    `schedule` is the schedule that the subscriber chooses now, if it is not stored yet. A pause ends a promise.
    """
    return schedule_status(
        schedule or subscriber_rows.schedule_of(subscriber),
        now,
        promised=None if subscriber.state == SubscriberState.PAUSED else subscriber.next_due_at,
        decided=outbox.decided_editions(session, [subscriber.id], now).get(subscriber.id, frozenset()),
    )


def next_digest_in_words(session: Session, subscriber: Subscriber, *, now: datetime) -> str:
    """Return in words when an active subscriber's next digest is due."""
    edition = edition_status(session, subscriber, now).next
    if edition.due_at <= now:
        return _("today, if there are new papers")
    return figures_in_words.moment_in_words(edition.due_at, subscriber.timezone, seen_from=now)
