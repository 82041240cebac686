"""What publishing thinks in: readers, the topics they hold, and what is decided for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple

from digest.composition import Digest, FollowUp
from digest.editions import Edition

Topic = tuple[str, int]  #: its name and the id of its filter

PATIENCE = timedelta(days=7)  #: for so long news of earlier papers wait for papers to come with


class Reader(NamedTuple):
    """What deciding needs to know of a subscriber, column by column. (A tuple: looked at forty times each.)"""

    id: int
    email: str
    cadence: str
    at: time
    timezone: str
    weekday: int
    not_after: time | None
    max_papers: int
    max_per_topic: int
    min_papers: int
    max_age_days: int | None
    wants_trending: bool
    next_due_at: datetime | None
    cut_at: datetime | None
    cut_paper_id: int | None
    created_at: datetime
    confirmed_at: datetime | None
    heard_at: datetime | None
    wants_quiet_letters: bool
    full_in_a_row: str | None
    offered_at: datetime | None
    is_back: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """What a schedule says at a moment."""

    open: Edition | None
    missed: tuple[Edition, ...]
    next_due_at: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """What one reader is to be told, and since when that has been known."""

    news: tuple[FollowUp, ...]
    since: datetime

    def is_overdue(self, now: datetime) -> bool:
        """Return whether this waits for papers no longer."""
        return now - self.since >= PATIENCE


class Decision(NamedTuple):
    """What one subscriber is shown in one edition."""

    reader: Reader
    edition: Edition
    digest: Digest
    eligible: int  #: the papers it could show, by number
    covers_from: datetime
    is_held: bool  #: fewer papers than wanted: they stay news for the next edition
    pending: Pending | None = None  #: what became of earlier papers


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that deciding on a chunk needs."""

    readers: Sequence[Reader]
    topics: Mapping[int, Sequence[Topic]]
    shown: Mapping[int, set[int]]  #: subscriber to the numbers of papers
    pending: Mapping[int, Pending]  #: subscriber to what became of papers they were sent
