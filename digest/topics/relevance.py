"""Compute the relevance of matching papers from the words of the filter's positive clauses.

A paper is scored for each clause by the clause's occurrences in title and abstract, as in BM25F. Two parts of
BM25F are omitted. There is no inverse document frequency: the alternatives of an OR are names for the same
thing, so a rare name does not count more than a common name. There is no length normalization: abstracts are
about equally long, and normalization did not improve the order.

There are few distinct counts of occurrences, so papers with the same score are handled together, as one set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from digest.papers.bitsets import ScoredSets
from digest.topics.filter_tree import (
    And,
    AnywhereClause,
    DescriptionClause,
    ExampleClause,
    Node,
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
        added: defaultdict[float, int] = defaultdict(int)
        for total, left in found.items():
            papers = left
            for score, having in scored:
                if both := papers & having:
                    added[total + weight * score] |= both
                    papers ^= both
            if papers:
                added[total] |= papers
        found = added
    return found


def weighted_clauses(node: Node, other_name: float) -> Iterable[tuple[ScoredClause, float]]:
    """Return (clause, weight) for the positive clauses with words; a repeated clause gets its last weight."""
    weights = clause_weights(node, other_name)
    return {leaf.canonical: (leaf, weight) for leaf, weight in weights}.values()


def clause_weights(
    node: Node, other_name: float, weight: float = 1.0
) -> Iterator[tuple[ScoredClause, float]]:
    """Yield (clause, weight) for the clauses with words that are not under a NOT."""
    if isinstance(node, And | Or):
        main, *others = node.children
        yield from clause_weights(main, other_name, weight)
        for child in others:
            yield from clause_weights(
                child, other_name, weight * other_name if isinstance(node, Or) else weight
            )
    elif isinstance(node, AnywhereClause):
        for part in node.parts:
            yield from clause_weights(part, other_name, weight)
    elif isinstance(node, TextClause | DescriptionClause | ExampleClause):
        yield node, weight
