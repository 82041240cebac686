"""Score papers against a free-text description; a paper matches if its score reaches a threshold.

A description is reduced to the roots of its words ("generalise" and "generalization" have the same root) and
to pairs of neighbouring roots. Papers are scored as in BM25; a word that occurs several times in the
description counts that many times. One common word is never enough. The weights of the words come from a fixed
table (`word_rarity`), so the score of a paper is the same alone, in today's batch and in a backtest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from digest.topics import tokenizer, word_rarity

MAX_ROOTS = 60  #: maximum number of roots; the rest of a long description is ignored
USUAL_LENGTH = 190  #: usual number of words of title and abstract together
LENGTH_SHARE = 0.4  #: BM25's b, the effect of a paper's length on the score

_SILENT = (
    "about across after all also among between both during each every other our own same some through "
    "toward towards under until very via whether while without etc how why than seen such like main more "
    "most new novel using use used based paper papers study studies work approach method methods effect "
    "effects aspect aspects topic topics thing things e g"
)
SILENT_WORDS = tokenizer.FUNCTION_WORDS.union(_SILENT.split())

#: One root of a word, or two neighbouring roots.
Phrase: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DescriptionWeights:
    """The constants of the score; `make bench ARGS=relevance` measures their effect."""

    title: float = 5.0  #: one occurrence in the title counts as much as this many in the abstract
    #: number of occurrences in a paper of usual length that score half of the maximum
    saturation: float = 1.2
    #: a paper matches if its score is at least this share of the description's bits
    enough_share: float = 0.25
    #: a paper also matches if its score is at least this many bits
    enough_bits: float = 7.0
    #: a single word is reason enough if it has this many bits; of more common words, two are needed
    rare_bits: float = 6.5

    #: the saturation for the words of examples (`like:`), which are many
    example_saturation: float = 3.0
    #: a paper is similar to a single example if the example's words score this share of their weights
    alike: float = 0.07
    #: for several examples, this share, and ...
    alike_least: float = 0.05
    #: ... this part of the mean similarity of an example to its three nearest other examples
    alike_part: float = 0.55

    def score(self, frequency: float, length: int, saturation: float | None = None) -> float:
        """Return the share of a word's bits for `frequency` occurrences in a paper of `length` words."""
        usual = 1 - LENGTH_SHARE + LENGTH_SHARE * length / USUAL_LENGTH
        return frequency / (frequency + (saturation or self.saturation) * usual)

    def threshold(self, roots: Sequence[str]) -> float:
        """Return the share of its bits from which a paper matches a description."""
        return min(self.enough_share, self.enough_bits / bits_of(roots))

    def similarity_needed(self, likeness: float) -> float:
        """Return the similarity from which a paper matches; the more alike the examples, the higher it is.

        If it were the same for all, a library of 200 papers would match almost every paper, as one of them is alike.
        """
        return self.alike_least + self.alike_part * likeness if likeness else self.alike


WEIGHTS = DescriptionWeights()


def roots_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MAX_ROOTS` roots of a description's words, in order, without stop words."""
    roots = [tokenizer.root(word) for word in words if word not in SILENT_WORDS]
    return tuple(roots[:MAX_ROOTS])


def bits_of(roots: Iterable[str]) -> float:
    """Return the bits of a description; a root counts as often as it occurs."""
    return sum(map(word_rarity.bits, roots))


def bits_of_phrases(roots: Sequence[str]) -> Mapping[Phrase, float]:
    """Return the bits of each root, times its number of occurrences, and of each pair of neighbouring roots.

    A pair adds the mean of the bits of its roots.
    """
    single = {(root,): count * word_rarity.bits(root) for root, count in Counter(roots).items()}
    return single | {pair: bits_of(pair) / 2 for pair in pairwise(roots)}
