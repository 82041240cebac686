"""One question: which subscriber, which paper, what was found out, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from digest.links import Site
from digest.model import Subscriber
from digest.papers import Paper
from digest.rendering import Templates


class Cause(StrEnum):
    """What decided."""

    SHOWN = "shown"  #: it was put into a digest
    UNKNOWN = "unknown"  #: no dump had it
    HISTORY = "history"  #: back-filled: in the catalog, never news
    WITHDRAWN = "withdrawn"  #: its authors took it back
    UNMATCHED = "unmatched"  #: no topic asked for it
    TOO_OLD = "too old"  #: published longer ago than the subscriber wants
    OVER_CAP = "over the cap"  #: others stood before it
    TOO_FEW = "too few"  #: too few papers for a digest: they wait
    NOT_DUE = "not due yet"  #: the edition it is news for is still to come
    BEFORE = "before"  #: seen before the subscriber's first digest began
    LATE = "late"  #: arrived when its day had been published
    UNSENT = "unsent"  #: its digest was made and never sent
    SUPPRESSED = "suppressed"
    PENDING = "pending"
    PAUSED = "paused"
    UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One sentence, what speaks for it, and both for scripts."""

    verdict: str
    lines: tuple[str, ...] = ()
    json: dict[str, Any]


@dataclass(kw_only=True)
class Question:
    """One subscriber, one paper, and what was found out so far."""

    session: Session
    site: Site
    templates: Templates
    subscriber: Subscriber
    paper: Paper
    now: datetime
    lines: list[str] = field(default_factory=list)

    def answer(self, cause: Cause, verdict: str, **more: Any) -> Answer:
        """Return the answer, with all that was found out on the way."""
        paper = {"id": self.paper.id, "title": self.paper.title}
        told = {"cause": cause, "verdict": verdict, "email": self.subscriber.email, "paper": paper}
        return Answer(verdict=verdict, lines=tuple(self.lines), json={**told, **more, "lines": self.lines})


def minute(moment: datetime) -> str:
    """Return a moment as the lines say it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
