"""The desk: a press laid out for composing, so that each question is answered once for all readers.

Filters are evaluated once per press and process, however many subscribers hold them. Sets of papers
are integers; the set that is news since a cut is found once per cut, and a morning has few cuts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property

from digest import composition, ranking, topics
from digest.composition import Choice
from digest.errors import BadFilter
from digest.papers import Paper
from digest.press import Press
from digest.publishing.twins import twins

log = logging.getLogger(__name__)

FIRST_LOOK = timedelta(hours=24)  #: what a new subscriber's first digest reaches back
SECOND_CHANCE = timedelta(days=7)  #: for so long a paper that a cap left out may return
RACE = timedelta(hours=1)  #: longer than a load takes; see `is_news`

Cut = tuple[datetime, int | None]  #: papers up to this moment, and up to this id, were considered

#: What trends now: more votes a day than a paper nobody knows anything about is expected to draw.
TRENDS = ranking.NEWCOMER + ranking.TELLING


class Desk:
    """A press, its index and what was asked of it so far."""

    def __init__(self, press: Press) -> None:
        self.press = press
        self.ids = tuple(paper.id for paper in press.papers)
        self.last_id = max(self.ids, default=0)
        self.choices: dict[int, Choice] = {}
        self.canonicals: dict[int, str] = {}
        self.kept: dict[tuple[Cut, datetime, datetime], int] = {}
        self.recent: dict[tuple[int, date], int] = {}
        self.narrowings: dict[tuple[int, int], topics.Narrowing | None] = {}

    # ── which papers a topic chooses ────────────────────────────────────────────────────────────

    @property
    def index(self) -> topics.Index:
        """Return the papers indexed for matching; not built for readers without topics."""
        return self.press.index

    @cached_property
    def trending(self) -> Choice:
        """Return the choice of who named no topic."""
        return composition.trending(self.press.scores, self.twins)

    @cached_property
    def twins(self) -> Mapping[int, int]:
        """Return the papers that say almost the same as others."""
        return twins(self.press.papers)

    def learn(self, filters: Mapping[int, str]) -> None:
        """Evaluate canonical filters, by id, that were not asked for before."""
        parsed = {number: read(canonical) for number, canonical in filters.items()}
        known = {number: one for number, one in parsed.items() if one is not None}
        found = self.index.evaluate(known)
        self.canonicals.update(filters)
        for number in filters:
            matches = found.get(number, 0)
            relevance = self.index.relevance(known[number], matches) if matches else {}
            self.choices[number] = composition.choice(matches, self.press.scores, relevance, self.twins)

    def narrowing(self, filter_id: int, room: int) -> topics.Narrowing | None:
        """Return what would narrow a filter down to `room` papers a day."""
        if (filter_id, room) not in self.narrowings:
            self.narrowings[filter_id, room] = self.narrowed(filter_id, room)
        return self.narrowings[filter_id, room]

    def narrowed(self, filter_id: int, room: int) -> topics.Narrowing | None:
        """Look for that: what is worth most here stands for what its readers would keep."""
        filter_ = read(self.canonicals[filter_id]) if filter_id in self.canonicals else None
        if filter_ is None:
            return None
        papers = self.press.papers
        days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
        best = composition.bits(self.choices[filter_id].order[: room * len(set(days))])
        return topics.narrowed(filter_, papers, self.index, days, best=best, room=room)

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, cut: Cut, came: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber with that cut who came on the day `came`."""
        since = max(came, cut[0] - SECOND_CHANCE)
        asked = (cut, since, now)
        if asked not in self.kept:
            if len(self.kept) >= 1024:
                self.kept.clear()
            self.kept[asked] = composition.bits(
                number
                for number, paper in enumerate(self.press.papers)
                if paper.first_seen_at <= now
                and (is_news(paper, cut) or (paper.first_seen_at >= since and self.returns(number, cut)))
            )
        return self.kept[asked]

    def returns(self, number: int, cut: Cut) -> bool:
        """Return whether a paper that an earlier cap left out trends now, by figures newer than the cut."""
        return self.press.as_of > cut[0] and self.press.scores[number] > TRENDS

    def young(self, days: int, today: date) -> int:
        """Return the papers published in the last so many days."""
        if (days, today) not in self.recent:
            self.recent[days, today] = composition.bits(
                number for number, paper in enumerate(self.press.papers) if is_young(paper, days, today)
            )
        return self.recent[days, today]


def is_news(paper: Paper, cut: Cut) -> bool:
    """Return whether a paper came after a cut.

    Also one that arrived later (its id is higher) although it was seen earlier on the day of the cut:
    a second dump of that day, or one that was being loaded while the cut was made.
    """
    moment, last_id = cut
    if paper.first_seen_at > moment:
        return True
    return last_id is not None and paper.id > last_id and paper.first_seen_at >= start_of_day(moment - RACE)


def is_young(paper: Paper, days: int, today: date) -> bool:
    """Return whether a paper was published in the last so many days; if unknown, first seen then."""
    born = paper.published or paper.first_seen_at.astimezone(UTC).date()
    return born >= today - timedelta(days=days)


def read(canonical: str) -> topics.Filter | None:
    """Return the filter, or None for one that an older language allowed and ours does not."""
    try:
        filter_ = topics.parse(canonical)
        return topics.resolved(filter_, {})  # no packs at hand: who stored it put in what they stand for
    except BadFilter as error:
        log.warning("a stored filter cannot be read and matches nothing: %s", error)
        return None


def start_of_day(moment: datetime) -> datetime:
    """Return the first moment of that day in UTC."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
