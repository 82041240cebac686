"""Look up in a fixed table how rare a word is in abstracts of research papers.

The rarity of a word is -log2 of the share of abstracts that contain it, in bits. The table was counted once in
abstracts of all fields, so that the score of a paper does not depend on the other papers of its batch.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

#: Bits of a word that is not in the table; rarer words do not count more, because many of them are new words.
RAREST = 9.0
COMMON = "common"  #: the label of the roots that say little in any field


def bits(root: str) -> float:
    """Return the rarity of the words with this root, in bits."""
    return _table()[0].get(root, RAREST)


def is_significant(root: str) -> bool:
    """Return whether words with this root describe a subject."""
    return root not in _table()[1]


@lru_cache(maxsize=1)  # cached, because the table never changes
def _table() -> tuple[dict[str, float], frozenset[str]]:
    """Return the bits of every root in the table, and the roots of words that say little in any field."""
    found: dict[str, float] = {}
    common: set[str] = set()
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        label, _, roots = line.partition(" ")
        if label == COMMON:
            common.update(roots.split())
        elif label != "#":
            found |= dict.fromkeys(roots.split(), float(label))
    return found, frozenset(common)
