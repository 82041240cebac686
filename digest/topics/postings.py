"""Where the words of a batch stand: by word, by pair of neighbours, and row by row.

Every text of the batch is a *document* with a number; a set of documents is an integer, bit by bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, pairwise
from typing import TypeAlias, TypeVar

from digest.topics import phrases, text

#: The words of a batch that one token stands for.
Forms: TypeAlias = tuple[int, ...]
#: A token as two parts: the glue between them, and the words that each stands for.
Halves: TypeAlias = tuple[str, tuple[Forms, Forms]]

_LAST = "\U0010ffff"
#: So many letters of the second word must stand before the * where only a blank parts it from the first.
SHORTEST_LOOSE = 3


_Value = TypeVar("_Value")


class _Memory(dict[str, _Value]):
    """What was found for a token, looked up once."""

    def __init__(self, look_up: Callable[[str], _Value]):
        super().__init__()
        self._look_up = look_up

    def __missing__(self, token: str) -> _Value:
        found = self[token] = self._look_up(token)
        return found


class Postings:
    """The words of a batch of documents, indexed once.

    A *word* is a folded part ("model"), or a part as typed if it begins with two capitals ("SAM"),
    which is then there under both. Words are numbered; a row is a string whose characters are the
    numbers of what stands in a document, so that the search for neighbours runs at the speed of
    `str.find`.
    """

    def __init__(self, documents: Iterable[tuple[int, str]]):
        surfaces: defaultdict[str, int] = defaultdict()
        surfaces.default_factory = surfaces.__len__
        number = surfaces.__getitem__
        rows: dict[int, list[int]] = {}
        self.glue: dict[int, str] = {}
        for document, written in documents:
            pieces = text.split(written)
            rows[document] = [*map(number, pieces[1::2])]
            self.glue[document] = "".join(map(text.glue_of, pieces[2:-1:2]))
        self._number_words(list(surfaces))
        self._post(rows)
        self._pair(rows)

    # ── building ────────────────────────────────────────────────────────────────────────────────

    def _number_words(self, surfaces: list[str]) -> None:
        self.words: dict[str, int] = {}
        number = self.words.setdefault
        self._folded = [number(text.fold(surface), len(self.words)) for surface in surfaces]
        self._typed = [
            number(surface, len(self.words)) if surface[1:2].isupper() and surface[0].isupper() else -1
            for surface in surfaces
        ]
        self.as_typed = frozenset(self._typed)
        self._spellings = list(self.words)
        self.sorted = sorted(self.words)
        stems: defaultdict[str, list[int]] = defaultdict(list)
        for word, at in self.words.items():
            stems[text.stem(word)].append(at)
        self.stems = {stem: tuple(forms) for stem, forms in stems.items()}

    def _post(self, rows: dict[int, list[int]]) -> None:
        by_surface = [0] * len(self._folded)
        for document, row in rows.items():
            bit = 1 << document
            for surface in set(row):
                by_surface[surface] |= bit
        self.posted = [0] * len(self.words)
        for surface, bits in enumerate(by_surface):
            self.posted[self._folded[surface]] |= bits
            if self._typed[surface] >= 0:
                self.posted[self._typed[surface]] |= bits

    def _pair(self, rows: dict[int, list[int]]) -> None:
        self._pairs: defaultdict[int, list[int]] = defaultdict(list)
        #: Pairs with a hyphen between, and pairs that a compound is not to be found in unseen:
        #: parted by more than a blank, or torn out of a longer compound.
        self._hyphened: defaultdict[int, list[int]] = defaultdict(list)
        self._odd: defaultdict[int, list[int]] = defaultdict(list)
        self.followers: defaultdict[int, set[int]] = defaultdict(set)
        self.rows: dict[int, str] = {}
        self.typed_rows: dict[int, str] = {}
        self._width = len(self.words)
        for document, row in rows.items():
            folded = [self._folded[surface] for surface in row]
            typed = [self._typed[surface] for surface in row]
            self.rows[document] = "".join(map(chr, folded))
            keys = {self._width * left + right for left, right in pairwise(folded)}
            if max(typed, default=-1) >= 0:
                acronyms = [*compress(range(len(typed)), [word >= 0 for word in typed])]
                self.typed_rows[document] = "".join(
                    chr(word if word >= 0 else fold) for word, fold in zip(typed, folded, strict=True)
                )
                keys.update(self._typed_keys(acronyms, folded, typed))
            for key in keys:
                self._pairs[key].append(document)
            self._pair_compounds(document, folded, typed)

    def _typed_keys(self, places: list[int], folded: list[int], typed: list[int]) -> Iterator[int]:
        width = self._width
        for i in places:
            if i + 1 < len(folded):
                yield width * typed[i] + folded[i + 1]
                if typed[i + 1] >= 0:
                    yield width * typed[i] + typed[i + 1]
            if i:
                yield width * folded[i - 1] + typed[i]

    def _pair_compounds(self, document: int, folded: list[int], typed: list[int]) -> None:
        glue = self.glue[document]
        hyphened, odd = set(), set()
        for i, mark in enumerate(glue):
            if mark == " ":
                if (i and glue[i - 1] == "-") or glue[i + 1 : i + 2] == "-":
                    odd.add(i)
            elif mark == "-":
                hyphened.add(i)
            else:
                odd.add(i)
        for places, table in ((hyphened, self._hyphened), (odd, self._odd)):
            for key in {key for i in places for key in self._keys_at(i, folded, typed)}:
                table[key].append(document)
        for i in hyphened:
            self.followers[folded[i]].add(folded[i + 1])

    def _keys_at(self, i: int, folded: list[int], typed: list[int]) -> Iterator[int]:
        for left in (folded[i], typed[i]):
            for right in (folded[i + 1], typed[i + 1]):
                if left >= 0 and right >= 0:
                    yield self._width * left + right

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def forms(self) -> Mapping[bool, Mapping[str, Forms]]:
        """The words that a token stands for: under True as it is, under False also its plural."""
        return {True: _Memory(self._exact_forms), False: _Memory(self._all_forms)}

    def _exact_forms(self, token: str) -> Forms:
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return (self.words[token],) if token in self.words else ()

    def _all_forms(self, token: str) -> Forms:
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return self.stems.get(text.stem(token), ())

    def _beginning(self, prefix: str) -> Forms:
        """Return the words that begin with `prefix`."""
        start = bisect_left(self.sorted, prefix)
        end = bisect_left(self.sorted, prefix + _LAST, start)
        return tuple([self.words[word] for word in self.sorted[start:end]])

    @cached_property
    def knows(self) -> Mapping[bool, Callable[[str], bool]]:
        """Whether a token stands for any word here: under True as it is, under False also as a plural."""
        stem, stems, words = text.stem, self.stems, self.words
        return {
            True: lambda token: token in words or token[-1] == "*",
            False: lambda token: stem(token) in stems or token[-1] == "*",
        }

    def having(self, words: Iterable[int]) -> int:
        """Return the documents that have any of `words`."""
        bits = 0
        for word in words:
            bits |= self.posted[word]
        return bits

    # ── neighbours ──────────────────────────────────────────────────────────────────────────────

    def side_by_side(self, forms: Sequence[Forms], gaps: str) -> int:
        """Return the documents in which a word of each of `forms` stands in turn, glued as `gaps` ask."""
        if len(forms) == 1:
            return self.having(forms[0])
        if not all(forms):
            return 0
        if len(forms) == 2:
            return self._pair_documents(forms[0], forms[1], gaps)
        if not gaps.strip() and max(map(len, forms)) == 1:
            return self._in_a_row([words[0] for words in forms])
        bits = -1
        for left, right in pairwise(forms):
            bits &= self._pair_documents(left, right, " ")
            if not bits:
                return 0
        return self._seen(bits, forms, gaps)

    def _in_a_row(self, words: Sequence[int]) -> int:
        """Return the documents that have these words in turn, by looking where the rarest pair stands."""
        pairs = self._pairs
        found = [pairs.get(left * self._width + right, ()) for left, right in pairwise(words)]
        rarest = min(found, key=len)
        if self.as_typed.isdisjoint(words):
            wanted, rows = "".join(map(chr, words)), self.rows
            return sum([1 << document for document in rarest if wanted in rows[document]])
        return self._seen(sum([1 << document for document in rarest]), [(word,) for word in words], "")

    def _pair_documents(self, lefts: Forms, rights: Forms, gap: str) -> int:
        bits, odd = 0, 0
        for left in lefts:
            for right in rights:
                key = left * self._width + right
                bits |= _set(self._pairs.get(key, ()) if gap != "=" else self._hyphened.get(key, ()))
                if gap == "-":
                    odd |= _set(self._odd.get(key, ()))
        if odd:
            bits = bits & ~odd | self._seen(odd, (lefts, rights), "-")
        return bits

    def _seen(self, bits: int, forms: Sequence[Forms], gaps: str) -> int:
        """Return those of the documents `bits` that have `forms` in turn, by looking at their rows."""
        seen = 0
        for document in members(bits):
            if next(self.places(document, forms, gaps), None) is not None:
                seen |= 1 << document
        return seen

    def places(self, document: int, forms: Sequence[Forms], gaps: str) -> Iterator[int]:
        """Yield where in a document words of `forms` stand in turn, glued as `gaps` ask."""
        row, glue = self.rows[document], self.glue[document]
        typed = self.typed_rows.get(document, row)
        plain = not gaps.strip()
        sets = [frozenset(map(chr, words)) for words in forms]
        if not all(sets):
            return
        last = len(row) - len(sets)
        for head in sets[0]:
            for haystack in (row,) if typed is row else (row, typed):
                at = haystack.find(head)
                while 0 <= at <= last:
                    if all(
                        row[at + k] in words or typed[at + k] in words for k, words in enumerate(sets)
                    ) and (plain or phrases.glue_fits(gaps, glue, at)):
                        yield at
                    at = haystack.find(head, at + 1)

    def together(self, forms: Sequence[Forms], between: int) -> int:
        """Return the documents with all of `forms` within a stretch of so many further words."""
        bits = -1
        for words in forms:
            bits &= self.having(words)
        seen = 0
        for document in members(bits if forms else 0):
            if phrases.near_window(self.all_places(document, forms), len(forms) + between):
                seen |= 1 << document
        return seen

    def all_places(self, document: int, forms: Sequence[Forms]) -> list[list[int]]:
        """Return where in a document each of `forms` stands, in order."""
        row, typed = self.rows[document], self.typed_rows.get(document, "")
        sets = [frozenset(map(chr, words)) for words in forms]
        found = [[i for i, word in enumerate(row) if word in words] for words in sets]
        for places, words in zip(found, sets, strict=True):
            places.extend(i for i, word in enumerate(typed) if word in words)
            places.sort()
        return found

    # ── words in two ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def halves(self) -> Mapping[bool, Mapping[str, list[Halves]]]:
        """The ways in which this batch writes a token as two parts: as it is, or also its plural."""
        return {
            True: _Memory(lambda token: self._written_in_two(token, self.forms[True])),
            False: _Memory(lambda token: self._written_in_two(token, self.forms[False])),
        }

    def _written_in_two(self, token: str, forms: Mapping[str, Forms]) -> list[Halves]:
        if token[-1] == "*":
            return self._begun_in_two(token[:-1])
        return [
            (gap, ((self.words[left],), forms[right]))
            for left, right, gap in phrases.halves(token, self.words)
            if self._pair_documents((self.words[left],), forms[right], gap)
        ]

    def _begun_in_two(self, prefix: str) -> list[Halves]:
        found: list[Halves] = []
        for left, right, gap in phrases.halves(prefix, self.words):
            first = self.words[left]
            loose = gap == "-" and len(right) >= SHORTEST_LOOSE
            forms = self._beginning(right) if loose else self._touching(first, right)
            if forms and self._pair_documents((first,), forms, "-" if loose else "="):
                found.append(("-" if loose else "=", ((first,), forms)))
        return found

    def _touching(self, first: int, prefix: str) -> Forms:
        """Return the words that begin with `prefix` and follow a word after a hyphen."""
        return tuple(word for word in self.followers.get(first, ()) if self.spelled(word).startswith(prefix))

    def spelled(self, word: int) -> str:
        """Return the word with a number."""
        return self._spellings[word]


def _set(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def members(bits: int) -> Iterator[int]:
    """Yield the numbers in a set, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
