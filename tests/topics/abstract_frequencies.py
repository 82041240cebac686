"""Make `digest/topics/word_rarity.txt` from the numbers of abstracts that contain each word.

    python -m tests.topics.abstract_frequencies

The numbers are in `../shared/data`, whose README names their sources. They are facts: no text is among them.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from pathlib import Path

from digest.topics import tokenizer, word_rarity
from tests.topics.test_relevance import SHARED

ABSTRACTS = 208_594
#: Counted in 2020, so a word that few abstracts had is treated as if some more had it.
SMOOTHED_BY = 12
HEADER = f"""\
# Roots of words by their rarity in abstracts of research papers, in bits: -log2 of the share of {ABSTRACTS:,}
# abstracts of four groups of fields that contain a word with this root. Rarer roots are left out.
# The lines that begin with "common" list roots of words that say little in any field.
# Made by tests/topics/abstract_frequencies.py.
"""


def main() -> None:
    """Write the table; rarities are rounded to a quarter of a bit."""
    rows = defaultdict(list)
    for root, share in sorted(shares(SHARED / "data" / "abstract_words.tsv").items()):
        bits = round(-4 * math.log2(share + SMOOTHED_BY / ABSTRACTS)) / 4
        if bits < word_rarity.RAREST:
            rows[f"{bits:g}"].append(root)
    listed = (SHARED / "data" / "academic_commonplace.txt").read_text(encoding="utf-8").splitlines()
    words = [word for word in listed if word.isalpha()]
    rows["common"] = sorted({tokenizer.root(tokenizer.fold(word)) for word in words})
    lines = [
        f"{label} {line}" for label, roots in rows.items() for line in textwrap.wrap(" ".join(roots), 110)
    ]
    target = Path(word_rarity.__file__).with_suffix(".txt")
    target.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def shares(path: Path) -> dict[str, float]:
    """Return the share of abstracts with a word of each root, as if its words occurred independently."""
    without: defaultdict[str, float] = defaultdict(lambda: 1.0)
    for line in path.read_text(encoding="utf-8").splitlines()[2:]:
        word, documents, *_ = line.split("\t")
        without[tokenizer.root(tokenizer.fold(word))] *= 1 - int(documents) / ABSTRACTS
    return {root: 1 - share for root, share in without.items()}


if __name__ == "__main__":
    main()
