"""Decide which edition a reader gets next, and say when it is due.

Whatever promises a digest asks here. Publishing makes the same decision from the stored row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, time

from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import enqueue
from digest.editions.schedule import Schedule, ScheduleStatus, local_instant, schedule_status
from digest.editions.time_zones import zone_of
from digest.letters import figures_in_words
from digest.subscribers import subscriber_rows


def edition_status(
    session: Session, subscriber: Subscriber, now: datetime, *, schedule: Schedule | None = None
) -> ScheduleStatus:
    """Return which of the subscriber's editions is due and which comes next.

    `schedule` is the schedule that the subscriber chooses now, if it is not stored yet.
    """
    decided = enqueue.decided_editions(session, [subscriber.id], now).get(subscriber.id, frozenset())
    return status_of(subscriber, now, decided, schedule)


def status_of(
    subscriber: Subscriber, now: datetime, decided: Collection[str], schedule: Schedule | None = None
) -> ScheduleStatus:
    """Return the status of the subscriber's editions, of which some are decided."""
    chosen = schedule or subscriber_rows.schedule_of(subscriber)
    return schedule_status(chosen, now, promised=promised_to(subscriber, now), decided=decided)


def promised_to(subscriber: Subscriber, now: datetime) -> datetime | None:
    """Return from when on editions are promised: a pause ends a promise, and the end of a pause is one."""
    if subscriber.state != SubscriberState.PAUSED:
        return subscriber.next_due_at
    if subscriber.paused_until is None:
        return None
    end = local_instant(subscriber.paused_until, time(), zone_of(subscriber.timezone))
    return end if end <= now else None


def next_due_times(
    session: Session, subscribers: Iterable[Subscriber], now: datetime
) -> Mapping[int, datetime]:
    """Return {subscriber id: when the next digest is due} for those of these subscribers who get digests."""
    active = [one for one in subscribers if one.state == SubscriberState.ACTIVE]
    decided = enqueue.decided_editions(session, [one.id for one in active], now)
    return {one.id: status_of(one, now, decided.get(one.id, ())).next.due_at for one in active}


def next_digest_in_words(session: Session, subscriber: Subscriber, *, now: datetime) -> str:
    """Return in words when an active subscriber's next digest is due."""
    edition = edition_status(session, subscriber, now).next
    if edition.due_at <= now:
        return "today, if there are new papers"
    return figures_in_words.moment_in_words(edition.due_at, subscriber.timezone, seen_from=now)
