"""Score papers against a free-text description, with a fixed threshold for a match.

A description is reduced to the roots of its words ("generalise" and "generalization" have the same root)
and to pairs of neighbouring roots, which count for more. Papers are scored as in BM25. Whether a paper
matches depends only on fixed word weights, so the result is the same for the paper alone, in today's batch
and in a backtest. The order of matching papers also depends on how rare each word is in the batch.
"""

from __future__ import annotations

from itertools import pairwise

from digest.topics import tokenizer

#: A paper matches if it reaches this share of the best possible score for single words or this total score,
#: which one or two rare words can reach.
CUT, THRESHOLD_WEIGHT = 0.3, 1.2
TITLE_WEIGHT = 3.0  #: a word in the title counts as this many words in the abstract
SATURATION = 1.2  #: BM25's k1
LENGTH_SHARE = 0.4  #: BM25's b
USUAL_LENGTH = 190  #: words of a title and an abstract
PAIR_WEIGHT = 0.75  #: weight of two neighbouring words, relative to a single one
RARE_PAIR_WEIGHT = 0.5  #: the same if rare words already count for more
MAX_ROOTS = 24  #: maximum number of roots; the rest of a long description is ignored

_SILENT = (
    "about across after all also among between both during each every other our own same some through "
    "toward towards under until very via whether while without etc how why than seen such like main more "
    "most new novel using use used based paper papers study studies work approach method methods effect "
    "effects aspect aspects topic topics thing things e g"
)
SILENT_WORDS = tokenizer.FUNCTION_WORDS.union(_SILENT.split())

_EVERYWHERE = "model learn train data network result task perform propose show neural"
_COMMON = (
    "deep large language image dataset algorithm experiment evaluate improve generalize general feature "
    "domain problem analysis application system framework process test design structure different "
    "representation distribution function setting sample apply efficient effective benchmark various "
    "human time high low state art parameter"
)
#: Weights of the words that most or many papers contain; all other words have weight 1.
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
    """Return the root of a word, which is the same for manipulate, manipulation and manipulating."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_ROOT:
            return word[: -len(ending)]
    return word


WEIGHTS = {root(tokenizer.stem(word)): EVERYWHERE_WEIGHT for word in _EVERYWHERE.split()} | {
    root(tokenizer.stem(word)): COMMON_WEIGHT for word in _COMMON.split()
}


def roots_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the roots of a description, in order, without stop words."""
    roots = [root(tokenizer.stem(word)) for word in words if word not in SILENT_WORDS]
    return tuple(roots[:MAX_ROOTS])


def weight_of(phrase: tuple[str, ...]) -> float:
    """Return the weight of a root or of a pair of roots."""
    return PAIR_WEIGHT if len(phrase) > 1 else WEIGHTS.get(phrase[0], 1.0)


def pairs_of(roots: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of neighbouring roots."""
    return tuple(dict.fromkeys(pairwise(roots)))


def saturated(frequency: float, length: int) -> float:
    """Return the score, 0 to 1, of `frequency` mentions in a paper of `length` words."""
    return frequency / (frequency + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / USUAL_LENGTH))


def cut(roots: tuple[str, ...]) -> float:
    """Return the minimum score of a matching paper."""
    whole = sum(weight_of((word,)) for word in dict.fromkeys(roots))
    return min(CUT, THRESHOLD_WEIGHT / whole)
