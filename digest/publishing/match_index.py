"""Index a press for composing, so that each filter and each set of eligible papers is computed once.

Filters are evaluated once per press and process, however many subscribers hold them. Sets of papers
are integers. The papers new since a `considered_until` are found once for each, and a morning has few.
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

FIRST_LOOK = timedelta(hours=24)  #: how far a new subscriber's first digest reaches back
TRENDS_AGAIN_WITHIN = timedelta(days=7)  #: how long a paper that the size limit left out may return
ARRIVAL_RACE = timedelta(hours=1)  #: longer than a load takes; see `is_news`

ConsideredUntil = tuple[datetime, int | None]  #: papers up to this moment, and up to this id, were considered

#: A paper trends above this score: more votes a day than expected of a paper without any figures.
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
        """Return the papers indexed for matching; it is built only when a topic needs it."""
        return self.press.index

    @cached_property
    def trending(self) -> RankedMatches:
        """Return the ranked papers for readers without a topic."""
        return compose.rank_all(self.press.scores, self.near_duplicates)

    @cached_property
    def near_duplicates(self) -> Mapping[int, int]:
        """Return the papers whose text is almost the same as another's."""
        return near_duplicates(self.press.papers)

    def evaluate(self, filters: Mapping[int, str]) -> None:
        """Evaluate canonical filters, given by id, and keep their ranked matches."""
        parsed = {number: parse_or_none(canonical) for number, canonical in filters.items()}
        known = {number: one for number, one in parsed.items() if one is not None}
        found = self.index.evaluate(known)
        self.canonicals.update(filters)
        for number in filters:
            matches = found.get(number, 0)
            relevance = self.index.relevance(known[number], matches) if matches else {}
            self.choices[number] = compose.rank_matches(
                matches, self.press.scores, relevance, self.near_duplicates
            )

    def narrowing(self, filter_id: int, papers_a_day: int) -> topics.Narrowing | None:
        """Return a clause that would narrow a filter to `papers_a_day`, or None; cached."""
        if (filter_id, papers_a_day) not in self.narrowings:
            self.narrowings[filter_id, papers_a_day] = self.find_narrowing(filter_id, papers_a_day)
        return self.narrowings[filter_id, papers_a_day]

    def find_narrowing(self, filter_id: int, papers_a_day: int) -> topics.Narrowing | None:
        """Find a narrowing clause, taking the best-ranked papers as those that readers would keep."""
        filter_ = parse_or_none(self.canonicals[filter_id]) if filter_id in self.canonicals else None
        if filter_ is None:
            return None
        papers = self.press.papers
        days = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
        best = compose.bitset(self.choices[filter_id].order[: papers_a_day * len(set(days))])
        return topics.find_narrowing(filter_, papers, self.index, days, best=best, capacity=papers_a_day)

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, considered_until: ConsideredUntil, joined_on: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber with that `considered_until`.

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
        """Return whether an earlier paper trends now, by figures newer than the last edition considered."""
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
    """Return whether a paper is newer than the last one considered.

    True also for a paper that arrived later (its id is higher) although it is dated earlier on that day:
    from a second dump of the day, or from one that was being loaded while the edition was published.
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
    """Return whether a paper was published in the last `days` days; if unknown, whether first seen then."""
    born = paper.published or paper.first_seen_at.astimezone(UTC).date()
    return born >= today - timedelta(days=days)


def parse_or_none(canonical: str) -> topics.Filter | None:
    """Return the filter, or None for a stored one that today's filter language does not accept."""
    try:
        filter_ = topics.parse(canonical)
        return topics.resolve_filter(filter_, {})  # no packs needed: they were resolved when it was stored
    except BadFilter as error:
        log.warning("a stored filter cannot be parsed and matches nothing: %s", error)
        return None


def start_of_day(moment: datetime) -> datetime:
    """Return the start of the UTC day of `moment`."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
