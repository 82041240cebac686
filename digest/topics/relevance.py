"""Compute the relevance of matching papers from the words of the filter's positive clauses.

A paper is scored for each clause by the clause's occurrences in title and abstract, as in BM25F. Two parts of
BM25F are omitted. There is no inverse document frequency: the alternatives of an OR are names for the same
thing, so a rare name does not count more than a common name. There is no length normalization: abstracts are
about equally long, and normalization did not improve the order.

There are few distinct counts of occurrences, so papers with the same score are handled together, as one set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from digest.papers import bitsets
from digest.papers.bitsets import ScoredSets
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import (
    And,
    AnywhereClause,
    DescriptionClause,
    ExampleClause,
    Leaf,
    Node,
    Not,
    Or,
    TextClause,
)

WORDLESS_SCORE = 0.5  #: the relevance of a filter's matches if no clause of the filter has words to count


@dataclass(frozen=True, kw_only=True, slots=True)
class RelevanceWeights:
    """The constants of the score; `make bench ARGS=relevance` measures their effect."""

    title: float = 5.0  #: one occurrence in the title counts as much as this many in the abstract
    saturation: float = 6.0  #: number of occurrences in the abstract that score half of the maximum
    #: the weight of each alternative of an OR except the first; the first is the main name
    other_name: float = 0.4

    def score(self, in_title: int, in_abstract: int) -> float:
        """Return the score of a clause, 0 to 1, from its number of occurrences."""
        frequency = self.title * in_title + in_abstract
        return frequency / (frequency + self.saturation)


WEIGHTS = RelevanceWeights()

#: A clause whose words are counted for the score of a paper.
ScoredClause: TypeAlias = TextClause | DescriptionClause | ExampleClause

#: If a clause has more distinct scores than this, as a description has, its papers are handled one by one.
MANY_SCORES = 32


class ClauseScores(Protocol):
    """The method of an index that is needed to compute relevance."""

    def scored_sets(self, leaf: ScoredClause, /) -> ScoredSets:
        """Return (score, papers) for each score that papers have for this clause."""
        ...


def totals_of(
    batch: ClauseScores, filter_: Filter, matches: int, weights: RelevanceWeights = WEIGHTS
) -> dict[float, int]:
    """Return {total of the weighted scores of all clauses: papers} for the papers in `matches`."""
    weighted = weighted_clauses(filter_.tree, weights.other_name)
    return totals(matches, ((batch.scored_sets(leaf), weight) for leaf, weight in weighted))


def by_relevance(totals: Mapping[float, int]) -> ScoredSets:
    """Return (relevance, papers), highest relevance first; the relevance of the best papers is 1."""
    ordered = sorted(totals.items(), reverse=True)
    best = ordered[0][0] if ordered else 0.0
    if not best:
        return [(WORDLESS_SCORE, papers) for _, papers in ordered]
    return [(total / best, papers) for total, papers in ordered]


def totals(matches: int, weighted: Iterable[tuple[ScoredSets, float]]) -> dict[float, int]:
    """Return {total of the weighted scores: papers} for the papers in `matches`."""
    found = {0.0: matches} if matches else {}
    for scored, weight in weighted:
        add = _add_scores if len(scored) <= MANY_SCORES else _add_many_scores
        found = add(found, scored, weight)
    return found


def _add_scores(totals: Mapping[float, int], scored: ScoredSets, weight: float) -> dict[float, int]:
    """Return {total: papers} after adding the weighted score of a clause to the total of each paper."""
    found: dict[float, int] = {}
    for total, left in totals.items():
        papers = left
        for score, having in scored:
            if both := papers & having:
                raised = total + weight * score
                found[raised] = found.get(raised, 0) | both
                papers ^= both
        if papers:
            found[total] = found.get(total, 0) | papers
    return found


def _add_many_scores(totals: Mapping[float, int], scored: ScoredSets, weight: float) -> dict[float, int]:
    """Return the same result as `_add_scores`, but faster for a clause with many scores."""
    scores = {number: score for score, papers in scored for number in bitsets.members(papers)}
    having = bitsets.bitset_of(scores)
    found: defaultdict[float, int] = defaultdict(int)
    for total, papers in totals.items():
        for number in bitsets.members(papers & having):
            found[total + weight * scores[number]] |= 1 << number
        if papers & ~having:
            found[total] |= papers & ~having
    return found


def weighted_clauses(node: Node, other_name: float) -> Iterable[tuple[ScoredClause, float]]:
    """Return (clause, weight) for the positive clauses with words; a repeated clause gets its last weight."""
    weights = clause_weights(node, other_name)
    return {
        part.canonical: (part, weight) for leaf, weight in weights for part in scored_parts(leaf)
    }.values()


def clause_weights(node: Node, other_name: float, weight: float = 1.0) -> Iterator[tuple[Leaf, float]]:
    """Yield (clause, weight) for the clauses that are not under a NOT."""
    if isinstance(node, And | Or):
        main, *others = node.children
        yield from clause_weights(main, other_name, weight)
        for child in others:
            yield from clause_weights(
                child, other_name, weight * other_name if isinstance(node, Or) else weight
            )
    elif not isinstance(node, Not):
        yield node, weight


def scored_parts(leaf: Leaf) -> Sequence[ScoredClause]:
    """Return the clauses whose words count towards the score of `leaf`: the clause, its parts, or none."""
    if isinstance(leaf, AnywhereClause):
        return [part for part in leaf.parts if isinstance(part, TextClause)]
    return (leaf,) if isinstance(leaf, TextClause | DescriptionClause | ExampleClause) else ()
