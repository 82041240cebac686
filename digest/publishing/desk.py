"""The desk: a press laid out for composing, so that each question is answered once for all readers.

Filters are evaluated once per press and process, however many subscribers hold them. Sets of papers
are integers; the set that is news since a cut is found once per cut, and a morning has few cuts.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Generic, TypeVar

from digest import composition, ranking, topics
from digest.composition import Choice
from digest.errors import BadFilter
from digest.papers import Paper
from digest.press import Press

log = logging.getLogger(__name__)

FIRST_LOOK = timedelta(hours=24)  #: what a new subscriber's first digest reaches back
SECOND_CHANCE = timedelta(days=7)  #: for so long a paper that a cap left out may return
RACE = timedelta(hours=1)  #: longer than a load takes; see `Desk.news`

Cut = tuple[datetime, int | None]  #: papers up to this moment, and up to this id, were considered

#: What trends now: more votes a day than a paper nobody knows anything about is expected to draw.
TRENDS = ranking.NEWCOMER + ranking.TELLING


Key = TypeVar("Key", datetime, int)


class Ladder(Generic[Key]):
    """Papers in the order of a key: asked for those above a rung."""

    def __init__(self, papers: Iterable[tuple[Key, int]]) -> None:
        rungs = sorted(papers)
        self.keys: list[Key] = [key for key, _ in rungs]
        self.numbers = [number for _, number in rungs]

    def after(self, key: Key) -> int:
        """Return the set of papers above `key`."""
        return composition.bits(self.numbers[bisect_right(self.keys, key) :])

    def from_(self, key: Key) -> int:
        """Return the set of papers at `key` or above."""
        return composition.bits(self.numbers[bisect_left(self.keys, key) :])


class Desk:
    """A press, its index and what was asked of it so far."""

    def __init__(self, press: Press) -> None:
        self.press = press
        self.ids = tuple(paper.id for paper in press.papers)
        self.choices: dict[int, Choice] = {}
        self.kept: dict[tuple[Cut, datetime, datetime], int] = {}
        self.recent: dict[tuple[int, date], int] = {}

    # ── which papers a topic chooses ────────────────────────────────────────────────────────────

    @cached_property
    def index(self) -> topics.Index:
        """Return the papers indexed for matching; not built for readers without topics."""
        return topics.Index(self.press.papers)

    @cached_property
    def trending(self) -> Choice:
        """Return the choice of who named no topic."""
        return composition.trending(self.press.scores)

    def learn(self, filters: Mapping[int, str]) -> None:
        """Evaluate canonical filters, by id, that were not asked for before."""
        parsed = {number: read(canonical) for number, canonical in filters.items()}
        known = {number: one for number, one in parsed.items() if one is not None}
        found = self.index.evaluate(known)
        for number in filters:
            matches = found.get(number, 0)
            relevance = self.index.relevance(known[number], matches) if matches else {}
            self.choices[number] = composition.choice(matches, self.press.scores, relevance)

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, cut: Cut, came: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber with that cut who came on the day `came`."""
        asked = (cut, max(came, cut[0] - SECOND_CHANCE), now)
        found = self.kept.get(asked)
        if found is None:
            if len(self.kept) >= 4096:
                self.kept.clear()
            found = self.kept[asked] = self.seen_by(now) & (self.news(cut) | self.returning(cut, came))
        return found

    def news(self, cut: Cut) -> int:
        """Return what came after the cut.

        Also what arrived later (it has a higher id) although it was seen earlier on the day of the
        cut: a second dump of that day, or one that was being loaded while the cut was made.
        """
        moment, last_id = cut
        late = 0
        if last_id is not None:
            late = self.by_id.after(last_id) & self.by_age.from_(start_of_day(moment - RACE))
        return self.by_age.after(moment) | late

    def returning(self, cut: Cut, came: datetime) -> int:
        """Return what a cap may have left out in the last days and trends now, by newer figures."""
        moment, _ = cut
        if self.press.as_of <= moment:
            return 0
        return self.trends & self.by_age.from_(max(moment - SECOND_CHANCE, came))

    def seen_by(self, now: datetime) -> int:
        """Return what had been seen by `now`."""
        return self.everything & ~self.by_age.after(now)

    def aged(self, days: int, today: date) -> int:
        """Return the papers published in the last so many days; of unknown ones the first sight counts."""
        since = today - timedelta(days=days)
        if (days, today) not in self.recent:
            young = (n for n, paper in enumerate(self.press.papers) if born(paper) >= since)
            self.recent[days, today] = composition.bits(young)
        return self.recent[days, today]

    @cached_property
    def everything(self) -> int:
        """Return the set of all papers."""
        return (1 << len(self.ids)) - 1

    @cached_property
    def trends(self) -> int:
        """Return the papers of which the figures say that they trend now."""
        return composition.bits(n for n, score in enumerate(self.press.scores) if score > TRENDS)

    @cached_property
    def by_age(self) -> Ladder[datetime]:
        """Return the papers by when they were first seen."""
        return Ladder((paper.first_seen_at, number) for number, paper in enumerate(self.press.papers))

    @cached_property
    def by_id(self) -> Ladder[int]:
        """Return the papers in the order they arrived in."""
        return Ladder((paper_id, number) for number, paper_id in enumerate(self.ids))


def read(canonical: str) -> topics.Filter | None:
    """Return the filter, or None for one that an older language allowed and ours does not."""
    try:
        return topics.parse(canonical)
    except BadFilter as error:
        log.warning("a stored filter cannot be read and matches nothing: %s", error)
        return None


def born(paper: Paper) -> date:
    """Return the day a paper was published, as far as that is known."""
    return paper.published or paper.first_seen_at.astimezone(UTC).date()


def start_of_day(moment: datetime) -> datetime:
    """Return the first moment of that day in UTC."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
