"""How well a paper fits a filter that matches it: a field-weighted BM25 over the clauses that speak for it.

Two choices differ from the textbook, since a filter is no search query. The alternatives of an OR are
names of one thing, so a rare name counts no more than a common one: there is no inverse document
frequency. And people name the thing itself first and its relatives later, so each further
alternative counts a little less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from digest.topics import sets
from digest.topics.language import Filter
from digest.topics.tree import About, And, Anywhere, Node, Or, Text

TITLE_WEIGHT = 4.0  #: a word in the title counts as so many in the abstract
SATURATION = 0.6  #: BM25's k1: how soon more of the same word adds nothing
LENGTH_SHARE = 0.3  #: BM25's b: how far a long abstract must say a word more often
FURTHER_NAME = 0.2  #: what each further alternative loses
WORDLESS = 0.5  #: the fit of a paper where a filter has no words to judge by


#: How much a clause says of each paper in which it holds, and how much that counts.
Said: TypeAlias = tuple[Mapping[int, float], float]


class Batch(Protocol):
    """What relevance asks of the papers it judges; the index answers."""

    def told(self, leaf: Text | About, /) -> Mapping[int, float]:
        """Return how much a clause says of each paper in which it holds, by number."""
        ...


def of(batch: Batch, filter_: Filter, matches: int) -> dict[int, float]:
    """Return the relevance of each of the papers `matches`: 0 to 1, the best of them has 1."""
    said = [(batch.told(leaf), weight) for leaf, weight in _weighted(filter_.tree)]
    scores = _of_any(said) if _are_words(filter_.tree) else {}
    if len(scores) != matches.bit_count():
        scores = _of_these(said, sets.members(matches))
    best = max(scores.values(), default=0.0)
    if not best:
        return dict.fromkeys(scores, WORDLESS)
    return {number: score / best for number, score in scores.items()}


def _of_any(said: Sequence[Said]) -> dict[int, float]:
    """Return what clauses say together of all the papers that any of them holds in."""
    scores: dict[int, float] = {}
    for told, weight in said:
        if scores:
            for number, says in told.items():
                scores[number] = scores.get(number, 0.0) + weight * says
        else:
            scores = {number: weight * says for number, says in told.items()}
    return scores


def _of_these(said: Sequence[Said], numbers: Iterable[int]) -> dict[int, float]:
    """Return what they say of some papers: where all of several must hold, those are few."""
    scores = dict.fromkeys(numbers, 0.0)
    for told, weight in said:
        for number in scores:
            if number in told:
                scores[number] += weight * told[number]
    return scores


def _weighted(node: Node) -> Iterable[tuple[Text | About, float]]:
    """Return the clauses about words that speak for a paper, with their weights; a repeated one counts last."""
    found: list[tuple[Text | About, float]] = []
    _weigh(node, 1.0, found)
    if len(found) == 1:
        return found
    return {leaf.canonical: (leaf, weight) for leaf, weight in found}.values()


def _weigh(node: Node, weight: float, found: list[tuple[Text | About, float]]) -> None:
    if isinstance(node, Text | About):
        found.append((node, weight))
    elif isinstance(node, And):
        for child in node.children:
            _weigh(child, weight, found)
    elif isinstance(node, Or):
        for place, child in enumerate(node.children):
            _weigh(child, weight / (1 + FURTHER_NAME * place), found)
    elif isinstance(node, Anywhere):
        found += [(part, weight) for part in node.parts if isinstance(part, Text)]


def _are_words(node: Node) -> bool:
    """Return whether what matches is what any clause about words holds in."""
    return type(node) is Text or (type(node) is Or and all(type(child) is Text for child in node.children))


def saturated(in_title: int, in_abstract: int, length: float) -> float:
    """Return how much a clause says of a paper, 0 to 1; `length` is the abstract's, 1 being usual."""
    frequency = TITLE_WEIGHT * in_title + in_abstract / (1 - LENGTH_SHARE + LENGTH_SHARE * length)
    return frequency / (frequency + SATURATION)
