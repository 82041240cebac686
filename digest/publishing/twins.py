"""Twins: papers that say almost the same, so that one of them stands further down.

The rule errs on the side of leaving papers alone: what is similar is not yet the same. Two abstracts
must share most of their words in the same rows of five; a title that is the same letter for letter
counts only if it is long enough not to be chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from zlib import crc32

from digest import papers
from digest.papers import Paper

ROW = 5  #: words in a row
SAMPLED = 4  #: one row in so many is looked at, the same ones on every machine
MOST = 0.6  #: of the shorter abstract's rows that both must have
ENOUGH = 6  #: rows that two abstracts must share at least: a hundred words or so say something
USUAL = 12  #: papers that share a row: then it is a turn of phrase, and says nothing
LONG_TITLE = 4  #: words of a title that two papers do not have by chance


def twins(found: Sequence[Paper]) -> dict[int, int]:
    """Return, for each paper that has some, the set of its near-duplicates by number."""
    near: dict[int, int] = defaultdict(int)
    for one, other in {*alike(found), *namesakes(found)}:
        near[one] |= 1 << other
        near[other] |= 1 << one
    return dict(near)


def alike(found: Sequence[Paper]) -> Iterable[tuple[int, int]]:
    """Yield the pairs whose abstracts are almost the same."""
    sizes: list[int] = []
    holders: dict[int, list[int]] = defaultdict(list)
    for number, paper in enumerate(found):
        rows = rows_of(paper.abstract)
        sizes.append(len(rows))
        for row in rows:
            holders[row].append(number)
    shared = Counter(
        pair for holding in holders.values() if 1 < len(holding) <= USUAL for pair in combinations(holding, 2)
    )
    for (one, other), count in shared.items():
        if count >= ENOUGH and count >= MOST * min(sizes[one], sizes[other]):
            yield one, other


def namesakes(found: Sequence[Paper]) -> Iterable[tuple[int, int]]:
    """Yield the pairs that bear the same long title and yet are kept as two papers."""
    named: dict[str, list[int]] = defaultdict(list)
    for number, paper in enumerate(found):
        key = papers.title_key(paper.title)
        if key.count(" ") + 1 >= LONG_TITLE:
            named[key].append(number)
    for bearers in named.values():
        yield from combinations(bearers, 2)


def rows_of(text: str) -> set[int]:
    """Return the sampled rows of words in a text, as numbers that are the same in every process."""
    words = papers.fold(text).split()
    rows = (crc32(" ".join(words[at : at + ROW]).encode()) for at in range(len(words) - ROW + 1))
    return {row for row in rows if row % SAMPLED == 0}
