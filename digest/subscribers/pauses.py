"""Pause and resume subscribers."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import SUBSCRIBED, StillReadingStep, Subscriber, SubscriberState
from digest.delivery.outbox import withdrawals
from digest.editions import time_zones
from digest.errors import BadField
from digest.site.site_profile import Site
from digest.subscribers import next_digest, subscriber_letters, undo_changes


def pause(session: Session, subscriber: Subscriber, until: date | None, now: datetime) -> bool:
    """Pause a subscriber, or change a pause, until a date or until they resume.

    Earlier changes of settings can then no longer be undone, because an undo would skip the pause. Returns
    False if the subscriber is neither active nor paused. Raises BadField if the date is not in the future.
    """
    if until is not None and until <= now.astimezone(time_zones.zone_of(subscriber.timezone)).date():
        raise BadField("until", f"{until} is not in the future. Choose a later day.")
    if subscriber.state not in SUBSCRIBED:
        return False
    subscriber.state = SubscriberState.PAUSED
    subscriber.paused_until = until
    undo_changes.forget_changes(session, subscriber)
    session.flush()
    return True


def pause_with_letter(
    session: Session, site: Site, subscriber: Subscriber, until: date | None, *, now: datetime
) -> None:
    """Pause a subscriber, or change a pause, and notify them by mail; do neither if they get no digests."""
    if pause(session, subscriber, until, now):
        subscriber_letters.queue_paused_letter(session, site, subscriber, now=now)


def resume(session: Session, subscriber: Subscriber, now: datetime) -> bool:
    """End a subscriber's pause; return False if they are not paused.

    The next digest also covers the papers of the pause, because `considered_until` is not advanced during a
    pause. Earlier changes of settings can then no longer be undone.
    """
    if subscriber.state != SubscriberState.PAUSED:
        return False
    subscriber.next_due_at = next_digest.edition_status(session, subscriber, now).next.due_at
    subscriber.state = SubscriberState.ACTIVE
    subscriber.paused_until = None
    subscriber.is_resumed = True
    subscriber.still_reading_step = StillReadingStep.NONE
    undo_changes.forget_changes(session, subscriber)
    session.flush()
    withdrawals.withdraw_letters(session, subscriber.id, "paused", "the subscriber resumed", now=now)
    return True


def resume_due(session: Session, now: datetime) -> int:
    """End every pause whose end date has come in the subscriber's time zone; return how many ended."""
    return sum(resume(session, subscriber, now) for subscriber in due_to_resume(session, now))


def due_to_resume(session: Session, now: datetime) -> list[Subscriber]:
    """Return the subscribers whose pause is over; the scheduler runs this query before it starts a task."""
    latest_day = (now + timedelta(hours=14)).date()  # no time zone is further ahead of UTC than this
    candidates = select(Subscriber).where(
        Subscriber.state == SubscriberState.PAUSED, Subscriber.paused_until <= latest_day
    )
    return [subscriber for subscriber in session.scalars(candidates) if is_pause_over(subscriber, now)]


def is_pause_over(subscriber: Subscriber, now: datetime) -> bool:
    """Return whether today is the end date of a subscriber's pause or later, in their time zone."""
    today = now.astimezone(time_zones.zone_of(subscriber.timezone)).date()
    return subscriber.paused_until is not None and subscriber.paused_until <= today
