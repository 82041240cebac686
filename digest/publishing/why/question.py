"""Define the question that `digest why` answers about one subscriber and one paper, and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import BadFilter
from digest.papers.paper_record import NO_IDS, Paper
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from digest.subscribers import subscriber_topics
from digest.topics import explanation, filter_parser


class WhyCause(StrEnum):
    """Why a paper was or was not shown to a subscriber."""

    SHOWN = "shown"  #: a digest contained the paper
    SHOWN_EARLIER = "shown in another version"  #: a digest contained an earlier version with another title
    UNKNOWN = "unknown"  #: no dump contained the paper
    HISTORY = "history"  #: the paper was loaded as history, which no digest shows
    WITHDRAWN = "withdrawn"  #: the authors withdrew the paper
    UNMATCHED = "unmatched"  #: no topic matches the paper
    TOO_OLD = "too old"  #: the paper is older than a digest covers
    OVER_CAP = "over the cap"  #: the paper matched but did not fit into the digest
    NOT_DUE = "not due yet"  #: the edition that will consider the paper is not due yet
    BEFORE = "before"  #: the paper was first seen before the subscriber signed up or confirmed
    LATE = "late"  #: the paper arrived after the day's editions were published
    UNSENT = "unsent"  #: a digest with the paper was made but never sent
    SUPPRESSED = "suppressed"
    PENDING = "pending"
    PAUSED = "paused"
    UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, kw_only=True, slots=True)
class WhyAnswer:
    """The answer as one sentence, the findings behind it, and both as JSON values."""

    verdict: str
    lines: tuple[str, ...] = ()
    json: dict[str, Any]


@dataclass(kw_only=True)
class WhyQuestion:
    """The question why a subscriber did or did not get a paper, with the findings so far."""

    publication: Publication  #: of this moment
    subscriber: Subscriber
    paper: Paper
    lines: list[str] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """Return the session in which the answer is looked up."""
        return self.publication.session

    def answer(self, cause: WhyCause, verdict: str, **more: Any) -> WhyAnswer:
        """Return an answer that contains all findings."""
        paper = {"id": self.paper.id, "title": self.paper.title}
        json = {"cause": cause, "verdict": verdict, "email": self.subscriber.email, "paper": paper}
        return WhyAnswer(verdict=verdict, lines=tuple(self.lines), json={**json, **more, "lines": self.lines})


def minute_text(moment: datetime) -> str:
    """Return a UTC time to the minute, such as `2026-11-20 08:00 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def mail_refused(session: Session, site: Site, subscriber: Subscriber) -> Iterator[tuple[str, str]]:
    """Yield the cause if this subscriber gets no digests of any edition."""
    entry = suppressions.find_suppression(session, site, subscriber.email)
    if entry is not None:
        note = f": {entry.note}" if entry.note else ""
        yield (
            "suppressed",
            f"The address has been suppressed since {minute_text(entry.since)} ({entry.reason}{note}).",
        )
    match subscriber.state:
        case SubscriberState.PENDING:
            yield "pending", "They have not confirmed their subscription, so no digest is sent."
        case SubscriberState.UNSUBSCRIBED:
            when = subscriber.unsubscribed_at
            yield "unsubscribed", f"They unsubscribed{f' on {minute_text(when)}' if when else ''}."
        case SubscriberState.PAUSED:
            until = f"until {subscriber.paused_until}" if subscriber.paused_until else "until they resume"
            yield "paused", f"Their digests are paused {until}."


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def describe_topics(question: WhyQuestion, resolved_then: Mapping[str, str] = NO_IDS) -> bool:
    """Add findings: whether and why each topic matches the paper; return whether any topic matches.

    `resolved_then` contains the resolved filter of each topic at the time of the decision, if known.
    """
    every_topic = subscriber_topics.topics_of(question.session, question.subscriber)
    question.lines.extend(f"{topic.name} is muted" for topic in every_topic if topic.is_muted)
    own_topics = [topic for topic in every_topic if not topic.is_muted]
    matched = not own_topics
    for topic in own_topics:
        resolved = resolved_then.get(topic.name, topic.resolved)
        if topic.resolved != topic.canonical:
            verb = "resolves" if resolved == topic.resolved else "resolved"
            question.lines.append(f"{topic.name} is {topic.canonical}, which {verb} to {resolved}")
        matched = describe_filter(question, topic.name, resolved) or matched
    return matched


def describe_filter(question: WhyQuestion, name: str, canonical: str) -> bool:
    """Add a finding: whether and why a topic's filter matches the paper; return whether it matches."""
    try:
        found = explanation.explain(filter_parser.parse(canonical), question.paper)
    except BadFilter as error:
        question.lines.append(f"{name}: the stored filter cannot be parsed. {error}")
        return False
    if found.matched:
        question.lines.append(f"{name} matches: {' · '.join(found.why)}")
    else:
        question.lines.append(f"{name} does not match: {'; '.join(found.failed)}")
    return found.matched
