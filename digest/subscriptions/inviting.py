"""Invitations: whom an operator put on the list is asked once, at a gentle pace, and then left alone.

An invitation is the one letter that an unconfirmed address may get. Its key is made from the address
alone, so that no second one is written whatever is imported, removed or imported again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from digest import links, outbox
from digest.links import Site
from digest.model import (
    Confirmation,
    Delivery,
    DeliveryState,
    Lane,
    Subscriber,
    SubscriberState,
    Subscription,
)
from digest.subscriptions.people import one_line

PACE = timedelta(minutes=1)  #: between two invitations, so that a large list is no burst of unasked mail
ANSWER_WITHIN = timedelta(days=14)
INVITED = '{"invited":true}'  #: the wishes of a confirmation that nobody asked for: it is never reminded of
MOST_NAMED = 8  #: topics that an invitation names
LONGEST_NAME = 80


def invite(session: Session, site: Site, keys: Collection[str], *, by: str, now: datetime) -> int:
    """Write one invitation to each address of these that is pending and was never asked; return how many.

    `by` says who put them on the list, in the operator's words. One goes out each minute, after those
    that are waiting already.
    """
    moments = free_moments(session, now)
    waiting = asked_by_nobody(session, site, keys)
    for subscriber in waiting:
        due_at = next(moments)
        confirmation = Confirmation(
            subscriber_id=subscriber.id, made_at=due_at, expires_at=due_at + ANSWER_WITHIN, wishes=INVITED
        )
        session.add(confirmation)
        session.flush()
        outbox.put_letter(
            session,
            letter="invite",
            subscriber_id=subscriber.id,
            email=subscriber.email,
            decision={
                "confirmation_id": confirmation.id,
                "by": one_line(by)[:LONGEST_NAME],
                "topics": names_of(session, subscriber.id),
                "days": ANSWER_WITHIN.days,
            },
            dedupe_key=key(site, subscriber.email_key),
            site=site,
            now=due_at,
            lane=Lane.BULK,
        )
    return len(waiting)


def key(site: Site, email_key: str) -> str:
    """Return what keeps a second invitation to the same address from being written."""
    return f"invite-{links.address_hash(site, email_key)}"


def asked_by_nobody(session: Session, site: Site, keys: Collection[str]) -> list[Any]:
    """Return those who are pending and have had no letter of ours, in the order they came."""
    asked = exists().where(Confirmation.subscriber_id == Subscriber.id)
    pending = session.execute(
        select(Subscriber.id, Subscriber.email, Subscriber.email_key)
        .where(Subscriber.email_key.in_(keys), Subscriber.state == SubscriberState.PENDING, ~asked)
        .order_by(Subscriber.id)
    ).all()
    by_key = {key(site, row.email_key): row for row in pending}
    written = set(session.scalars(select(Delivery.dedupe_key).where(Delivery.dedupe_key.in_(by_key))))
    return [row for name, row in by_key.items() if name not in written]


def free_moments(session: Session, now: datetime) -> Iterator[datetime]:
    """Yield the moments at which the next invitations may go: a minute apart, behind those that wait."""
    last = session.scalar(
        select(func.max(Delivery.due_at)).where(
            outbox.IS_OPEN,
            Delivery.lane == Lane.BULK,
            Delivery.letter == "invite",
            Delivery.state == DeliveryState.QUEUED,
        )
    )
    moment = now if last is None else max(now, last + PACE)
    while True:
        yield moment
        moment += PACE


def names_of(session: Session, subscriber_id: int) -> list[str]:
    """Return the first topics that the operator chose for somebody."""
    theirs = select(Subscription.name).where(Subscription.subscriber_id == subscriber_id)
    return list(session.scalars(theirs.order_by(Subscription.position).limit(MOST_NAMED)))


def withdraw(session: Session, site: Site, email_key: str, *, now: datetime) -> None:
    """Take back an invitation that still waits: its reader has come by themselves."""
    outbox.withdraw(session, key(site, email_key), "they asked by themselves", now=now)
