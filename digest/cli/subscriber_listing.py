"""Read subscribers and their topics for the output of `digest subscribers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from digest.db import Session
    from digest.db.tables import Subscriber, SubscriberState

BATCH_ROWS = 500  #: the number of subscribers whose topics are read at once


def list_subscribers(session: Session, *, state: SubscriberState | None = None) -> Iterator[dict[str, Any]]:
    """Yield the fields of every subscriber, by address, in bounded memory."""
    from digest import subscribers

    found = subscribers.list_subscribers(session, state=state)
    while batch := list(islice(found, BATCH_ROWS)):
        yield from subscriber_reports(session, batch)


def subscriber_report(session: Session, subscriber: Subscriber) -> dict[str, Any]:
    """Return the fields of one subscriber."""
    return next(subscriber_reports(session, [subscriber]))


def subscriber_reports(session: Session, batch: Sequence[Subscriber]) -> Iterator[dict[str, Any]]:
    """Yield the fields of these subscribers."""
    from digest import subscribers
    from digest.editions import schedule

    topics = subscribers.typed_topics(session, [subscriber.id for subscriber in batch])
    for subscriber in batch:
        yield {
            "email": subscriber.email,
            "name": subscriber.name,
            "state": subscriber.state,
            "cadence": schedule.cadence_text(subscribers.schedule_of(subscriber)),
            "at": f"{subscriber.at:%H:%M}",
            "timezone": subscriber.timezone,
            "max_papers": subscriber.max_papers,
            "abstracts": subscriber.abstracts,
            "paused_until": subscriber.paused_until,
            "next_due_at": subscriber.next_due_at,
            "created_at": subscriber.created_at,
            "confirmed_at": subscriber.confirmed_at,
            "leaving_reason": subscriber.leaving_reason,
            "topics": topics.get(subscriber.id, {}),
        }
