"""Define the values of publishing: readers, their topics, and the decisions for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple

from digest.editions.compose import Digest, FollowUp
from digest.editions.schedule import Edition

Topic = tuple[str, int]  #: a topic's name and the id of its filter

FOLLOWUPS_MAY_WAIT = timedelta(days=7)  #: maximum time that updates wait for a digest with papers


class Reader(NamedTuple):
    """The columns of a subscriber that a decision needs; a tuple, because it is read often."""

    id: int
    email: str
    owner_email: str | None  #: of a group
    cadence: str
    at: time
    timezone: str
    weekday: int
    not_after: time | None
    max_papers: int
    min_papers: int
    max_age_days: int | None
    abstracts: str
    wants_trending: bool
    next_due_at: datetime | None
    considered_until: datetime | None
    considered_paper_id: int | None
    created_at: datetime
    confirmed_at: datetime | None
    last_mail_at: datetime | None
    wants_nothing_today_letters: bool
    full_streaks: str | None
    narrowing_suggested_at: datetime | None
    still_reading_step: int
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """The state of a schedule at one time."""

    open_edition: Edition | None
    missed_editions: tuple[Edition, ...]
    next_due_at: datetime


@dataclass(frozen=True, slots=True)
class PendingFollowups:
    """The updates that wait to be sent to one reader, and when the first of them was seen."""

    news: tuple[FollowUp, ...]
    since: datetime

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the updates have waited the maximum time for a digest with papers."""
        return now - self.since >= FOLLOWUPS_MAY_WAIT


class Decision(NamedTuple):
    """The content of one subscriber's edition."""

    reader: Reader
    edition: Edition
    digest: Digest
    eligible: int  #: the bitset of the papers that the edition could show
    covers_from: datetime
    #: whether there are fewer papers than `min_papers`; the papers remain new for the next edition
    is_too_few: bool
    pending: PendingFollowups | None = None  #: updates to papers that were sent earlier


@dataclass(frozen=True, slots=True)
class GatheredInputs:
    """The inputs for decisions about a chunk of readers."""

    readers: Sequence[Reader]
    topics: Mapping[int, Sequence[Topic]]
    shown: Mapping[int, set[int]]  #: numbers of the papers already shown, keyed by subscriber id
    pending: Mapping[int, PendingFollowups]  #: updates to papers sent earlier, keyed by subscriber id
