"""Find subscribers for operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import FilterRow, Subscriber, SubscriberState, Subscription
from digest.mail import addresses

ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    """The criteria for listing subscribers; None or "" matches all subscribers."""

    state: SubscriberState | None = None
    cadence: str = ""
    domain: str = ""  #: the domain of the subscriber's address
    topic: str = ""  #: part of the name or filter of one of the subscriber's topics
    pack: str = ""  #: a pack, or one of its filters: lab or lab/nlp
    text: str = ""  #: part of the subscriber's address or name, or of a topic


def find_subscribers(session: Session, criteria: Criteria) -> Iterator[Subscriber]:
    """Yield the matching subscribers, ordered by address."""
    query = select(Subscriber).where(*conditions(criteria)).order_by(Subscriber.email_key)
    yield from session.scalars(query.execution_options(yield_per=ROWS_AT_ONCE))


def count_matching(session: Session, criteria: Criteria) -> int:
    """Return the number of matching subscribers."""
    return session.scalar(select(func.count()).select_from(Subscriber).where(*conditions(criteria))) or 0


def conditions(criteria: Criteria) -> list[ColumnElement[bool]]:
    """Convert the criteria to SQL conditions on the subscriber's columns."""
    found: list[ColumnElement[bool]] = []
    if criteria.state is not None:
        found.append(Subscriber.state == criteria.state)
    if criteria.cadence:
        found.append(Subscriber.cadence == criteria.cadence)
    if criteria.domain:
        domain = addresses.ascii_domain(criteria.domain.removeprefix("@"))
        found.append(Subscriber.email_key.endswith(f"@{domain}", autoescape=True))
    if criteria.topic:
        found.append(
            has_topic(
                contains(Subscription.name, criteria.topic) | contains(Subscription.typed, criteria.topic)
            )
        )
    if criteria.pack:
        name = f"use:{criteria.pack.lower().removeprefix('use:')}"
        found.append(has_topic(uses_pack(name)))
    if criteria.text:
        in_topics = contains(Subscription.name, criteria.text) | contains(Subscription.typed, criteria.text)
        own = contains(Subscriber.email, criteria.text) | contains(Subscriber.name, criteria.text)
        found.append(own | has_topic(in_topics))
    return found


def contains(column: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains `text`, ignoring case."""
    return func.lower(column).contains(text.lower(), autoescape=True)


def uses_pack(name: str) -> ColumnElement[bool]:
    """Return the condition that a filter uses a pack: all of it, or one of its filters, in any version."""
    padded = func.replace(FilterRow.canonical, "(", " ") + " "
    ends = ("/", "@", " ", ")")
    return or_(*(padded.contains(f"{name}{end}", autoescape=True) for end in ends))


def has_topic(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that a subscriber has a topic for which `condition` holds."""
    topic = select(Subscription.id).join(FilterRow, FilterRow.id == Subscription.filter_id)
    return exists(topic.where(Subscription.subscriber_id == Subscriber.id, condition))


def emails_starting(session: Session, text: str, *, limit: int) -> list[str]:
    """Return up to `limit` addresses that begin with `text`, in alphabetical order."""
    start = Subscriber.email_key.startswith(text.lower(), autoescape=True)
    query = select(Subscriber.email).where(start).order_by(Subscriber.email_key)
    return list(session.scalars(query.limit(limit)))


def topics_starting(session: Session, text: str, *, limit: int) -> list[str]:
    """Return up to `limit` topic names that begin with `text`, in alphabetical order."""
    start = func.lower(Subscription.name).startswith(text.lower(), autoescape=True)
    query = select(Subscription.name).where(start).distinct().order_by(Subscription.name)
    return list(session.scalars(query.limit(limit)))
