"""Read subscribers and their topics for the output of `digest subscribers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from digest.db import Session
    from digest.db.tables.subscribers import Subscriber
    from digest.subscribers.subscriber_search import Criteria

#: The fields of a subscriber before and after the settings, in the order of the output.
BEFORE_SETTINGS = "email", "owner", "name", "state"
AFTER_SETTINGS = (
    "paused_until", "next_due_at", "created_at", "confirmed_at", "consent", "leaving_reason", "muted", "topics",
)  # fmt: skip
BATCH_ROWS = 500  #: number of subscribers whose topics are read at once


def list_subscribers(
    session: Session, criteria: Criteria | None = None, *, now: datetime, with_words: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each matching subscriber, ordered by address, in bounded memory.

    `with_words` adds to the filters the words of their examples.
    """
    from digest.subscribers.subscriber_search import Criteria, find_subscribers

    found = find_subscribers(session, criteria or Criteria())
    while batch := list(islice(found, BATCH_ROWS)):
        yield from subscriber_reports(session, batch, now, with_words=with_words)


def subscriber_report(session: Session, subscriber: Subscriber, now: datetime) -> dict[str, Any]:
    """Return the fields of one subscriber."""
    return next(subscriber_reports(session, [subscriber], now))


def subscriber_reports(
    session: Session, batch: Sequence[Subscriber], now: datetime, *, with_words: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the fields of these subscribers."""
    from digest.subscribers import next_digest, subscriber_rows, subscriber_topics
    from digest.subscribers.reader_settings import SETTINGS

    ids = [subscriber.id for subscriber in batch]
    topics = subscriber_topics.typed_topics(session, ids, with_words=with_words)
    consents = subscriber_rows.latest_consents(session, ids)
    muted = subscriber_topics.muted_topics(session, ids)
    due = next_digest.next_due_times(session, batch, now)
    for subscriber in batch:
        yield {
            "email": subscriber.email,
            "owner": subscriber.owner_email,
            "name": subscriber.name,
            "state": subscriber.state,
            **{name: setting.value_of(subscriber) for name, setting in SETTINGS.items()},
            "paused_until": subscriber.paused_until,
            "next_due_at": due.get(subscriber.id),
            "created_at": subscriber.created_at,
            "confirmed_at": subscriber.confirmed_at,
            "consent": consents.get(subscriber.id),
            "leaving_reason": subscriber.leaving_reason,
            "muted": muted.get(subscriber.id, []),
            "topics": topics.get(subscriber.id, {}),
        }
