"""Rank matches whose relevance is given paper by paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from digest.editions.compose import NO_DUPLICATES, NO_RELEVANCE, RankedMatches, rank_sets
from digest.papers import bitsets


def rank_matches(
    matches: int,
    scores: Sequence[float],
    relevance: Mapping[int, float],
    near_duplicates: Mapping[int, int] = NO_DUPLICATES,
) -> RankedMatches:
    """Rank the matches of a filter by worth; papers that `relevance` does not contain have relevance 0."""
    sets: dict[float, int] = {}
    for number in bitsets.members(matches):
        fits = relevance.get(number, 0.0)
        sets[fits] = sets.get(fits, 0) | 1 << number
    return rank_sets(sorted(sets.items(), reverse=True), scores, near_duplicates)


def order_of(ranked: RankedMatches) -> tuple[int, ...]:
    """Return all matching paper numbers, highest worth first."""
    return ranked.eligible_order(ranked.matches)


def relevance_of(ranked: RankedMatches, number: int) -> float:
    """Return the relevance of a paper, or `NO_RELEVANCE`."""
    return next((fits for fits, papers in ranked.by_relevance if papers >> number & 1), NO_RELEVANCE)
