"""Recognise a paper that was published again under another title, such as a preprint in a journal.

Ids and titles decide which records are one paper; likeness merges nothing. It only keeps a paper out of the
digest of a reader who was shown its other version. A series or a follow-up of the same group must never be
taken for that, so every doubt says no: a changed subject, other figures or another part number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from zlib import crc32

from digest.papers.bylines import short_name
from digest.papers.paper_record import fold

SHINGLE_WORDS = 5  #: words in a shingle
STORED_ONE_IN = 16  #: one shingle in 16 is stored, about 12 of an abstract; every machine selects the same
MIN_SHARED_SHINGLES = 2  #: two abstracts of one work share at least this many stored shingles
MIN_WORDS = 50  #: a shorter abstract is not compared
MIN_ALIKE = 0.75  #: minimum share of the shorter abstract's words that the other has, in the same order
MIN_LENGTH_SHARE = 0.6  #: minimum length of the shorter abstract, compared with the longer
MIN_SHARED_FIGURES = 0.5  #: minimum share of the figures of one abstract that the other has, too
#: A number in a title; a single I, V or X is one only at the end.
PART = re.compile(r"\b(?:[IVX]{2,5}|[IVX](?=\W*$|:)|\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What is compared of a paper."""

    title: str
    abstract: str
    authors: Sequence[str]


def stored_shingles(abstract: str) -> frozenset[int]:
    """Return the hashes of the stored shingles of an abstract."""
    words = words_of(abstract)
    return sampled_shingles(words, STORED_ONE_IN) if len(words) >= MIN_WORDS else frozenset()


def sampled_shingles(words: Sequence[str], one_in: int) -> frozenset[int]:
    """Return the hashes of one shingle in `one_in` of these words, which are the same in every process."""
    starts = range(len(words) - SHINGLE_WORDS + 1)
    hashes = (crc32(" ".join(words[at : at + SHINGLE_WORDS]).encode()) for at in starts)
    return frozenset(each for each in hashes if each % one_in == 0)


def is_same_work(one: Work, other: Work) -> bool:
    """Return whether two papers are certainly versions of one work."""
    if not families(one) & families(other) or parts(one.title) != parts(other.title):
        return False
    words, others = words_of(one.abstract), words_of(other.abstract)
    if has_other_subject(one, words, others, other) and has_other_subject(other, others, words, one):
        return False
    figures, other_figures = figures_of(words), figures_of(others)
    shared = len(figures & other_figures)
    if shared < MIN_SHARED_FIGURES * min(len(figures), len(other_figures)):
        return False
    shorter, longer = sorted((words, others), key=len)
    if len(shorter) < max(MIN_WORDS, MIN_LENGTH_SHARE * len(longer)):
        return False
    blocks = SequenceMatcher(None, shorter, longer, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) >= MIN_ALIKE * len(shorter)


def families(work: Work) -> set[str]:
    """Return the folded family names of the authors."""
    return {fold(short_name(author)) for author in work.authors}


def parts(title: str) -> set[str]:
    """Return the numbers in a title, Roman or not, which number the parts of a series."""
    return set(PART.findall(title))


def has_other_subject(work: Work, words: Sequence[str], others: Sequence[str], other: Work) -> bool:
    """Return whether a work has a word for its subject that the other work lacks.

    That is a word that its abstract repeats, or that is also in its title.
    """
    elsewhere = {*map(root, others), *map(root, words_of(other.title))}
    counted = Counter(root(word) for word in words if len(word) > 3)
    title = {*map(root, words_of(work.title))}
    return any((count > 1 or word in title) and word not in elsewhere for word, count in counted.items())


def figures_of(words: Sequence[str]) -> set[str]:
    """Return the words with digits."""
    return {word for word in words if any(map(str.isdigit, word))}


def words_of(text: str) -> list[str]:
    """Return the folded words of a text, with decimal points."""
    return re.findall(r"[^\W_]+(?:[.,]\d+)*", fold(text))


def root(word: str) -> str:
    """Return a word without its ending, so that few forms of it count as different words."""
    return word if word[-1].isdigit() else word[:6].rstrip("s")
