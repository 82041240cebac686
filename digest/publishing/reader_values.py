"""Define the values with which digests are published: readers, their topics, and the decisions for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import NamedTuple

from digest.editions.compose import Digest, FollowUp
from digest.editions.schedule import Edition
from digest.publishing.match_index import MatchIndex
from digest.publishing.paper_eligibility import Coverage

Topic = tuple[str, int]  #: a topic's name and the id of its filter


class Reader(NamedTuple):
    """The subscriber columns needed for a decision; a tuple, because a run reads many subscribers."""

    id: int
    email: str
    owner_email: str | None  #: of a group
    cadence: str
    at: time
    timezone: str
    weekday: int
    max_papers: int
    abstracts: str
    next_due_at: datetime | None
    considered_until: datetime | None
    considered_paper_id: int | None
    created_at: datetime
    confirmed_at: datetime | None
    last_mail_at: datetime | None
    wants_nothing_today_letters: bool
    still_reading_step: int
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class PendingFollowups:
    """The updates that have not been sent to one reader yet, and the time when the first was seen."""

    news: tuple[FollowUp, ...]
    since: datetime


class Decision(NamedTuple):
    """The content of one subscriber's edition, and the papers from which it was chosen."""

    reader: Reader
    edition: Edition
    digest: Digest
    eligible: int  #: the papers that the edition could show, as a bitset
    covered: Coverage  #: how far earlier editions had considered the catalog
    pending: PendingFollowups | None = None  #: updates to papers that the reader was sent earlier


@dataclass(frozen=True, slots=True)
class GatheredInputs:
    """The values that are needed to decide the digest of each reader in a chunk."""

    match_index: MatchIndex
    now: datetime
    readers: Sequence[Reader]
    topics: Mapping[int, Sequence[Topic]]
    #: Numbers of the papers that a reader was already shown, perhaps in an earlier version, keyed by
    #: subscriber id.
    shown: Mapping[int, set[int]]
    #: Updates to papers that a reader was sent earlier, keyed by subscriber id.
    pending: Mapping[int, PendingFollowups]
    #: Ids of the earlier versions of papers whose titles changed, keyed by paper number.
    versions: Mapping[int, Collection[int]]
