"""Read, check and change the settings and topics of a subscriber."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber
from digest.errors import BadFilter
from digest.subscribers import next_digest, reader_settings, subscriber_rows, subscriber_topics
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics.filter_parser import Filter

log = logging.getLogger(__name__)


def settings_of(session: Session, subscriber: Subscriber) -> ReaderSettings:
    """Return the subscriber's current settings and topics."""
    topics = subscriber_topics.topics_of(session, subscriber)
    return ReaderSettings(
        topics={topic.name: topic.text for topic in topics},
        muted=tuple(topic.name for topic in topics if topic.is_muted),
        texts=reader_settings.texts_of(subscriber),
    )


def check(session: Session, given: ReaderSettings) -> None:
    """Raise BadField or BadFilter if one of these settings or topics is invalid."""
    subscriber_topics.check_topics(given.topics or {}, FilterRegistry(session))
    reader_settings.columns_of(given.texts)


def edit(session: Session, subscriber: Subscriber, given: ReaderSettings, *, now: datetime) -> bool:
    """Change the given settings and topics; return whether any changed.

    Raises BadField or BadFilter, before anything is written, if one is invalid.
    """
    check(session, given)
    before = settings_of(session, subscriber)
    texts = {**before.texts, **given.texts}
    if reader_settings.schedule_in(texts) != subscriber_rows.schedule_of(subscriber):
        promise_again(session, subscriber, texts, now)
    for column, value in reader_settings.columns_of(given.texts).items():
        setattr(subscriber, column, value)
    if given.topics is not None:
        subscriber_topics.replace_topics(session, subscriber.id, given.topics, muted=given.muted)
    session.flush()
    return settings_of(session, subscriber).to_json() != before.to_json()


def promise_again(session: Session, subscriber: Subscriber, texts: Mapping[str, str], now: datetime) -> None:
    """Change the promise of the next digest to what a new schedule gives.

    A promised edition that is not published yet is sent even if the new hour has passed, and an overdue one
    stays due. Nothing is promised that was sent already: an edition is identified by its name.
    """
    chosen = reader_settings.schedule_in(texts)
    following = next_digest.edition_status(session, subscriber, now, schedule=chosen).next
    if subscriber.next_due_at is not None and subscriber.next_due_at > now:
        subscriber.next_due_at = following.due_at


def apply_requested(
    session: Session, subscriber: Subscriber, requested: ReaderSettings, *, now: datetime
) -> None:
    """Apply the settings that somebody requested earlier, with those topics whose filters are still valid.

    A filter is no longer valid if a pack that it uses has been removed.
    """
    topics = requested.topics or {}
    readable = {name: topics[name] for name in resolved_filters(session, topics)}
    edit(session, subscriber, replace(requested, topics=readable if topics else None), now=now)


def resolved_filters(session: Session, topics: Mapping[str, str]) -> dict[str, Filter]:
    """Return the resolved filters of the topics that are still valid, keyed by topic name."""
    registry, found = FilterRegistry(session), {}
    for name, text in topics.items():
        try:
            found[name] = registry.resolve_text(text)
        except BadFilter as error:
            log.warning("a requested topic is no longer valid and is left out: %s", error)
    return found
