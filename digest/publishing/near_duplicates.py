"""Find papers whose texts are almost the same, so that all but one of them can be ranked lower.

The rule is strict, because papers on similar subjects are not duplicates. Most five-word sequences (shingles)
of the shorter abstract must also occur in the other. Equal titles count only if they are too long to be equal
by chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

from digest.papers.paper_record import Paper, fold, title_key
from digest.papers.same_work import sampled_shingles

SAMPLED_ONE_IN = 4  #: one shingle in four is compared; every machine selects the same shingles
#: Minimum share of the shorter abstract's shingles that must occur in the other abstract.
MIN_SHARED_SHARE = 0.6
#: Minimum number of compared shingles in common; six (about 30 words in a row) can hardly be chance.
MIN_SHARED_SHINGLES = 6
MAX_HOLDERS = 12  #: a shingle in more papers than this is a common phrase and is ignored
MIN_TITLE_WORDS = 4  #: minimum number of words in a title for equal titles to prove a duplicate


def near_duplicates(found: Sequence[Paper]) -> dict[int, int]:
    """Return {paper number: bitset of its near-duplicates} for the papers that have near-duplicates."""
    near: dict[int, int] = defaultdict(int)
    for one, other in {*similar_abstracts(found), *same_titles(found)}:
        near[one] |= 1 << other
        near[other] |= 1 << one
    return dict(near)


def similar_abstracts(found: Sequence[Paper]) -> Iterable[tuple[int, int]]:
    """Yield the pairs of papers whose abstracts are almost the same."""
    sizes: list[int] = []
    holders: dict[int, list[int]] = defaultdict(list)
    for number, paper in enumerate(found):
        shingles = sampled_shingles(fold(paper.abstract).split(), SAMPLED_ONE_IN)
        sizes.append(len(shingles))
        for shingle in shingles:
            holders[shingle].append(number)
    shared = Counter(
        pair
        for holding in holders.values()
        if 1 < len(holding) <= MAX_HOLDERS
        for pair in combinations(holding, 2)
    )
    for (one, other), count in shared.items():
        if count >= MIN_SHARED_SHINGLES and count >= MIN_SHARED_SHARE * min(sizes[one], sizes[other]):
            yield one, other


def same_titles(found: Sequence[Paper]) -> Iterable[tuple[int, int]]:
    """Yield the pairs of papers with the same title, if the title is long."""
    by_title: dict[str, list[int]] = defaultdict(list)
    for number, paper in enumerate(found):
        key = title_key(paper.title)
        if key.count(" ") + 1 >= MIN_TITLE_WORDS:
            by_title[key].append(number)
    for numbers in by_title.values():
        yield from combinations(numbers, 2)
