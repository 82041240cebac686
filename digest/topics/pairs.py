"""Which words stand right before which: made when enough phrases are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from digest.topics import sets

#: The documents of a pair found in more places than this are kept as a set.
MANY = 12


class Pairs:
    """The places where one word stands right before another, by the numbers of the two.

    `row` holds folded words, a character each; `typed` the same, with words as typed where there
    are such: a pair is listed under every way to name it.
    """

    def __init__(self, row: str, typed: str, glue: str, document_at: Sequence[int]):
        self._width = width = max(map(ord, set(row) | set(typed))) + 1
        self._document_at = document_at
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        # One place of the margin behind the last word, so that every word has a neighbour.
        words = [*map(ord, row[: len(glue) + 1])]
        as_typed = [*map(ord, typed[: len(glue) + 1])]
        for at, (left, right) in enumerate(pairwise(words)):
            self._places[left * width + right].append(at)
        for at in [at for at, word in enumerate(as_typed) if word != words[at]]:
            for left in {words[at - 1], as_typed[at - 1]}:
                self._places[left * width + as_typed[at]].append(at - 1)
            self._places[as_typed[at] * width + words[at + 1]].append(at)
        self._followers: defaultdict[int, set[int]] = defaultdict(set)
        at = glue.find("-")
        while at >= 0:
            self._followers[words[at]].add(words[at + 1])
            at = glue.find("-", at + 1)
        many = max(MANY, max(document_at) // 256)
        self._documents = {
            key: sets.of(map(document_at.__getitem__, places))
            for key, places in self._places.items()
            if len(places) > many
        }

    def documents(self, left: int, right: int) -> int:
        """Return the documents in which one word stands right before another."""
        key = left * self._width + right
        found = self._documents.get(key)
        if found is None:
            return sets.of(map(self._document_at.__getitem__, self._places.get(key, ())))
        return found

    def places(self, left: int, right: int) -> Sequence[int]:
        """Return where the first of two neighbours stands."""
        return self._places.get(left * self._width + right, ())

    def rarest(self, words: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return which two neighbours in `words` are found least often, and where."""
        found, width = self._places, self._width
        which, rarest = 0, found.get(words[0] * width + words[1], ())
        for i in range(1, len(words) - 1):
            places = found.get(words[i] * width + words[i + 1], ())
            if len(places) < len(rarest):
                which, rarest = i, places
        return which, rarest

    def followers(self, word: int) -> Iterable[int]:
        """Return the words that follow a word after a hyphen."""
        return self._followers.get(word, ())
