"""Index the papers of one press for matching, and cache the results.

A press is the prepared content of one publication. A filter is evaluated once per press and process, however
many subscribers use it. Sets of papers are integers used as bitsets. The papers that are
new to a reader are found once per coverage, and only a few coverages occur in a day.
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
    Coverage,
    is_news,
)
from digest.topics import pack_resolution
from digest.topics.filter_parser import Filter

log = logging.getLogger(__name__)

#: Mean memory of a cached filter in bytes, without its two sets, which have a bit for each paper.
FILTER_BYTES = 1_600
#: Maximum memory in bytes for the cached filters of an index; enough for 60,000 with 2,000 papers.
MAX_BYTES = 130_000_000
NO_MATCHES = compose.rank_sets((), ())


class MatchIndex:
    """A press, the index of its papers, and the results computed from them so far."""

    def __init__(self, press: Press) -> None:
        self.press = press
        self.ids = tuple(paper.id for paper in press.papers)
        self.last_id = max(self.ids, default=0)
        self.choices: dict[int, RankedMatches] = {}
        self.canonicals: dict[int, str] = {}
        self.eligible_cache: dict[tuple[Coverage, datetime, datetime], int] = {}

    # ── which papers a topic matches ────────────────────────────────────────────────────────────

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
            filter_ = parse_or_none(canonical)
            self.choices[number] = self.rank(filter_) if filter_ else NO_MATCHES

    def rank(self, filter_: Filter) -> RankedMatches:
        """Return the matches of a filter, best first."""
        found = self.press.index.sets_by_relevance(filter_)
        return compose.rank_sets(found, self.press.scores, self.near_duplicates)

    def limit_filters(self) -> None:
        """Discard the cached results of all filters if they take too much of a worker's memory."""
        if len(self.choices) * (FILTER_BYTES + len(self.ids) // 4) > MAX_BYTES:
            self.choices.clear()
            self.canonicals.clear()

    # ── which papers may be shown ───────────────────────────────────────────────────────────────

    def eligible(self, covered: Coverage, joined_on: datetime, now: datetime) -> int:
        """Return the papers that may be shown to a subscriber whose editions have covered the catalog so far.

        These are news, and papers considered earlier that are trending by a score from a dump observed since
        then. `joined_on` is the start of the day on which the subscriber joined.
        """
        since = max(joined_on, covered.until - TRENDS_AGAIN_WITHIN)
        key, trends_again = (covered, since, now), self.press.as_of > covered.until
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
                        is_news(paper, covered)
                        or (
                            trends_again
                            and paper.first_seen_at >= since
                            and self.press.scores[number] > TRENDING_SCORE
                        )
                    )
                ]
            )
        return found


def parse_or_none(canonical: str) -> Filter | None:
    """Parse a stored filter; return None if the current filter language rejects it, so that it matches nothing."""
    try:
        return pack_resolution.parse_resolved(canonical)
    except BadFilter as error:
        log.warning("a stored filter cannot be parsed and matches nothing: %s", error)
        return None
