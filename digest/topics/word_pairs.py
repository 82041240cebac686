"""Index pairs of neighbouring words, to look up many phrases quickly."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import add, ne

from digest import bitsets

MARGIN = 1000
#: The documents of a pair are stored as a set only if the pair occurs more often than this.
MIN_LISTED_PLACES = 12
NO_PLACES: Sequence[int] = ()


class WordPairs:
    """The positions of each pair of neighbouring words, keyed by the numbers of the two words.

    `row` contains the folded words, one character per word. In `typed`, words that are also indexed as typed
    replace the folded words. A pair is listed under each combination of folded and typed words.
    """

    def __init__(self, row: str, typed: str, glue: str, document_at: array[int]):
        self._document_at = document_at
        self._last = max(document_at)
        margin = array("I", [0]) * MARGIN
        # Includes one margin character after the last word, so that every word has a neighbour.
        self._words = words = numbers_of(row[: len(glue) + 1])
        self._typed = as_typed = numbers_of(typed[: len(glue) + 1])
        self._width = width = max(chain(words, as_typed)) + 1
        # Arrays are faster to scan than lists because their numbers are contiguous.
        self._places: defaultdict[int, array[int]] = defaultdict(lambda: array("I"))
        for at, key in enumerate(map(add, map(width.__mul__, words), words[1:])):
            self._places[key].append(at)
        unlike = [*compress(range(len(words)), map(ne, words, as_typed))]
        for at in unlike:
            for left in {words[at - 1], as_typed[at - 1]}:
                self._places[left * width + as_typed[at]].append(at - 1)
            self._places[as_typed[at] * width + words[at + 1]].append(at)
        self._followers: defaultdict[int, set[int]] = defaultdict(set)
        at = glue.find("-")
        while at >= 0:
            self._followers[words[at]].add(words[at + 1])
            at = glue.find("-", at + 1)
        self._as_typed = frozenset(map(as_typed.__getitem__, unlike))
        words.extend(margin)
        as_typed.extend(margin)
        self._documents: dict[int, int] = {}

    def list_documents(self) -> None:
        """Store the documents of every frequent pair; call this before many lookups."""
        many = max(MIN_LISTED_PLACES, self._last // 256)
        self._documents = {
            key: self.documents_at(places) for key, places in self._places.items() if len(places) > many
        }

    def documents(self, left: int, right: int) -> int:
        """Return the documents in which the word `left` directly precedes the word `right`."""
        key = left * self._width + right
        found = self._documents.get(key)
        return self.documents_at(self._places.get(key, NO_PLACES)) if found is None else found

    def places(self, left: int, right: int) -> Sequence[int]:
        """Return the positions at which the word `left` directly precedes the word `right`."""
        return self._places.get(left * self._width + right, ())

    def in_a_row(self, phrase: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return (offset, positions) of a phrase, found by looking up its rarest pair of words.

        The positions are those of the pair, which is `offset` words after the first word of the phrase.
        """
        found, width = self._places, self._width
        which, places = 0, found.get(phrase[0] * width + phrase[1], NO_PLACES)
        for i in range(1, len(phrase) - 1):
            others = found.get(phrase[i] * width + phrase[i + 1], NO_PLACES)
            if len(others) < len(places):
                which, places = i, others
        for k, word in enumerate(phrase):
            if k != which and k != which + 1:
                row, away = self._typed if word in self._as_typed else self._words, k - which
                places = [at for at in places if row[at + away] == word]
        return which, places

    def documents_in_a_row(self, phrase: Sequence[int]) -> int:
        """Return the documents that contain a phrase."""
        if len(phrase) == 2:
            return self.documents(*phrase)
        if len(phrase) != 3 or not self._as_typed.isdisjoint(phrase):
            return self.documents_at(self.in_a_row(phrase)[1])
        first, middle, last = phrase
        lefts = self._places.get(first * self._width + middle, NO_PLACES)
        rights = self._places.get(middle * self._width + last, NO_PLACES)
        row = self._words
        if len(lefts) <= len(rights):
            return self.documents_at([at for at in lefts if row[at + 2] == last])
        return self.documents_at([at for at in rights if row[at - 1] == first])

    def documents_at(self, places: Sequence[int]) -> int:
        """Return the documents that contain the positions `places`."""
        document_at = self._document_at
        if len(places) > bitsets.MANY_NUMBERS:
            return bitsets.bitset_of_many(map(document_at.__getitem__, places), self._last)
        bits = 0
        for at in places:
            bits |= 1 << document_at[at]
        return bits

    def followers(self, word: int) -> Iterable[int]:
        """Return the words that follow `word` after a hyphen."""
        return self._followers.get(word, ())


def numbers_of(row: str) -> array[int]:
    """Return the words of a row as numbers, without the byte order mark that Python adds at the beginning."""
    return array("I", row.encode("utf-32", "surrogatepass"))[1:]
