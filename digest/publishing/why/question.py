"""Define the question that `digest why` answers about one subscriber and one paper, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber
from digest.letters.templates import Templates
from digest.papers.paper_record import Paper
from digest.process.caches import Caches
from digest.site.site_profile import Site


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

    session: Session
    site: Site
    templates: Templates
    caches: Caches
    subscriber: Subscriber
    paper: Paper
    now: datetime
    lines: list[str] = field(default_factory=list)

    def answer(self, cause: WhyCause, verdict: str, **more: Any) -> WhyAnswer:
        """Return an answer that contains all findings."""
        paper = {"id": self.paper.id, "title": self.paper.title}
        json = {"cause": cause, "verdict": verdict, "email": self.subscriber.email, "paper": paper}
        return WhyAnswer(verdict=verdict, lines=tuple(self.lines), json={**json, **more, "lines": self.lines})


def minute_text(moment: datetime) -> str:
    """Return a UTC time to the minute, such as `2026-11-20 08:00 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
