"""Index a press for matching, so that each filter and each set of eligible papers is computed once.

Filters are evaluated once per press and process, regardless of how many subscribers use them. Sets of
papers are integers used as bitsets. The papers new since a `considered_until` are found once per value;
there are only a few values a day.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property

from digest import topics
from digest.editions import compose
from digest.editions.compose import RankedMatches
from digest.errors import BadFilter
from digest.letters.press import Press
from digest.papers import Paper, trending
from digest.publishing.near_duplicates import near_duplicates

log = logging.getLogger(__name__)

FIRST_LOOK = timedelta(hours=24)  #: the period from which a new subscriber's first digest takes papers
TRENDS_AGAIN_WITHIN = timedelta(days=7)  #: how long a paper left out by the size limit may be shown later
ARRIVAL_RACE = timedelta(hours=1)  #: a time longer than loading a dump takes; see `is_news`

#: The memory of a cached filter or clause, besides two sets with a bit for each paper, which is the mean.
FILTER_BYTES = 1_600
MAX_BYTES = 170_000_000  #: for the filters and clauses of an index: of 2,000 papers, 80,000

ConsideredUntil = tuple[datetime, int | None]  #: the time and the paper id up to which papers were considered

#: Above this score a paper is trending; it is expected to get clearly more votes a day than a new paper
#: without signals.
TRENDING_SCORE = trending.NEWCOMER_SCORE + trending.MIN_REASON_BITS


class MatchIndex:
    """A press, its paper index, and the results computed so far."""

    def __init__(self, press: Press) -> None:
        self.press = press
        self.ids = tuple(paper.id for paper in press.papers)
        self.last_id = max(self.ids, default=0)
        self.choices: dict[int, RankedMatches] = {}
        self.canonicals: dict[int, str] = {}
        self.eligible_cache: dict[tuple[ConsideredUntil, datetime, datetime], int] = {}
        self.young_cache: dict[tuple[int, date], int] = {}
        self.narrowings: dict[tuple[int, int], topics.Narrowing | None] = {}

    # ── which papers a topic matches ────────────────────────────────────────────────────────────

    @property
    def index(self) -> topics.PaperIndex:
        """Return the index of the papers; it is built when a topic first needs it."""
        return self.press.index

    @cached_property
    def trending(self) -> RankedMatches:
        """Return the ranked papers for readers without a topic."""
        return compose.rank_all(self.press.scores, self.near_duplicates)

    @cached_property
    def near_duplicates(self) -> Mapping[int, int]:
        """Return the near duplicates of each paper."""
        return near_duplicates(self.press.papers)

    def evaluate(self, filters: Mapping[int, str]) -> None:
        """Evaluate canonical filters, keyed by id, and cache their ranked matches."""
        self.canonicals.update(filters)
        for number, canonical in filters.items():
            self.choices[number] = self.rank(canonical)

    def rank(self, canonical: str) -> RankedMatches:
        """Return the matches of a filter; none if the current filter language does not accept the filter."""
        try:
            found = self.matcher.sets_by_relevance(canonical)
        except BadFilter as error:
            log.warning("a stored filter cannot be parsed and matches nothing: %s", error)
            found = ()
        return compose.rank_sets(found, self.press.scores, self.near_duplicates)

    def rank_unstored(self, filter_: topics.Filter) -> RankedMatches:
        """Return the matches of a visitor's filter, best first; cached results are limited."""
        matches = self.index.matches(filter_)
        relevance = self.index.relevance(filter_, matches)
        return compose.rank_matches(matches, self.press.scores, relevance, self.near_duplicates)

    @cached_property
    def matcher(self) -> topics.CanonicalMatcher:
        """Return the matcher of the papers' index."""
        return topics.CanonicalMatcher(self.index)

    def limit_filters(self) -> None:
        """Discard the cached results of all filters if there are too many for the memory of a worker."""
        cached = len(self.choices) + self.matcher.clauses_cached
        if cached * (FILTER_BYTES + len(self.ids) // 4) > MAX_BYTES:
            self.forget_filters()

    def forget_filters(self) -> None:
        """Discard the cached results of all filters."""
        self.matcher.forget_clauses()
        self.choices.clear()
        self.canonicals.clear()
        self.narrowings.clear()

    def narrowing(self, filter_id: int, papers_a_day: int) -> topics.Narrowing | None:
        """Return a clause that narrows a filter to `papers_a_day`, or None; the result is cached."""
        if (filter_id, papers_a_day) not in self.narrowings:
            self.narrowings[filter_id, papers_a_day] = self.find_narrowing(filter_id, papers_a_day)
        return self.narrowings[filter_id, papers_a_day]

    def find_narrowing(self, filter_id: int, papers_a_day: int) -> topics.Narrowing | None:
        """Find a narrowing clause, assuming that readers prefer the best-ranked papers."""
        filter_ = parse_or_none(self.canonicals[filter_id]) if filter_id in self.canonicals else None
        if filter_ is None:
            return None
        papers = self.press.papers
        days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
        best = compose.bitset(self.choices[filter_id].order[: papers_a_day * len(set(days))])
        return topics.find_narrowing(filter_, papers, self.index, days, best=best, capacity=papers_a_day)

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, considered_until: ConsideredUntil, joined_on: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber with this `considered_until`.

        `joined_on` is the start of the day the subscriber joined.
        """
        since = max(joined_on, considered_until[0] - TRENDS_AGAIN_WITHIN)
        key = (considered_until, since, now)
        if key not in self.eligible_cache:
            if len(self.eligible_cache) >= 1024:
                self.eligible_cache.clear()
            self.eligible_cache[key] = compose.bitset(
                number
                for number, paper in enumerate(self.press.papers)
                if paper.first_seen_at <= now
                and (
                    is_news(paper, considered_until)
                    or (paper.first_seen_at >= since and self.trends_again(number, considered_until))
                )
            )
        return self.eligible_cache[key]

    def trends_again(self, number: int, considered_until: ConsideredUntil) -> bool:
        """Return whether a paper considered earlier is trending by observations since the last edition."""
        return self.press.as_of > considered_until[0] and self.press.scores[number] > TRENDING_SCORE

    def recently_published(self, days: int, today: date) -> int:
        """Return the papers published in the last `days` days."""
        if (days, today) not in self.young_cache:
            self.young_cache[days, today] = compose.bitset(
                number
                for number, paper in enumerate(self.press.papers)
                if is_recently_published(paper, days, today)
            )
        return self.young_cache[days, today]


def is_news(paper: Paper, considered_until: ConsideredUntil) -> bool:
    """Return whether a paper is newer than the last paper considered.

    A paper that was first seen earlier but has a higher id is also new: it came with a second dump of the
    day, or with a dump that was being loaded while the edition was published.
    """
    moment, last_id = considered_until
    if paper.first_seen_at > moment:
        return True
    return (
        last_id is not None
        and paper.id > last_id
        and paper.first_seen_at >= start_of_day(moment - ARRIVAL_RACE)
    )


def is_recently_published(paper: Paper, days: int, today: date) -> bool:
    """Return whether a paper was published, or else first seen, in the last `days` days."""
    born = paper.published or paper.first_seen_at.astimezone(UTC).date()
    return born >= today - timedelta(days=days)


def parse_or_none(canonical: str) -> topics.Filter | None:
    """Parse a stored filter; return None if the current filter language does not accept it."""
    try:
        filter_ = topics.parse(canonical)
        return topics.resolve_filter(filter_, {})  # no packs: the stored filter is already resolved
    except BadFilter:
        return None


def start_of_day(moment: datetime) -> datetime:
    """Return the start of the UTC day of `moment`."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
