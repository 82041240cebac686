"""Telling: whoever pauses or changes topics behind a link, the subscriber hears of it by mail.

Links are passed on with the letters they stand in. So what one does is told where only the owner reads,
with the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import outbox
from digest.links import Site
from digest.model import Delivery, DeliveryState, Subscriber
from digest.rendering import words
from digest.subscriptions import people
from digest.subscriptions.people import Topic

SETTLED_AFTER = timedelta(minutes=5)  #: who tries filters out saves often, and is told of the last


def tell_paused(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Write until when the digests are paused; once a day for the same leave."""
    until = subscriber.paused_until
    outbox.put_letter(
        session,
        letter="paused",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={"until": words.day_in_words(until) if until else ""},
        dedupe_key=f"paused-{subscriber.id}-{until or 'open'}-{now.date()}",
        site=site,
        now=now,
    )


def tell_changed(
    session: Session, site: Site, subscriber: Subscriber, *, had: Sequence[Topic], now: datetime
) -> None:
    """Write what the topics are now, once they rest; nothing where they are what the subscriber `had`."""
    topics = people.topics_of(session, subscriber)
    if topics == had:
        return
    for waiting in untold(session, subscriber):
        outbox.withdraw(session, waiting, "the topics changed again", now=now)
    due = subscriber.next_due_at
    outbox.put_letter(
        session,
        letter="changed",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={
            "topics": [{"name": topic.name, "filter": topic.typed or topic.canonical} for topic in topics],
            "next_due": words.moment_in_words(due, subscriber.timezone, seen_from=now) if due else "",
        },
        dedupe_key=f"{prefix(subscriber)}{now.isoformat()}",
        site=site,
        now=now,
        due_at=now + SETTLED_AFTER,
    )


def untold(session: Session, subscriber: Subscriber) -> list[str]:
    """Return the keys of letters on changes that still wait."""
    waiting = select(Delivery.dedupe_key).where(
        Delivery.subscriber_id == subscriber.id,
        Delivery.letter == "changed",
        Delivery.state == DeliveryState.QUEUED,
        Delivery.dedupe_key.startswith(prefix(subscriber), autoescape=True),
    )
    return [key for key in session.scalars(waiting) if key]


def prefix(subscriber: Subscriber) -> str:
    """Return how the keys of letters on this subscriber's own changes begin."""
    return f"changed-{subscriber.id}-"
