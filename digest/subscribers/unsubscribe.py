"""Unsubscribe and resubscribe subscribers, and erase their data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, select, update
from sqlalchemy.orm import Session

from digest import bounces
from digest.bounces import OptOutKind, SuppressionReason
from digest.db.tables import (
    Attempt,
    Confirmation,
    Delivery,
    FollowupSent,
    InboundMail,
    Shown,
    SignUp,
    Subscriber,
    SubscriberState,
)
from digest.delivery import outbox
from digest.editions import schedule
from digest.site_profile import Site
from digest.subscribers import subscriber_rows

UNDO_FOR = timedelta(days=30)
BATCH_ADDRESSES = 200  #: maximum number of addresses deleted in one transaction


def unsubscribe(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> bool:
    """Unsubscribe a subscriber at once, and queue the goodbye letter with its undo link.

    Returns False if they were already unsubscribed. A subscriber who never confirmed cannot undo this
    and gets no letter. Letters already queued are not sent, because delivery checks the state first.
    """
    if not mark_unsubscribed(session, subscriber, now=now):
        return False
    if subscriber.confirmed_at is None:
        return True
    outbox.queue_letter(
        session,
        letter="goodbye",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={},
        dedupe_key=f"goodbye-{subscriber.id}-{now.date()}",
        site=site,
        now=now,
    )
    return True


def mark_unsubscribed(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Unsubscribe a subscriber without a letter; return False if they were unsubscribed already."""
    session.refresh(subscriber, with_for_update=True)
    if subscriber.state == SubscriberState.UNSUBSCRIBED:
        # They unsubscribed themselves, so a synchronized list cannot resubscribe them.
        subscriber.is_removed_by_sync = False
        session.flush()
        return False
    subscriber.state = SubscriberState.UNSUBSCRIBED
    subscriber.paused_until = None
    subscriber.unsubscribed_at = now
    session.flush()
    bounces.record_subscribers(session, OptOutKind.UNSUBSCRIBED, [subscriber.id], now=now)
    return True


def undo(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Resubscribe a subscriber who confirmed and unsubscribed less than 30 days ago.

    Returns False for any other subscriber.
    """
    session.refresh(subscriber, with_for_update=True)
    if not can_undo(subscriber, now=now):
        return False
    subscriber.state = SubscriberState.ACTIVE
    subscriber.unsubscribed_at = None
    subscriber.leaving_reason = ""
    subscriber.next_due_at = schedule.next_edition(subscriber_rows.schedule_of(subscriber), now).due_at
    session.flush()
    bounces.record_subscribers(session, OptOutKind.RESUBSCRIBED, [subscriber.id], now=now)
    return True


def can_undo(subscriber: Subscriber, *, now: datetime) -> bool:
    """Return whether the subscriber had confirmed and unsubscribed less than 30 days ago."""
    unsubscribed, confirmed = subscriber.unsubscribed_at, subscriber.confirmed_at
    return (
        subscriber.state == SubscriberState.UNSUBSCRIBED
        and confirmed is not None
        and unsubscribed is not None
        and now - unsubscribed < UNDO_FOR
    )


def remove(session: Session, email: str, *, now: datetime) -> Subscriber:
    """Unsubscribe a subscriber without a letter, and keep their history in case they return; commits."""
    subscriber = subscriber_rows.get(session, email)
    mark_unsubscribed(session, subscriber, now=now)
    session.commit()
    return subscriber


def erase(session: Session, site: Site, email: str, *, now: datetime, suppress: bool = False) -> None:
    """Erase a subscriber's data; their deliveries keep states and counts but no address; commits.

    With `suppress`, the keyed hash of the address is suppressed, so that the address never gets mail again.
    """
    erase_subscriber(session, site, subscriber_rows.get(session, email), now=now)
    if suppress:
        bounces.suppress(session, site, email, SuppressionReason.ERASED, "", now)
    session.commit()


def erase_subscriber(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Erase a subscriber's row and all data that identifies them, and record the erasure.

    The caller commits.
    """
    lock_subscriber(session, subscriber)
    query = select(Delivery.id).where(
        (Delivery.subscriber_id == subscriber.id) | (Delivery.email == subscriber.email)
    )
    numbers = list(session.scalars(query))
    session.execute(update(Attempt).where(Attempt.delivery_id.in_(numbers)).values(reply=""))
    outbox.forget_recipient(session, numbers, now=now)
    session.execute(delete(Shown).where(Shown.subscriber_id == subscriber.id))
    session.execute(delete(FollowupSent).where(FollowupSent.subscriber_id == subscriber.id))
    session.execute(delete(SignUp).where(SignUp.email_key == subscriber.email_key))
    delete_mails_naming(session, subscriber.email)
    bounces.record_erasure(session, site, subscriber.id, subscriber.created_at, now=now)
    session.delete(subscriber)
    session.flush()


def delete_mails_naming(session: Session, email: str) -> None:
    """Delete the stored mail that was sent from an address or contains it.

    At most a thousand mails are stored.
    """
    name = email.lower().encode()
    stored = session.execute(select(InboundMail.id, InboundMail.sender, InboundMail.content))
    named = [row.id for row in stored if row.sender.lower() == email.lower() or name in row.content.lower()]
    session.execute(delete(InboundMail).where(InboundMail.id.in_(named)))


def lock_subscriber(session: Session, subscriber: Subscriber) -> None:
    """Lock the subscriber's row, so that no digest is published for them at the same time."""
    session.execute(select(Subscriber.id).where(Subscriber.id == subscriber.id).with_for_update())


def prune_unconfirmed(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete addresses that signed up before `before` and never confirmed; yield the number in each batch.

    Addresses with a later confirmation or a queued letter are kept. The caller commits.
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
