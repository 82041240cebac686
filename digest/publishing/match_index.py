"""Index the papers of one press for matching, and cache the results.

A press is the prepared content of one publication. A filter is evaluated once per press and process, however
many subscribers use it. Sets of papers are integers used as bitsets. The papers newer than a
`considered_until` are found once per value, and only a few values occur in a day.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property

from digest.editions import compose
from digest.editions.compose import RankedMatches
from digest.errors import BadFilter
from digest.letters.press.press_value import Press
from digest.papers import bitsets
from digest.publishing.near_duplicates import near_duplicates
from digest.publishing.paper_eligibility import (
    TRENDING_SCORE,
    TRENDS_AGAIN_WITHIN,
    ConsideredUntil,
    is_news,
)
from digest.topics import pack_resolution
from digest.topics.filter_parser import Filter
from digest.topics.paper_index import PaperIndex

log = logging.getLogger(__name__)

#: Mean memory of a cached filter in bytes, without its two sets, which have a bit for each paper.
FILTER_BYTES = 1_600
#: Maximum memory in bytes for the cached filters of an index; enough for 60,000 with 2,000 papers.
MAX_BYTES = 130_000_000


class MatchIndex:
    """A press, the index of its papers, and the results computed from them so far."""

    def __init__(self, press: Press) -> None:
        self.press = press
        self.ids = tuple(paper.id for paper in press.papers)
        self.last_id = max(self.ids, default=0)
        self.choices: dict[int, RankedMatches] = {}
        self.canonicals: dict[int, str] = {}
        self.eligible_cache: dict[tuple[ConsideredUntil, datetime, datetime], int] = {}

    # ── which papers a topic matches ────────────────────────────────────────────────────────────

    @property
    def index(self) -> PaperIndex:
        """Return the index of the papers, which is built when a topic first needs it."""
        return self.press.index

    @cached_property
    def trending(self) -> RankedMatches:
        """Return the papers in trending order, for readers without topics."""
        return compose.rank_all(self.press.scores, self.near_duplicates)

    @cached_property
    def near_duplicates(self) -> Mapping[int, int]:
        """Return the near duplicates of each paper, keyed by paper number."""
        return near_duplicates(self.press.papers)

    def evaluate(self, filters: Mapping[int, str]) -> None:
        """Evaluate canonical filters (keyed by id), and cache their matches in order of rank."""
        self.canonicals.update(filters)
        for number, canonical in filters.items():
            self.choices[number] = self.rank(canonical)

    def rank(self, canonical: str) -> RankedMatches:
        """Return the matches of a filter; there are none if the current filter language rejects it."""
        try:
            found = self.index.sets_by_relevance(pack_resolution.parse_resolved(canonical))
        except BadFilter as error:
            log.warning("a stored filter cannot be parsed and matches nothing: %s", error)
            found = ()
        return compose.rank_sets(found, self.press.scores, self.near_duplicates)

    def rank_unstored(self, filter_: Filter) -> RankedMatches:
        """Return the matches of a visitor's filter, best first; a limited number of results is cached."""
        matches = self.index.matches(filter_)
        relevance = self.index.relevance(filter_, matches)
        return compose.rank_matches(matches, self.press.scores, relevance, self.near_duplicates)

    def limit_filters(self) -> None:
        """Discard the cached results of all filters if they take too much of a worker's memory."""
        if len(self.choices) * (FILTER_BYTES + len(self.ids) // 4) > MAX_BYTES:
            self.choices.clear()
            self.canonicals.clear()

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, considered_until: ConsideredUntil, joined_on: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber with this `considered_until`.

        `joined_on` is the start of the day on which the subscriber joined.
        """
        since = max(joined_on, considered_until[0] - TRENDS_AGAIN_WITHIN)
        key = (considered_until, since, now)
        found = self.eligible_cache.get(key)
        if found is None:
            if len(self.eligible_cache) >= 1024:
                self.eligible_cache.clear()
            found = self.eligible_cache[key] = bitsets.bitset_of(
                [
                    number
                    for number, paper in enumerate(self.press.papers)
                    if paper.first_seen_at <= now
                    and (
                        is_news(paper, considered_until)
                        or (paper.first_seen_at >= since and self.trends_again(number, considered_until))
                    )
                ]
            )
        return found

    def trends_again(self, number: int, considered_until: ConsideredUntil) -> bool:
        """Return whether a paper considered earlier is trending by a score from a dump observed since then."""
        return self.press.as_of > considered_until[0] and self.press.scores[number] > TRENDING_SCORE


def parse_or_none(canonical: str) -> Filter | None:
    """Parse a stored filter; return None if the current filter language rejects it."""
    try:
        return pack_resolution.parse_resolved(canonical)
    except BadFilter:
        return None
