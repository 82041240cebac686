"""Find the ends of sentences, and shorten text to whole sentences."""

from __future__ import annotations

import re

from digest.letters.figures_in_words import cut_at_word

SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]?(?=\s|$)|[。！？]")
#: Matches an abbreviation, whose full stop does not end a sentence.
ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|et al|vs|cf|Fig|Eq|Sec|resp|approx|etc|w\.r\.t|a\.k\.a))\.$|\b\d{1,2}\.\)$"
)


def to_sentence_end(text: str, max_length: int) -> str:
    """Return as many whole sentences as fit in `max_length` characters.

    If they take up a quarter of that length or less, return the text cut after a word instead.
    """
    if len(text) <= max_length:
        return text
    ends = [end for end in sentence_ends(text[: max_length + 1]) if max_length // 4 < end <= max_length]
    return text[: ends[-1]] if ends else cut_at_word(text, max_length)


def sentence_ends(text: str) -> tuple[int, ...]:
    """Return the end positions of sentences; the full stop of an initial or of `et al.` ends no sentence."""
    found = (match.end() for match in SENTENCE_END.finditer(text))
    return tuple([end for end in found if not ABBREVIATION.search(text[max(0, end - 12) : end])])


def first_sentences(text: str, count: int) -> str:
    """Return the first `count` sentences, or the whole text if it has at most `count`."""
    ends = sentence_ends(text)
    return text[: ends[count - 1]] if len(ends) > count else text
