"""What happened in the pilot: what people did and were promised, what was loaded, and what arrived."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a reader asked for: a cadence as the docs write it, an hour, a zone, and words to look for."""

    cadence: str = "daily"
    at: str = "08:00"
    zone: str = "UTC"
    words: tuple[str, ...] = ()  #: a topic for each; without any, the reader gets trending papers

    def changed(self, **parts: object) -> Wishes:
        return replace(self, **parts)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something that a person did and that the service accepted."""

    at: datetime
    email: str
    #: asked, confirmed, added, left, returned, removed, paused, resumed, changed, moved, lost (the address
    #: bounces for good), restored (for all readers; `since` is the time of the backup)
    what: str
    wishes: Wishes | None = None
    until: date | None = None
    to: str = ""  #: the new address
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedPaper:
    """A paper of a list that the service said it had loaded."""

    title: str
    words: frozenset[str]
    loaded_at: datetime


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A letter in a mailbox."""

    at: datetime
    dated: datetime  #: the time in its Date header
    to: str
    kind: str
    edition: str
    text: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a page, a letter or a command said about a reader's next digest."""

    at: datetime
    email: str
    text: str = ""
    due: datetime | None = None  #: without a text


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What `digest why` answered about a paper or an edition."""

    at: datetime
    email: str
    title: str = ""
    edition: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Status:
    """What `digest status` said."""

    at: datetime
    due_now: int
    next_due: datetime | None
    since: tuple[datetime, ...]  #: since when there are problems, late lists and stops
    until: tuple[datetime, ...]  #: until when something waits


@dataclass(kw_only=True)
class Diary:
    """Everything that the oracle may know."""

    begin: datetime
    end: datetime
    acts: list[Act] = field(default_factory=list)
    papers: list[LoadedPaper] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    promises: list[Stated] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    composed: list[datetime] = field(default_factory=list)  #: when due digests were composed
    runs: list[datetime] = field(default_factory=list)  #: when letters were delivered
    stops: list[tuple[datetime, datetime]] = field(default_factory=list)  #: while all mail was stopped
