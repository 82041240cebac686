"""Make `digest/topics/word_rarity.txt` from the word frequencies of the package `wordfreq`.

    pip install wordfreq==3.1.1
    python -m tests.topics.english_frequencies

The package is needed only here. Its frequencies come from subtitles, news, books, the web, Wikipedia and
social media, and no paper of the tests or of the labelled topics is among the sources.
"""

from __future__ import annotations

import importlib
import math
import textwrap
from collections import defaultdict
from pathlib import Path

from digest.topics import about_clauses, tokenizer, word_rarity, word_roots

HEADER = """\
# Roots of English words by their rarity, in bits: -log2 of the share of texts of 190 words that contain one.
#
# Licence: Creative Commons Attribution-ShareAlike 4.0, https://creativecommons.org/licenses/by-sa/4.0/
# The rest of this project has another licence. If you share this table or a changed version of it, use the
# licence above and keep these lines; programs that only read the table are not affected.
#
# Adapted from the English word frequencies of wordfreq 3.1.1 by Robyn Speer (2022),
# https://github.com/rspeer/wordfreq, whose data has the same licence. Changes: the frequencies of words with the
# same root are added, converted to bits and rounded to half a bit, and the rarest words are left out.
# Made by tests/topics/english_frequencies.py.
#
# wordfreq credits these sources: Wikipedia; SUBTLEX, freely available word lists by Marc Brysbaert and others;
# OpenSubtitles (OPUS 2018), http://www.opensubtitles.org/; the Leeds Internet Corpus, University of Leeds;
# ParaCrawl; Google Books Ngrams, http://books.google.com/ngrams; and messages on Twitter and Reddit.
"""


def main() -> None:
    """Write the table; rarities are rounded to half a bit, and the rarest words are left out."""
    frequencies = importlib.import_module("wordfreq").get_frequency_dict("en")
    rows = defaultdict(list)
    for root, frequency in sorted(by_root(frequencies).items()):
        bits = round(2 * rarity(frequency)) / 2
        if bits < word_rarity.RAREST:
            rows[bits].append(root)
    lines = [f"{bits:g} {line}" for bits in sorted(rows) for line in textwrap.wrap(" ".join(rows[bits]), 110)]
    target = Path(word_rarity.__file__).with_suffix(".txt")
    target.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def by_root(frequencies: dict[str, float]) -> dict[str, float]:
    """Return the total frequency of the words of each root."""
    total: defaultdict[str, float] = defaultdict(float)
    for word, frequency in frequencies.items():
        first = next(iter(tokenizer.read(word).folded), "")
        if first.isalpha():
            total[word_roots.root(first)] += frequency
    return total


def rarity(frequency: float) -> float:
    """Return -log2 of the chance that a text of usual length contains a word of this frequency."""
    return -math.log2(-math.expm1(-about_clauses.USUAL_LENGTH * frequency))


if __name__ == "__main__":
    main()
