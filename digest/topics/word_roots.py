"""Reduce words to their roots: generalise and generalization have the same root."""

from __future__ import annotations

from functools import lru_cache

from digest.topics import tokenizer

_LISTED = (
    "isation ization ational fulness iveness ability ically ations ation ators ator ative ising izing "
    "ness ment ings ing ally able ible edly ied ies ised ized ion ive ity ous ise ize ate ed er or ly "
    "al ic es s e y"
)
#: Longer endings come first.
_ENDINGS = tuple(_LISTED.split())
_SHORTEST_ROOT = 4


@lru_cache(maxsize=1 << 16)  # as large as the cache of `tokenizer.fold`
def root(word: str) -> str:
    """Return the root of a folded word, which is the same for manipulate, manipulations and manipulating."""
    stem = tokenizer.stem(word)
    for ending in _ENDINGS:
        if stem.endswith(ending) and len(stem) - len(ending) >= _SHORTEST_ROOT:
            return stem[: -len(ending)]
    return stem
