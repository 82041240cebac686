"""Describe papers by their words: by weighted words for `like:`, or by significant words and pairs of words.

When a filter is stored, `like:PAPER` is replaced with `about:"word^times ..."`, the words of the paper and
their weights, so that the stored filter does not depend on the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise

from digest import errors, papers
from digest.papers import Paper
from digest.topics import about_clauses, tokenizer, word_rarity, word_roots
from digest.topics.filter_parser import MAX_CHARACTERS

MAX_WEIGHTED_WORDS = 40  #: maximum number of a paper's words in the description that replaces `like:`
MAX_TIMES = 99  #: maximum weight of a word in a description
LONGEST_WORD = 40  #: words of this many characters or more are ignored
TITLE_WEIGHT = 3  #: one word in the title counts as much as this many in the abstract

_GENERAL = (
    "hundred hundreds thousand thousands million millions billion billions trillion trillions dozen dozens "
    "percent percentage half twice double triple hour hours minute minutes second seconds day days week weeks "
    "month months year years heavy light huge tiny massive vast cheap expensive costly fast faster slow slower "
    "strong stronger weak weaker easy hard harder short shorter long longer wide wider narrow deep deeper "
    "simple rich poor clear careful useful powerful popular modern recent early late latest"
)
#: Quantities and general adjectives, which are rare in English but describe no subject by themselves.
GENERAL_WORDS = frozenset(_GENERAL.split())

_LIKE = re.compile(r'"[^"]*"|(?i:\blike):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s()"]+))')


def expand_like(written: str, paper_of: Callable[[str], Paper]) -> str:
    """Replace each `like:PAPER` in a filter with a description; raise BadFilter if a paper does not exist."""
    if "like:" not in written.lower() or len(written) > MAX_CHARACTERS:
        return written  # a filter that is too long is rejected when it is parsed
    paper_of = cache(paper_of)
    papers_named = sum(1 for found in _LIKE.finditer(written) if found["quoted"] or found["bare"])
    characters = (MAX_CHARACTERS - len(written)) // max(1, papers_named) - len('about:""')

    def described(found: re.Match[str]) -> str:
        reference = found["quoted"] or found["bare"]
        if not reference:
            return found[0]
        try:
            return f'about:"{weighted_words(paper_of(reference), characters)}"'
        except errors.NotFound as error:
            raise errors.BadFilter(
                str(error), text=written, column=found.start() + 1, length=len(found[0])
            ) from error

    return _LIKE.sub(described, written)


def weighted_words(paper: Paper, max_characters: int) -> str:
    """Return the words of a paper as `word^times`, the words with the most bits first."""
    words, counts = _counted_words(paper)
    kept = sorted(counts, key=lambda root: -counts[root] * word_rarity.bits(root))[:MAX_WEIGHTED_WORDS]
    written = " ".join(f"{words[root]}^{min(counts[root], MAX_TIMES)}" for root in kept) or "untitled^1"
    if len(written) <= max_characters:
        return written
    return written[: max_characters + 1].rpartition(" ")[0] or written.partition(" ")[0]


def counted_roots(paper: Paper) -> Counter[str]:
    """Return the weighted number of occurrences of each descriptive word's root in title and abstract."""
    return _counted_words(paper)[1]


def _counted_words(paper: Paper) -> tuple[dict[str, str], Counter[str]]:
    """Return the first word with each root in title and abstract, and the root's weighted count."""
    words: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for written, weight in ((paper.title, TITLE_WEIGHT), (paper.abstract, 1)):
        for word in filter(_is_descriptive, tokenizer.read(papers.display(written)).folded):
            root = word_roots.root(word)
            words.setdefault(root, word)
            counts[root] += weight
    return words, counts


def significant_words(written: str) -> list[str]:
    """Return the words of a text that describe its subject."""
    return [word for word in tokenizer.read(papers.display(written)).folded if is_significant(word)]


def is_significant(word: str) -> bool:
    """Return whether a word describes a subject by itself."""
    return (
        _is_descriptive(word)
        and word not in GENERAL_WORDS
        and word_rarity.is_significant(word_roots.root(word))
    )


def _is_descriptive(word: str) -> bool:
    return (
        2 < len(word) < LONGEST_WORD
        and word not in about_clauses.SILENT_WORDS
        and word.isalnum()
        and not word.isdigit()
    )


def pairs(row: tokenizer.WordParts) -> Iterable[str]:
    """Return the pairs of neighbouring words that describe a subject, as phrases in quotes."""
    for (left, right), glue in zip(pairwise(row.folded), row.glue, strict=False):
        if (
            glue != ","
            and is_significant_in_pair(left)
            and is_significant_in_pair(right)
            and (is_significant(left) or is_significant(right))
        ):
            stem = tokenizer.stem(right)
            is_open = right.startswith(stem) and len(stem) > 3
            yield f'"{left} {stem}*"' if is_open else f'"{left} {right}"'


def is_significant_in_pair(word: str) -> bool:
    """Return whether a word may be part of a pair that describes a subject."""
    return 2 < len(word) < LONGEST_WORD and word not in about_clauses.SILENT_WORDS and word.isalpha()
