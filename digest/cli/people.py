"""Subscribers as the commands show them: each with its topics, read by hundreds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.model import Subscriber, SubscriberState

AT_ONCE = 500  #: subscribers whose topics are read together


def listed(session: Session, *, state: SubscriberState | None = None) -> Iterator[dict[str, Any]]:
    """Yield what there is to say about every subscriber, by address, in bounded memory."""
    from digest import subscriptions

    found = subscriptions.listing(session, state=state)
    while some := list(islice(found, AT_ONCE)):
        yield from reports(session, some)


def report(session: Session, subscriber: Subscriber) -> dict[str, Any]:
    """Return what there is to say about one subscriber."""
    return next(reports(session, [subscriber]))


def reports(session: Session, some: Sequence[Subscriber]) -> Iterator[dict[str, Any]]:
    """Yield what there is to say about some subscribers."""
    from digest import editions, subscriptions

    topics = topics_of(session, [subscriber.id for subscriber in some])
    for subscriber in some:
        yield {
            "email": subscriber.email,
            "name": subscriber.name,
            "state": subscriber.state,
            "cadence": editions.cadence_spelling(subscriptions.schedule_of(subscriber)),
            "at": f"{subscriber.at:%H:%M}",
            "timezone": subscriber.timezone,
            "max_papers": subscriber.max_papers,
            "paused_until": subscriber.paused_until,
            "next_due_at": subscriber.next_due_at,
            "created_at": subscriber.created_at,
            "confirmed_at": subscriber.confirmed_at,
            "topics": topics.get(subscriber.id, {}),
        }


def topics_of(session: Session, ids: list[int]) -> dict[int, dict[str, str]]:
    """Return {subscriber id: {topic: filter as typed}}, the topics in the order of the digest."""
    from sqlalchemy import select

    from digest.model import Subscription

    query = (
        select(Subscription.subscriber_id, Subscription.name, Subscription.typed)
        .where(Subscription.subscriber_id.in_(ids))
        .order_by(Subscription.subscriber_id, Subscription.position, Subscription.id)
    )
    topics: dict[int, dict[str, str]] = {}
    for row in session.execute(query):
        topics.setdefault(row.subscriber_id, {})[row.name] = row.typed
    return topics
