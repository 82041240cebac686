"""Say when a reader's next digest is due."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables import Subscriber
from digest.delivery import outbox
from digest.editions import schedule
from digest.letters import figures_in_words
from digest.subscribers import subscriber_rows

_ = figures_in_words.TRANSLATIONS.gettext


def next_digest_in_words(session: Session, subscriber: Subscriber, *, now: datetime) -> str:
    """Return in words when an active subscriber's next digest is due.

    After a pause, that is today if today's edition is open and has not been decided.
    """
    due = subscriber.next_due_at
    if due is None:
        times = subscriber_rows.schedule_of(subscriber)
        today = schedule.open_edition(times, now)
        if today and outbox.find_digest(session, subscriber.id, today.name) is None:
            return _("today, if there are new papers")
        due = schedule.next_edition(times, now).due_at
    return figures_in_words.moment_in_words(due, subscriber.timezone, seen_from=now)
