"""Compute the relevance of matching papers from the words of the filter's positive clauses.

A paper is scored for each clause by the clause's occurrences in title and abstract, as in BM25F. Two parts of
BM25F are omitted. There is no inverse document frequency: the alternatives of an OR are names for the same
thing, so a rare name does not count more than a common name. There is no length normalization: abstracts are
about equally long, and normalization did not improve the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from digest.topics import bitsets
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import And, AnywhereClause, DescriptionClause, Node, Or, TextClause

WORDLESS_SCORE = 0.5  #: the score if a filter has no words


@dataclass(frozen=True, kw_only=True, slots=True)
class RelevanceWeights:
    """The constants of the score; `make bench ARGS=relevance` tests them on other topics."""

    title: float = 5.0  #: the number of occurrences in the abstract that count as much as one in the title
    saturation: float = 6.0  #: number of occurrences in the abstract that score half of the maximum
    #: the weight of each alternative of an OR except the first; the first is the main name
    other_name: float = 0.4

    def score(self, in_title: int, in_abstract: int) -> float:
        """Return the score of a clause, 0 to 1, from its number of occurrences."""
        frequency = self.title * in_title + in_abstract
        return frequency / (frequency + self.saturation)


WEIGHTS = RelevanceWeights()

#: The scores of a clause, keyed by paper number, and the weight of the clause.
WeightedScores: TypeAlias = tuple[Mapping[int, float], float]


class ClauseScores(Protocol):
    """The part of the index that is needed to compute relevance."""

    def clause_scores(self, leaf: TextClause | DescriptionClause, /) -> Mapping[int, float]:
        """Return {paper number: score} for the papers that a clause matches."""
        ...


def relevance_of(
    batch: ClauseScores, filter_: Filter, matches: int, weights: RelevanceWeights = WEIGHTS
) -> dict[int, float]:
    """Return {paper number: relevance} for the papers in `matches`, from 0 to 1 for the best paper."""
    scores = totals_of(batch, filter_, matches, weights)
    best = max(scores.values(), default=0.0)
    if not best:
        return dict.fromkeys(scores, WORDLESS_SCORE)
    return {number: score / best for number, score in scores.items()}


def totals_of(
    batch: ClauseScores, filter_: Filter, matches: int, weights: RelevanceWeights = WEIGHTS
) -> dict[int, float]:
    """Return {paper number: total of the weighted scores of all clauses} for the papers in `matches`."""
    weighted = [
        (batch.clause_scores(leaf), weight)
        for leaf, weight in weighted_clauses(filter_.tree, weights.other_name)
    ]
    scores = _of_any(weighted) if _are_words(filter_.tree) else {}
    if len(scores) != matches.bit_count():
        scores = _of_these(weighted, bitsets.members(matches))
    return scores


def _of_any(weighted: Sequence[WeightedScores]) -> dict[int, float]:
    """Return the total score of each paper that any of the clauses matches."""
    scores: dict[int, float] = {}
    for clause_scores, weight in weighted:
        if scores:
            for number, says in clause_scores.items():
                scores[number] = scores.get(number, 0.0) + weight * says
        else:
            scores = {number: weight * says for number, says in clause_scores.items()}
    return scores


def _of_these(weighted: Sequence[WeightedScores], numbers: Iterable[int]) -> dict[int, float]:
    """Return the total score of each paper in `numbers`.

    The function is fast for few papers, which is the usual case if all clauses must match.
    """
    scores = dict.fromkeys(numbers, 0.0)
    for clause_scores, weight in weighted:
        for number in scores:
            if number in clause_scores:
                scores[number] += weight * clause_scores[number]
    return scores


def weighted_clauses(node: Node, other_name: float) -> Iterable[tuple[TextClause | DescriptionClause, float]]:
    """Return the positive clauses with words and their weights; a repeated clause gets its last weight."""
    found: list[tuple[TextClause | DescriptionClause, float]] = []
    _weigh(node, 1.0, other_name, found)
    if len(found) == 1:
        return found
    return {leaf.canonical: (leaf, weight) for leaf, weight in found}.values()


def _weigh(
    node: Node, weight: float, other_name: float, found: list[tuple[TextClause | DescriptionClause, float]]
) -> None:
    if isinstance(node, TextClause | DescriptionClause):
        found.append((node, weight))
    elif isinstance(node, And):
        for child in node.children:
            _weigh(child, weight, other_name, found)
    elif isinstance(node, Or):
        main, *others = node.children
        _weigh(main, weight, other_name, found)
        for child in others:
            _weigh(child, weight * other_name, other_name, found)
    elif isinstance(node, AnywhereClause):
        found += [(part, weight) for part in node.parts if isinstance(part, TextClause)]


def _are_words(node: Node) -> bool:
    """Return whether `node` consists only of clauses with words that are combined with OR."""
    return type(node) is TextClause or (
        type(node) is Or and all(type(child) is TextClause for child in node.children)
    )
