"""Papers about something that is described in words of one's own: ranked retrieval with a stated cut.

A description is read as the roots of its words ("generalise" and "generalization" share one), and its
neighbours as pairs, which say more. What a paper has of them is scored as BM25 does it. Whether it
belongs is decided by weights that depend on nothing but the words, so the answer is the same for the
paper alone, in today's batch, and in a back-test; the order of those that belong looks at how rare
each word is in the batch.
"""

from __future__ import annotations

from itertools import pairwise

from digest.topics import text

#: A paper belongs if it has so much of what a perfect one would have in single words, or so much in
#: all: as much as a word or two that few papers have.
CUT, ENOUGH = 0.3, 1.2
TITLE_WEIGHT = 3.0  #: a word in the title counts as so many in the abstract
SATURATION = 1.2  #: BM25's k1
LENGTH_SHARE = 0.4  #: BM25's b
USUAL_LENGTH = 190  #: words of a title and an abstract
PAIR_WEIGHT = 0.75  #: two words side by side, as in the description, to a single one
RARE_PAIR_WEIGHT = 0.5  #: the same where rare words count more already
MOST_ROOTS = 24  #: further words of a long description say nothing new

_SILENT = (
    "about across after all also among between both during each every other our own same some through "
    "toward towards under until very via whether while without etc how why than seen such like main more "
    "most new novel using use used based paper papers study studies work approach method methods effect "
    "effects aspect aspects topic topics thing things e g"
)
SILENT = text.FUNCTION_WORDS.union(_SILENT.split())

_EVERYWHERE = "model learn train data network result task perform propose show neural"
_COMMON = (
    "deep large language image dataset algorithm experiment evaluate improve generalize general feature "
    "domain problem analysis application system framework process test design structure different "
    "representation distribution function setting sample apply efficient effective benchmark various "
    "human time high low state art parameter"
)
#: By how much a word that many papers have says less than one that few have.
EVERYWHERE_WEIGHT, COMMON_WEIGHT = 0.3, 0.6

_ENDINGS = [
    "isation",
    "ization",
    "ational",
    "fulness",
    "iveness",
    "ability",
    "ically",
    "ations",
    "ation",
    "ators",
    "ator",
    "ative",
    "ising",
    "izing",
    "ness",
    "ment",
    "ings",
    "ing",
    "ally",
    "able",
    "ible",
    "edly",
    "ied",
    "ies",
    "ised",
    "ized",
    "ion",
    "ive",
    "ity",
    "ous",
    "ise",
    "ize",
    "ate",
    "ed",
    "er",
    "or",
    "ly",
    "al",
    "ic",
    "es",
    "s",
    "e",
    "y",
]
_SHORTEST_ROOT = 4


def root(word: str) -> str:
    """Return what a word shares with its relatives: manipulate, manipulation, manipulating."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_ROOT:
            return word[: -len(ending)]
    return word


WEIGHTS = {root(text.stem(word)): EVERYWHERE_WEIGHT for word in _EVERYWHERE.split()} | {
    root(text.stem(word)): COMMON_WEIGHT for word in _COMMON.split()
}


def roots_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the roots of a description, in order, without words that say nothing."""
    said = [root(text.stem(word)) for word in words if word not in SILENT]
    return tuple(said[:MOST_ROOTS])


def weight_of(phrase: tuple[str, ...]) -> float:
    """Return how much a root or a pair of roots says."""
    return PAIR_WEIGHT if len(phrase) > 1 else WEIGHTS.get(phrase[0], 1.0)


def pairs_of(roots: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the neighbours in a description."""
    return tuple(dict.fromkeys(pairwise(roots)))


def saturated(frequency: float, length: int) -> float:
    """Return how much so many mentions in a paper of so many words say, 0 to 1."""
    return frequency / (frequency + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / USUAL_LENGTH))


def cut(roots: tuple[str, ...]) -> float:
    """Return the score from which on a paper belongs."""
    whole = sum(weight_of((word,)) for word in dict.fromkeys(roots))
    return min(CUT, ENOUGH / whole)
