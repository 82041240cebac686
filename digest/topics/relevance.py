"""Compute the relevance of matching papers with a field-weighted BM25 over the filter's positive clauses.

It differs from standard BM25 in two ways, because a filter is not a search query. There is no inverse
document frequency: the alternatives of an OR are names for the same thing, so a rare name does not count
more than a common name. Each further alternative counts slightly less, because people usually write the main
term first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from digest.topics import bitsets
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import And, AnywhereClause, DescriptionClause, Node, Or, TextClause

TITLE_WEIGHT = 4.0  #: a word in the title counts as this many words in the abstract
SATURATION = 0.6  #: BM25's k1, which limits the effect of repetitions
LENGTH_SHARE = 0.3  #: BM25's b, the effect of an abstract's length on the score
FURTHER_NAME = 0.2  #: share of the weight that each further alternative loses
WORDLESS_SCORE = 0.5  #: the score if a filter has no words


#: The scores of a clause by paper number, and the weight of the clause.
WeightedScores: TypeAlias = tuple[Mapping[int, float], float]


class ClauseScores(Protocol):
    """The part of the index that computing relevance requires."""

    def clause_scores(self, leaf: TextClause | DescriptionClause, /) -> Mapping[int, float]:
        """Return {paper number: score} for the papers that a clause matches."""
        ...


def relevance_of(batch: ClauseScores, filter_: Filter, matches: int) -> dict[int, float]:
    """Return {paper number: relevance} for the papers in `matches`, from 0 to 1 for the best paper."""
    weighted = [(batch.clause_scores(leaf), weight) for leaf, weight in _weighted(filter_.tree)]
    scores = _of_any(weighted) if _are_words(filter_.tree) else {}
    if len(scores) != matches.bit_count():
        scores = _of_these(weighted, bitsets.members(matches))
    best = max(scores.values(), default=0.0)
    if not best:
        return dict.fromkeys(scores, WORDLESS_SCORE)
    return {number: score / best for number, score in scores.items()}


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
    """Return the total score of each paper in `numbers`; fast if there are few, as when all clauses must match."""
    scores = dict.fromkeys(numbers, 0.0)
    for clause_scores, weight in weighted:
        for number in scores:
            if number in clause_scores:
                scores[number] += weight * clause_scores[number]
    return scores


def _weighted(node: Node) -> Iterable[tuple[TextClause | DescriptionClause, float]]:
    """Return the positive clauses with words and their weights; for a repeated clause, use its last weight."""
    found: list[tuple[TextClause | DescriptionClause, float]] = []
    _weigh(node, 1.0, found)
    if len(found) == 1:
        return found
    return {leaf.canonical: (leaf, weight) for leaf, weight in found}.values()


def _weigh(node: Node, weight: float, found: list[tuple[TextClause | DescriptionClause, float]]) -> None:
    if isinstance(node, TextClause | DescriptionClause):
        found.append((node, weight))
    elif isinstance(node, And):
        for child in node.children:
            _weigh(child, weight, found)
    elif isinstance(node, Or):
        for place, child in enumerate(node.children):
            _weigh(child, weight / (1 + FURTHER_NAME * place), found)
    elif isinstance(node, AnywhereClause):
        found += [(part, weight) for part in node.parts if isinstance(part, TextClause)]


def _are_words(node: Node) -> bool:
    """Return whether `node` consists only of clauses with words that are combined with OR."""
    return type(node) is TextClause or (
        type(node) is Or and all(type(child) is TextClause for child in node.children)
    )


def saturated(in_title: int, in_abstract: int, length: float) -> float:
    """Return the score of a clause, 0 to 1, where `length` is the abstract's length relative to the average."""
    frequency = TITLE_WEIGHT * in_title + in_abstract / (1 - LENGTH_SHARE + LENGTH_SHARE * length)
    return frequency / (frequency + SATURATION)
