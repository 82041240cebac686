"""A subscriber leaves: at once, with a way back for a while; or is forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from digest import bounces, editions, outbox
from digest.bounces import Reason
from digest.links import Site
from digest.model import Attempt, Delivery, DeliveryState, MailIn, Shown, Subscriber, SubscriberState, Told
from digest.subscriptions import people

UNDO_FOR = timedelta(days=30)

#: Deliveries of which nothing has been sent yet.
UNSENT = (DeliveryState.QUEUED, DeliveryState.CLAIMED)


def unsubscribe(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> bool:
    """Let a subscriber leave, at once; a goodbye letter offers the way back. False if they had left.

    Who never confirmed has no way back to be offered, and gets no letter.
    What waits in the outbox is dropped by the delivery, which looks at the state before it sends.
    """
    if not leave(session, subscriber, now=now):
        return False
    if subscriber.confirmed_at is None:
        return True
    outbox.put_letter(
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


def leave(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Mark a subscriber as gone, without a letter; False if they had left before."""
    session.refresh(subscriber, with_for_update=True)
    if subscriber.state == SubscriberState.UNSUBSCRIBED:
        return False
    subscriber.state = SubscriberState.UNSUBSCRIBED
    subscriber.paused_until = None
    subscriber.left_at = now
    session.flush()
    return True


def undo(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Take an unsubscribe back within 30 days; only who had confirmed before can come back so."""
    session.refresh(subscriber, with_for_update=True)
    if not can_undo(subscriber, now=now):
        return False
    subscriber.state = SubscriberState.ACTIVE
    subscriber.left_at = None
    subscriber.next_due_at = editions.edition_after(people.schedule_of(subscriber), now).due_at
    session.flush()
    return True


def can_undo(subscriber: Subscriber, *, now: datetime) -> bool:
    """Return whether the subscriber left recently enough to come back with one press."""
    left, confirmed = subscriber.left_at, subscriber.confirmed_at
    return (
        subscriber.state == SubscriberState.UNSUBSCRIBED
        and confirmed is not None
        and left is not None
        and now - left < UNDO_FOR
    )


def remove(session: Session, email: str, *, now: datetime) -> Subscriber:
    """Let the operator take somebody off, without a letter; their history stays, so nothing comes twice."""
    subscriber = people.get(session, email)
    leave(session, subscriber, now=now)
    return subscriber


def erase(session: Session, site: Site, email: str, *, now: datetime, keep_out: bool = False) -> None:
    """Forget somebody: their rows go, their deliveries keep counts and states but no address.

    With `keep_out` the keyed hash of the address stays, so that nothing ever writes to it again.
    """
    subscriber = people.get(session, email)
    wait_for_digests(session, subscriber)
    theirs = select(Delivery.id).where(
        (Delivery.subscriber_id == subscriber.id) | (Delivery.email == subscriber.email)
    )
    numbers = list(session.scalars(theirs))
    session.execute(update(Attempt).where(Attempt.delivery_id.in_(numbers)).values(reply=""))
    session.execute(
        update(Delivery)
        .where(Delivery.id.in_(numbers), Delivery.state.in_(UNSENT))
        .values(state=DeliveryState.SUPPRESSED, settled_at=now, lease=None)
    )
    session.execute(
        update(Delivery)
        .where(Delivery.id.in_(numbers))
        .values(email=None, subscriber_id=None, reason="erased")
    )
    session.execute(delete(Shown).where(Shown.subscriber_id == subscriber.id))
    session.execute(delete(Told).where(Told.subscriber_id == subscriber.id))
    session.execute(delete(MailIn).where(func.lower(MailIn.sender) == subscriber.email.lower()))
    if keep_out:
        bounces.suppress(session, site, subscriber.email, Reason.ERASED, "", now)
    session.delete(subscriber)
    session.flush()


def wait_for_digests(session: Session, subscriber: Subscriber) -> None:
    """Wait for who is writing to this subscriber right now, and let nobody begin."""
    session.execute(select(Subscriber.id).where(Subscriber.id == subscriber.id).with_for_update())
