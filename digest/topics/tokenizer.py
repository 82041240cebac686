"""Split texts into words, fold case and accents, and reduce plurals and roots.

A text is a sequence of *parts*. A part consists of letters and digits ("model", "3.5", "gpt4"). Between two
parts is a separator, called `glue` in the code: `-` for a single hyphen, ` ` for spaces, `,` for other
characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from digest.papers import paper_record

#: Characters of Chinese and Japanese. No spaces separate words in these languages, so each character is a
#: part.
_SIGNS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
#: Combining accents and invisible characters inside words.
_MARKS = "\u0300-\u036f\u00ad\u200b-\u200d"
_PART = re.compile(
    rf"([{_SIGNS}]|[^\W_{_SIGNS}][^\W_{_SIGNS}]*(?:[{_MARKS}]+[^\W_{_SIGNS}]*)*"
    r"(?:['’][A-Za-z]+)*(?:(?<=\d)\.\d+)*)"
)
_ASCII_PART = re.compile(r"([A-Za-z0-9]+(?:'[A-Za-z]+)*(?:(?<=[0-9])\.[0-9]+)*)")
_POSSESSIVE = re.compile(r"['’][sS]$")

HYPHENS = "-‐‑⁃−–_"

_GREEK_LETTERS = "αβγδεζηθικλμνξοπρστυφχψω"
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma "
    "tau upsilon phi chi psi omega"
)
_GREEK = str.maketrans(dict(zip(_GREEK_LETTERS, _GREEK_NAMES.split(), strict=True)))

#: Words that never form a compound across a space, since "in form" is not "inform".
_FUNCTION_WORDS = (
    "a an and any are as at be but by can do for from get has have he her his how if in into is it "
    "its may me my no nor not now of one or our so such than that the their them then there these "
    "they this to too us use was we were what when which who will with you"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())

_IRREGULAR = {
    "analyses": "analysis", "hypotheses": "hypothesis", "theses": "thesis", "bases": "base", "axes": "axis",
    "matrices": "matrix", "indices": "index", "vertices": "vertex", "appendices": "appendix",
    "criteria": "criterion", "phenomena": "phenomenon", "minima": "minimum", "maxima": "maximum",
    "optima": "optimum", "extrema": "extremum", "spectra": "spectrum", "corpora": "corpus",
    "stimuli": "stimulus", "nuclei": "nucleus", "formulae": "formula", "biases": "bias", "lenses": "lens",
    "viruses": "virus", "focuses": "focus", "statuses": "status", "gases": "gas", "atlases": "atlas",
    "aliases": "alias", "canvases": "canvas", "corpuses": "corpus", "leaves": "leaf", "lives": "life",
    "children": "child", "people": "person", "mice": "mouse", "quizzes": "quiz",
}  # fmt: skip
_SINGULARS = "bias lens gas atlas alias canvas chaos series species always perhaps towards"
_WHOLE = frozenset(_SINGULARS.split())


#: A short acronym (SAM, LLMs), which matches only as it is typed.
ACRONYM = re.compile(r"[A-Z]{2,5}s?")

_LISTED = (
    "isation ization ational fulness iveness ability ically ations ation ators ator ative ising izing "
    "ness ment ings ing ally able ible edly ied ies ised ized ion ive ity ous ise ize ate ed er or ly "
    "al ic es s e y"
)
#: Longer endings come first.
_ENDINGS = tuple(_LISTED.split())
_SHORTEST_ROOT = 4


@dataclass(frozen=True, slots=True)
class WordParts:
    """A text as a sequence of parts; `glue[i]` is the separator between part `i` and the next part."""

    surfaces: tuple[str, ...]  #: as written
    folded: tuple[str, ...]  #: the parts without case, accents and possessives
    glue: str
    starts: tuple[int, ...]  #: the start of each part in the text
    ends: tuple[int, ...]


def split(text: str) -> list[str]:
    """Split `text` into alternating gaps and parts, beginning and ending with a gap, without losing characters."""
    return (_ASCII_PART if text.isascii() else _PART).split(text)


@lru_cache(maxsize=4096)  # texts contain only a few hundred distinct gaps
def glue_of(gap: str) -> str:
    """Return the separator that stands for the characters between two parts: a hyphen, a space or a comma.

    If there are no characters, as between Chinese characters, the separator is a hyphen.
    """
    if not gap or (len(gap) == 1 and gap in HYPHENS):
        return "-"
    return " " if gap.isspace() else ","


def read(text: str) -> WordParts:
    """Return the parts of `text` with their positions."""
    pieces = split(text)
    ends = tuple(accumulate(map(len, pieces)))
    surfaces = tuple(pieces[1::2])
    return WordParts(
        surfaces=surfaces,
        folded=tuple(map(fold, surfaces)),
        glue="".join(map(glue_of, pieces[2:-1:2])),
        starts=ends[0:-1:2],
        ends=ends[1::2],
    )


@lru_cache(maxsize=1 << 16)  # the vocabulary of a month of papers is some 50,000 words; 9 MB
def fold(part: str) -> str:
    """Return `part` folded for comparison: é becomes e, α becomes alpha, model's becomes model."""
    if part.isascii():
        return part.lower() if part.isalnum() else _plain(part.lower())
    return _plain(paper_record.fold(_POSSESSIVE.sub("", part)).translate(_GREEK))


def _plain(folded: str) -> str:
    folded = _POSSESSIVE.sub("", folded)
    return "".join(char for char in folded if char.isalnum() or char == ".")


@lru_cache(maxsize=65536)  # as large as the cache of `fold`; 6 MB
def stem(folded: str) -> str:
    """Return the stem of a word, which is the same for singular and plural (`model`, `models`).

    Only plural endings are removed, so `generalise` never matches `general`.
    """
    if folded in _WHOLE or len(folded) < 3:
        return folded
    single = _IRREGULAR.get(folded) or _singular(folded)
    # "caches" may be the plural of "cach" or "cache", so the stem of both omits the e.
    return single[:-1] if single.endswith(("che", "she", "sse", "xe", "ze")) else single


def _singular(folded: str) -> str:
    if not folded.endswith("s") or folded.endswith(("us", "ss", "is")) or len(folded) < 4:
        return folded
    if folded.endswith("ies") and len(folded) > 4 and not folded.endswith(("eies", "aies")):
        return folded[:-3] + "y"
    return folded[:-1]


@lru_cache(maxsize=1 << 16)  # as large as the cache of `fold`
def root(word: str) -> str:
    """Return the root of a folded word, which is the same for manipulate, manipulations and manipulating."""
    singular = stem(word)
    for ending in _ENDINGS:
        if singular.endswith(ending) and len(singular) - len(ending) >= _SHORTEST_ROOT:
            return singular[: -len(ending)]
    return singular


def is_as_typed(surface: str) -> bool:
    """Return whether a part is also indexed as typed because it begins with two capitals (SAM, GPT4)."""
    return surface[1:2].isupper() and surface[0].isupper()
