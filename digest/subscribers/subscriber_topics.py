"""Store the topics of subscribers: their names, filters, order, and which are muted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session, aliased

from digest import db
from digest.db.tables.subscribers import FilterRow, ResolvedFilter, Subscriber, Subscription
from digest.errors import BadField
from digest.subscribers import filter_registry
from digest.subscribers.filter_registry import FilterRegistry
from digest.topics import example_words

#: Control characters and surrogates, except line ends and tabs, since some databases cannot store them.
CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

CheckedTopic = tuple[str, str, str]  #: a name, a canonical filter, and the filter as typed

MAX_TOPICS = 50
MAX_NAME = 80  #: maximum number of characters in a topic's name


@dataclass(frozen=True, kw_only=True, slots=True)
class SubscriberTopic:
    """A subscriber's topic: a name and a filter."""

    name: str
    filter_id: int
    canonical: str
    resolved: str  #: the canonical filter with its packs replaced by their filters
    resolved_filter_id: int  #: id of the resolved filter, which is used for matching
    typed: str  #: the filter as typed by the subscriber
    is_muted: bool = False  #: whether digests leave out the topic

    @property
    def text(self) -> str:
        """Return the filter in the form that its owner sees."""
        return self.typed or example_words.without_words(self.canonical)


class StoredTopic(NamedTuple):
    """A topic as it is stored."""

    name: str
    canonical: str
    typed: str
    is_muted: bool


def topics_of(session: Session, subscriber: Subscriber) -> list[SubscriberTopic]:
    """Return the subscriber's topics in the order of the digest's sections."""
    resolved = aliased(FilterRow)
    rows = session.execute(
        select(
            Subscription.name,
            Subscription.filter_id,
            FilterRow.canonical,
            func.coalesce(resolved.canonical, FilterRow.canonical).label("resolved"),
            func.coalesce(ResolvedFilter.resolved_filter_id, Subscription.filter_id).label(
                "resolved_filter_id"
            ),
            Subscription.typed,
            Subscription.is_muted,
        )
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .outerjoin(ResolvedFilter, ResolvedFilter.filter_id == Subscription.filter_id)
        .outerjoin(resolved, resolved.id == ResolvedFilter.resolved_filter_id)
        .where(Subscription.subscriber_id == subscriber.id)
        .order_by(Subscription.position, Subscription.id)
    )
    return [
        SubscriberTopic(
            name=row.name,
            filter_id=row.filter_id,
            canonical=row.canonical,
            resolved=row.resolved,
            resolved_filter_id=row.resolved_filter_id,
            typed=row.typed,
            is_muted=row.is_muted,
        )
        for row in rows
    ]


def stored_topics(session: Session, ids: Collection[int]) -> dict[int, list[StoredTopic]]:
    """Return {subscriber id: topics}, the topics in the order of the digest."""
    column = Subscription.__table__.c.subscriber_id
    query = (
        select(column, Subscription.name, FilterRow.canonical, Subscription.typed, Subscription.is_muted)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .where(db.one_of(column, ids))
        .order_by(column, Subscription.position, Subscription.id)
    )
    topics: dict[int, list[StoredTopic]] = {}
    for number, *topic in session.execute(query) if ids else ():
        topics.setdefault(number, []).append(StoredTopic(*topic))
    return topics


def typed_topics(
    session: Session, ids: Collection[int], *, with_words: bool = False
) -> dict[int, dict[str, str]]:
    """Return {subscriber id: {topic: filter as typed}}, the topics in the order of the digest.

    With the words of their examples, another installation can read the filters without the papers.
    """

    def text_of(topic: StoredTopic) -> str:
        words = dict(example_words.examples_in(topic.canonical)) if with_words else {}
        return example_words.with_words(topic.typed, words.__getitem__) if words else topic.typed

    stored = stored_topics(session, ids)
    return {number: {one.name: text_of(one) for one in topics} for number, topics in stored.items()}


def muted_topics(session: Session, ids: Collection[int]) -> dict[int, list[str]]:
    """Return {subscriber id: names of muted topics}."""
    stored = stored_topics(session, ids)
    return {number: [one.name for one in topics if one.is_muted] for number, topics in stored.items()}


def replace_topics(
    session: Session, subscriber_id: int, topics: Mapping[str, str], *, muted: Collection[str] | None = None
) -> None:
    """Replace the subscriber's topics; raise BadField or BadFilter for an invalid topic.

    The topics named in `muted` are muted; if `muted` is None, topics that keep their name stay muted.
    """
    checked = check_topics(topics, FilterRegistry(session))
    names = muted_topics(session, [subscriber_id]).get(subscriber_id, []) if muted is None else muted
    store_topics(session, {subscriber_id: checked}, {subscriber_id: {folded_name(name) for name in names}})


def store_topics(
    session: Session, topics: Mapping[int, Sequence[CheckedTopic]], muted: Mapping[int, Collection[str]]
) -> None:
    """Replace the topics of these subscribers; mute those whose folded names are in `muted`."""
    numbers = filter_registry.filter_ids(session, {one[1] for checked in topics.values() for one in checked})
    session.execute(delete(Subscription).where(db.one_of(Subscription.__table__.c.subscriber_id, topics)))
    rows = [
        {
            "subscriber_id": subscriber_id,
            "position": position,
            "name": name,
            "filter_id": numbers[canonical],
            "typed": typed,
            "is_muted": folded_name(name) in muted.get(subscriber_id, ()),
        }
        for subscriber_id, checked in topics.items()
        for position, (name, canonical, typed) in enumerate(checked)
    ]
    db.insert_many(session, Subscription, rows)


def folded_name(name: str) -> str:
    """Return the name of a topic as names are compared."""
    return clean_line(name).casefold()


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no topic has: the name itself, or `NAME 2`, `NAME 3` and so on."""
    folded = {one.casefold() for one in taken}
    short = name[: MAX_NAME - 4]
    names = (short if place == 1 else f"{short} {place}" for place in count(1))
    return next(one for one in names if one.casefold() not in folded)


def check_topics(topics: Mapping[str, str], registry: FilterRegistry) -> list[CheckedTopic]:
    """Return (name, canonical filter, filter as typed) for each topic.

    Raises BadField for too many topics or an invalid or repeated name, and BadFilter for an invalid filter.
    """
    names = [clean_line(name) for name in topics]
    check_names(names)
    typed = [CONTROL_CHARS.sub(" ", text) for text in topics.values()]
    return [
        (name, registry.canonical(text), example_words.without_words(text.strip()))
        for name, text in zip(names, typed, strict=True)
    ]


def check_names(names: Sequence[str]) -> None:
    """Raise BadField if there are too many topics, or if a name is invalid or repeated."""
    if len(names) > MAX_TOPICS:
        raise BadField("topics", f"{len(names)} topics are too many; the limit is {MAX_TOPICS}.")
    folded = [name.casefold() for name in names]
    for name in names:
        if not name or len(name) > MAX_NAME:
            raise BadField("topics", f"a topic's name must have 1 to {MAX_NAME} characters, not {len(name)}.")
        if folded.count(name.casefold()) > 1:
            raise BadField("topics", f"two topics are called {name!r}.")


def clean_line(text: str) -> str:
    """Return `text` as one line of at most 200 characters, without control or format characters."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())[:200]
    visible = "".join(
        " " if char.isspace() else char
        for char in unicodedata.normalize("NFC", text)
        if char.isspace() or unicodedata.category(char)[0] != "C"
    )
    return " ".join(visible.split())[:200]
