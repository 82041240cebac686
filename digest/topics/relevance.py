"""How well a paper fits a filter that matches it: a field-weighted BM25 over the clauses that speak for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from digest.topics import tree
from digest.topics.language import Filter
from digest.topics.sets import members
from digest.topics.tree import Anywhere, Text

if TYPE_CHECKING:
    from digest.topics.index import Index

TITLE_WEIGHT = 4.0
SATURATION = 1.2  #: BM25's k1
LENGTH_SHARE = 0.5  #: BM25's b, for the abstract


def of(index: Index, filter_: Filter, matches: int) -> dict[int, float]:
    """Return the relevance of each of the papers `matches`: 0 to 1, the best of them has 1."""
    numbers = list(members(matches))
    scores = dict.fromkeys(numbers, 0.0)
    for leaf in clauses_of(filter_):
        weight = _rarity(index.size, index.leaf(leaf).bit_count())
        for number in numbers:
            scores[number] += weight * _saturated(_frequency(index, leaf, number))
    best = max(scores.values(), default=0.0)
    return {number: score / best if best else 1.0 for number, score in scores.items()}


def clauses_of(filter_: Filter) -> list[Text]:
    """Return the distinct clauses about words that speak for a paper."""
    found: dict[str, Text] = {}
    for leaf in tree.wanted(filter_.tree):
        for part in leaf.parts if isinstance(leaf, Anywhere) else (leaf,):
            if isinstance(part, Text):
                found.setdefault(part.canonical, part)
    return list(found.values())


def _rarity(size: int, having: int) -> float:
    return math.log(1 + (size - having + 0.5) / (having + 0.5))


def _saturated(frequency: float) -> float:
    return frequency / (frequency + SATURATION)


def _frequency(index: Index, leaf: Text, number: int) -> float:
    counts = [index.count(leaf, place * index.size + number) for place in (0, 1)]
    return TITLE_WEIGHT * counts[0] + counts[1]
