"""Unsubscribe and resubscribe subscribers, and delete addresses that never confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Confirmation, Subscriber, SubscriberState
from digest.delivery.outbox import planned_letters, withdrawals
from digest.site.site_profile import Site
from digest.subscribers import next_digest, subscriber_letters
from digest.subscribers.subscriber_topics import clean_line

UNDO_FOR = timedelta(days=30)
BATCH_ADDRESSES = 200  #: maximum number of addresses deleted in one transaction


def unsubscribe(
    session: Session, site: Site, subscriber: Subscriber, *, now: datetime, due_at: datetime | None = None
) -> bool:
    """Unsubscribe a subscriber at once, and queue the goodbye letter with a link to resubscribe, due at `due_at`.

    Returns False if the subscriber was already unsubscribed. A subscriber who never confirmed cannot undo the
    unsubscription and gets no letter. Digests that are already queued are not sent, because delivery checks
    the subscriber's state first.
    """
    if not mark_unsubscribed(session, subscriber, now=now):
        return False
    if subscriber.confirmed_at is None:
        return True
    letter = planned_letters.GoodbyeLetter(subscriber_id=subscriber.id, day=now.date())
    subscriber_letters.queue_letter(session, site, subscriber, letter, now=now, due_at=due_at)
    return True


def leave_with_undo(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> bool:
    """Unsubscribe a subscriber at once; an undo on the page withdraws the goodbye letter before it is sent."""
    return unsubscribe(session, site, subscriber, now=now, due_at=now + subscriber_letters.SEND_AFTER)


def mark_unsubscribed(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Unsubscribe a subscriber without notice; return False if the subscriber was already unsubscribed."""
    session.refresh(subscriber, with_for_update=True)
    if subscriber.state == SubscriberState.UNSUBSCRIBED:
        # After this request, a synchronized list cannot resubscribe the subscriber.
        subscriber.is_removed_by_sync = False
        session.flush()
        return False
    subscriber.state = SubscriberState.UNSUBSCRIBED
    subscriber.paused_until = None
    subscriber.unsubscribed_at = now
    session.flush()
    opt_outs.record_subscribers(session, OptOutKind.UNSUBSCRIBED, [subscriber.id], now=now)
    return True


def undo(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Resubscribe a subscriber who confirmed and unsubscribed less than 30 days ago; withdraw the goodbye letter.

    Returns False for any other subscriber.
    """
    session.refresh(subscriber, with_for_update=True)
    if not can_undo(subscriber, now=now):
        return False
    subscriber.state = SubscriberState.ACTIVE
    subscriber.unsubscribed_at = None
    subscriber.leaving_reason = ""
    subscriber.next_due_at = next_digest.edition_status(session, subscriber, now).next.due_at
    session.flush()
    withdrawals.withdraw_letters(session, subscriber.id, "goodbye", "the subscriber came back", now=now)
    opt_outs.record_subscribers(session, OptOutKind.RESUBSCRIBED, [subscriber.id], now=now)
    return True


def can_undo(subscriber: Subscriber, *, now: datetime) -> bool:
    """Return whether the subscriber had confirmed, and unsubscribed less than 30 days ago."""
    unsubscribed, confirmed = subscriber.unsubscribed_at, subscriber.confirmed_at
    return (
        subscriber.state == SubscriberState.UNSUBSCRIBED
        and confirmed is not None
        and unsubscribed is not None
        and now - unsubscribed < UNDO_FOR
    )


def note_leaving_reason(subscriber: Subscriber, reason: str) -> bool:
    """Store the reason why a subscriber unsubscribed; return False if they are not unsubscribed."""
    if subscriber.state != SubscriberState.UNSUBSCRIBED:
        return False
    subscriber.leaving_reason = clean_line(reason)
    return True


def prune_unconfirmed(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete addresses that signed up before `before` and never confirmed; yield the number in each batch.

    An address is kept if a confirmation was created for it at `before` or later, or if a letter to it is
    queued.
    """
    asked_since = exists().where(Confirmation.subscriber_id == Subscriber.id, Confirmation.made_at >= before)
    awaited = exists().where(Delivery.subscriber_id == Subscriber.id, Delivery.settled_at.is_(None))
    pending = (Subscriber.state == SubscriberState.PENDING, Subscriber.created_at < before)
    past = (
        select(Subscriber.id)
        .where(*pending, ~asked_since, ~awaited)
        .order_by(Subscriber.id)
        .limit(BATCH_ADDRESSES)
    )
    while numbers := list(session.scalars(past)):
        session.execute(delete(Subscriber).where(Subscriber.id.in_(numbers), *pending))
        yield len(numbers)
