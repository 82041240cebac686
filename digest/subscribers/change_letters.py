"""Notify subscribers by mail of pauses and topic changes made through a link.

A forwarded letter contains working links, which anyone can use. Each change is therefore reported to the
subscriber's own address, with a link that undoes the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables import Delivery, DeliveryState, Subscriber, SubscriberState
from digest.delivery import outbox
from digest.letters import figures_in_words
from digest.site_profile import Site
from digest.subscribers import next_digest, subscriber_topics
from digest.subscribers.subscriber_topics import SubscriberTopic

#: Delay before the letter is sent, so that saving several times causes only one letter.
SEND_AFTER = timedelta(minutes=5)


def queue_paused_letter(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Queue the letter that confirms a pause, at most once a day for the same end date."""
    until = subscriber.paused_until
    outbox.queue_letter(
        session,
        letter="paused",
        subscriber_id=subscriber.id,
        email=subscriber.contact_email,
        decision={"until": figures_in_words.day_in_words(until) if until else ""},
        dedupe_key=f"paused-{subscriber.id}-{until or 'open'}-{now.date()}",
        site=site,
        now=now,
    )


def queue_changed_letter(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    *,
    previous: Sequence[SubscriberTopic],
    now: datetime,
) -> None:
    """Queue the letter that lists the subscriber's unmuted topics, unless these equal those in `previous`.

    The letter is sent once the topics have stayed unchanged for five minutes.
    """
    topics = [topic for topic in subscriber_topics.topics_of(session, subscriber) if not topic.is_muted]
    if topics == [topic for topic in previous if not topic.is_muted]:
        return
    for waiting in waiting_change_letters(session, subscriber):
        outbox.withdraw_letter(session, waiting, "the topics changed again", now=now)
    due = next_digest.edition_status(session, subscriber, now).next.due_at
    outbox.queue_letter(
        session,
        letter="changed",
        subscriber_id=subscriber.id,
        email=subscriber.contact_email,
        decision={
            "topics": [{"name": topic.name, "filter": topic.text} for topic in topics],
            "next_due": figures_in_words.moment_in_words(max(due, now), subscriber.timezone, seen_from=now)
            if subscriber.state == SubscriberState.ACTIVE
            else "",
        },
        dedupe_key=f"{change_key_prefix(subscriber)}{now.isoformat()}",
        site=site,
        now=now,
        due_at=now + SEND_AFTER,
    )


def waiting_change_letters(session: Session, subscriber: Subscriber) -> list[str]:
    """Return the dedupe keys of a subscriber's queued letters about topic changes."""
    waiting = select(Delivery.dedupe_key).where(
        Delivery.subscriber_id == subscriber.id,
        Delivery.letter == "changed",
        Delivery.state == DeliveryState.QUEUED,
        Delivery.dedupe_key.startswith(change_key_prefix(subscriber), autoescape=True),
    )
    return [key for key in session.scalars(waiting) if key]


def change_key_prefix(subscriber: Subscriber) -> str:
    """Return the dedupe key prefix of the letters that report changes to this subscriber's topics."""
    return f"changed-{subscriber.id}-"
