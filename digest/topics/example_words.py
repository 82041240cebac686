"""Describe papers by their weighted words, for topics by example: `like:2401.01234,2402.00001`.

A stored filter has the words of each example in braces after its reference, so that the topic stays the same
when a paper is removed, and so that an example need not be in the catalog:

    like:2401.01234{Borrowed Light|relighting^9 photograph^4},2402.00001{...}

What a reader types and sees has no braces. The papers of a library have one reference together, and behind their
words stand hashes of the library's ids and titles: `like:library-0123456789ab{...}{...}{#hash hash}`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from digest import errors
from digest.papers import display_text, paper_record
from digest.papers.paper_record import Paper
from digest.topics import about_clauses, tokenizer, word_rarity

MAX_EXAMPLES = 200
MAX_WORDS = 40  #: maximum number of words of one example
MAX_TOPIC_WORDS = 1_600  #: maximum number of words of all examples of a topic together
MAX_STORED = 250_000  #: maximum number of characters of a filter with the words of its examples
MAX_TIMES = 99  #: maximum weight of a word
LONGEST_WORD = 40  #: words of this many characters or more are ignored
LONGEST_TITLE = 60
TITLE_WEIGHT = 5  #: one word in the title counts as much as this many in the abstract
#: The power of a word's number of occurrences that counts: a repeated word says more, but not twice as much.
REPETITION = 0.75
RARITY = 1.25  #: the power of a word's bits that counts
NEAREST = 3  #: number of nearest examples whose mean similarity is the score of a paper
LIBRARY = "library-"
SCALE = 1 << 15  #: shares and weights, which are 1 at most, are multiplied by this when they are packed

Weights: TypeAlias = Sequence[tuple[str, float]]  #: (root, its share of the weights of all words)

_REFERENCE = r'(?:"[^"{}]*"|[^\s()",{}]+)(?:\{[^{}"]*\})*'
#: The references behind `like:`, each with its words, if it has any.
REFERENCES = rf"{_REFERENCE}(?:,{_REFERENCE})*"
_ONE = re.compile(r'(?:"(?P<quoted>[^"{}]*)"|(?P<bare>[^\s()",{}]+))(?P<words>(?:\{[^{}"]*\})*)')
_LIKE = re.compile(rf'"[^"]*"|(?i:\blike):(?P<references>{REFERENCES})')
_PLAIN = re.compile(r'[^\s()",{}]+')


def split_references(written: str) -> list[tuple[str, str]]:
    """Return (reference, words in braces) for each reference behind `like:`."""
    return [(found["quoted"] or found["bare"] or "", found["words"]) for found in _ONE.finditer(written)]


def join_references(references: Iterable[tuple[str, str]]) -> str:
    """Return references with their words as they stand behind `like:`, quoted where they must be."""
    return ",".join(
        [f"{name}{words}" if _PLAIN.fullmatch(name) else f'"{name}"{words}' for name, words in references]
    )


def without_words(written: str) -> str:
    """Return a filter without the words of its examples, as people see it."""
    return written if "{" not in written else _with(written, lambda _reference, _words: "")


def with_words(written: str, words_of: Callable[[str], str]) -> str:
    """Return a filter with the words of its examples; raise BadFilter if `words_of` finds no such paper."""
    if "like:" not in written.lower():
        return written
    return _with(written, lambda reference, words: words or words_of(reference))


def _with(written: str, words_of: Callable[[str, str], str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found["references"] is None:
            return found[0]
        try:
            pairs = split_references(found["references"])
            return "like:" + join_references([(name, words_of(name, words)) for name, words in pairs])
        except errors.NotFound as error:
            plain = without_words(written[: found.end()])
            start = len(without_words(written[: found.start()]))
            raise errors.BadFilter(
                str(error), text=plain, column=start + 1, length=len(plain) - start
            ) from error

    return _LIKE.sub(replaced, written)


def examples_in(stored: str) -> Iterator[tuple[str, str]]:
    """Yield (reference, words) for each example of a stored filter."""
    if "like:" in stored:
        for found in _LIKE.finditer(stored):
            yield from split_references(found["references"] or "")


# ── the words of papers ─────────────────────────────────────────────────────────────────────────


def words_of_paper(paper: Paper, most: int = MAX_WORDS) -> str:
    """Return the title and the words of a paper in braces, the words that weigh most first."""
    words, counts = _counted_words(paper)
    best = sorted(counts, key=lambda root: (-weight(root, counts[root]), root))[:most]
    title = re.sub(r'[{}"|\s]+', " ", display_text.display(paper.title)).strip()
    written = " ".join([f"{words[root]}^{min(counts[root], MAX_TIMES)}" for root in best])
    return f"{{{shortened(title, LONGEST_TITLE)}|{written}}}"


def shortened(title: str, most: int) -> str:
    """Return a title, cut at a word if it has more than `most` characters."""
    return title if len(title) <= most else f"{title[:most].rpartition(' ')[0] or title[:most]}…"


def words_of_library(library: Sequence[Paper], known: Collection[Paper]) -> tuple[str, str]:
    """Return the reference of a library, and the words of its papers with the hashes of all `known` papers."""
    share = words_of_each(len(library))
    hashes = sorted({digest for paper in known for digest in hashes_of(paper)})
    words = "".join([words_of_paper(paper, share) for paper in library]) + f"{{#{' '.join(hashes)}}}"
    return LIBRARY + hashlib.sha256(words.encode()).hexdigest()[:12], words


def words_of_each(examples: int) -> int:
    """Return the maximum number of words of each of that many examples."""
    return min(MAX_WORDS, MAX_TOPIC_WORDS // max(1, examples))


def hashes_of(paper: Paper) -> list[str]:
    """Return short hashes of a paper's ids and title, by which a library's papers are recognised."""
    names = [*map(str.lower, paper.ids.values()), paper_record.title_key(paper.title)]
    return [hashlib.sha256(name.encode()).hexdigest()[:8] for name in names if name]


def weight(root: str, times: int) -> float:
    """Return the weight of a word in an example, from its weighted number of occurrences."""
    return float(times**REPETITION * word_rarity.bits(root) ** RARITY)


def packed(values: Mapping[int, float], size: int) -> int:
    """Return the number of each of `size` documents, times `SCALE`, in 32 bits of one integer.

    Adding or multiplying such integers adds or multiplies the numbers of all documents at once.
    """
    lanes = array("I", bytes(4 * size))
    for document, value in values.items():
        lanes[document] = round(value * SCALE)
    return int.from_bytes(lanes.tobytes(), sys.byteorder)


def similarities(weights: Weights, packed_of: Callable[[str], int]) -> int:
    """Return the similarity of each document to an example, times `SCALE` squared, in 32 bits of one integer."""
    return sum(round(weight * SCALE) * packed_of(root) for root, weight in weights)


def means_of_nearest(similar: Iterable[int], examples: int, size: int) -> list[float]:
    """Return the mean of the highest similarities of each document, of three if there are as many examples.

    The highest bit of a document is unused, and shows which of two numbers is higher when one is subtracted.
    """
    high = int.from_bytes((array("I", [1 << 31]) * size).tobytes(), sys.byteorder)
    nearest = [0] * min(NEAREST, examples)
    for left in similar:
        for place, best in enumerate(nearest):
            is_best = (best | high) - left & high
            swapped = (best ^ left) & (is_best - (is_best >> 31))
            nearest[place], left = left ^ swapped, best ^ swapped  # noqa: PLW2901 - the lower one moves on
    sums = array("I", sum(nearest).to_bytes(4 * size, sys.byteorder))
    scale = len(nearest) * SCALE**2
    return [total / scale for total in sums]


def likeness(weights: Sequence[Weights], counts: Sequence[Sequence[tuple[str, int]]]) -> float:
    """Return the mean similarity of an example to its three nearest other examples, 0.0 if there are none."""
    if len(counts) == 1:
        return 0.0
    described, size = about_clauses.WEIGHTS, len(counts)
    shares: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for number, roots in enumerate(counts):
        for root, times in roots:
            score = described.score(times, about_clauses.USUAL_LENGTH, described.example_saturation)
            shares[root][number] = score
    lanes = {root: packed(having, size) for root, having in shares.items()}
    similar = [
        similarities(one, lanes.__getitem__) & ~packed({number: ((1 << 32) - 1) / SCALE}, size)
        for number, one in enumerate(weights)
    ]
    return sum(means_of_nearest(similar, size - 1, size)) / size


def _counted_words(paper: Paper) -> tuple[Mapping[str, str], Counter[str]]:
    """Return the first word with each root in title and abstract, and the root's weighted count."""
    words: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for written, times in ((paper.title, TITLE_WEIGHT), (paper.abstract, 1)):
        for word in tokenizer.read(display_text.display(written)).folded:
            if _is_descriptive(word):
                root = tokenizer.root(word)
                words.setdefault(root, word)
                counts[root] += times
    return words, counts


def _is_descriptive(word: str) -> bool:
    return (
        2 < len(word) < LONGEST_WORD
        and word not in about_clauses.SILENT_WORDS
        and word.isalnum()
        and not word.isdigit()
    )
