"""Where the words of a batch stand: by word, by pair of neighbours, and all in a row.

Every text of the batch is a *document* with a number; a set of documents is an integer, bit by bit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias, TypeVar

from digest.topics import pairs, phrases, sets, text
from digest.topics.pairs import Pairs

#: The words of a batch that one token stands for.
Forms: TypeAlias = tuple[int, ...]
#: A token as two parts: the glue between them, and the words that each stands for.
Halves: TypeAlias = tuple[str, tuple[Forms, Forms]]

_LAST = "\U0010ffff"
#: So many letters of the second word must stand before the * where only a blank parts it from the first.
SHORTEST_LOOSE = 3
#: After so many looks at every row, a table of pairs would have been cheaper, and is made.
PATIENCE = 40
#: A word is searched for in all its forms if they are no more than this.
FEW = 4
#: A place before the beginning or behind the end is in the margin, where no word stands.
MARGIN = chr(0) * pairs.MARGIN


class Known(NamedTuple):
    """What a batch has for a token."""

    forms: Forms
    halves: list[Halves]


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memory(dict[_Key, _Value]):
    """What was found for a key: looked up when first asked for."""

    def __init__(self, look_up: Callable[[_Key], _Value]):
        super().__init__()
        self._look_up = look_up

    def __missing__(self, key: _Key) -> _Value:
        found = self[key] = self._look_up(key)
        return found


class Postings:
    """The words of a batch of documents, indexed once.

    A *word* is a folded part ("model"), or a part as typed if it begins with two capitals ("SAM"),
    which is then there under both. Words are numbered. The whole batch is one string, whose
    characters are the numbers of the words, so that the search for neighbours runs at the speed of
    `str.find`; word 0 is none and parts the documents.
    """

    def __init__(self, documents: Iterable[tuple[int, str]]):
        surfaces: defaultdict[str, int] = defaultdict()
        surfaces.default_factory = surfaces.__len__
        number = surfaces.__getitem__
        row = [number("")]
        glue = [","]
        self._document_at = array("I", [0])
        self._spans: dict[int, tuple[int, int]] = {}
        for document, written in documents:
            pieces = text.split(written)
            start = len(row)
            row.extend(map(number, pieces[1::2]))
            self._spans[document] = (start, len(row))
            row.append(0)
            glue.extend(map(text.glue_of, pieces[2:-1:2]))
            glue.append(",," if len(row) - start > 1 else ",")
            self._document_at.extend(repeat(document, len(row) - start))
        self.glue = "".join(glue)
        self._size = max(self._spans, default=0) + 1
        self._number_words(list(surfaces))
        self._post(row)
        self._table: Pairs | None = None
        self._looks = 0

    # ── building ────────────────────────────────────────────────────────────────────────────────

    def _number_words(self, surfaces: list[str]) -> None:
        self.words: dict[str, int] = {"": 0}
        number = self.words.setdefault
        self._folded = [number(text.fold(surface), len(self.words)) for surface in surfaces]
        self._typed = [
            number(surface, len(self.words)) if surface[1:2].isupper() and surface[0].isupper() else folded
            for surface, folded in zip(surfaces, self._folded, strict=True)
        ]
        self._as_typed = frozenset(self._typed).difference(self._folded)
        self._spellings = list(self.words)
        self._sorted = sorted(self.words)
        stems: defaultdict[str, list[int]] = defaultdict(list)
        for word, at in self.words.items():
            stems[text.stem(word)].append(at)
        self.stems = {stem: tuple(forms) for stem, forms in stems.items()}

    def _post(self, row: list[int]) -> None:
        """List the documents of every word, and turn the row of surfaces into rows of words."""
        by_surface: list[list[int]] = [[] for _ in self._folded]
        for document, (start, end) in self._spans.items():
            for surface in set(row[start:end]):
                by_surface[surface].append(document)
        surfaces_of: list[set[int]] = [set() for _ in self._spellings]
        for surface, (folded, typed) in enumerate(zip(self._folded, self._typed, strict=True)):
            surfaces_of[folded].add(surface)
            surfaces_of[typed].add(surface)
        self._listed = [[by_surface[surface] for surface in surfaces] for surfaces in surfaces_of]
        self.posted: Mapping[int, int] = Memory(
            lambda word: sets.of_many(chain.from_iterable(self._listed[word]), self._size)
        )
        self.row = "".join(map([*map(chr, self._folded)].__getitem__, row)) + MARGIN
        self.typed = "".join(map([*map(chr, self._typed)].__getitem__, row)) + MARGIN

    def prepare(self) -> None:
        """Make at once what would be made when asked for: right before very many questions."""
        for word in range(len(self._listed)):
            self.posted[word]
        self._table = self._table or self._new_table()

    def _new_table(self) -> Pairs:
        return Pairs(self.row, self.typed, self.glue, self._document_at)

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def known(self) -> Mapping[bool, Mapping[str, Known]]:
        """What this batch has for a token: under True as it is, under False also its plural."""
        return {True: Memory(self._known_as_it_is), False: Memory(self._known_in_number)}

    def _known_as_it_is(self, token: str) -> Known:
        return Known(self._exact_forms(token), self._in_two(token, self._exact_forms))

    def _known_in_number(self, token: str) -> Known:
        return Known(self._all_forms(token), self._in_two(token, self._all_forms))

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
        start = bisect_left(self._sorted, prefix)
        end = bisect_left(self._sorted, prefix + _LAST, start)
        return tuple([self.words[word] for word in self._sorted[start:end]])

    def having(self, words: Forms) -> int:
        """Return the documents that have any of `words`."""
        if len(words) == 1:
            return self.posted[words[0]]
        bits = 0
        for word in words:
            bits |= self.posted[word]
        return bits

    # ── neighbours ──────────────────────────────────────────────────────────────────────────────

    def side_by_side(self, forms: Sequence[Forms], gaps: str) -> int:
        """Return the documents in which a word of each of `forms` stands in turn, glued as `gaps` ask."""
        if len(forms) == 1:
            return self.having(forms[0])
        table = self._table
        if table is not None and not gaps.strip():
            if len(forms) == 2:
                return self._beside(forms[0], forms[1], table)
            if all(forms) and max(map(len, forms)) == 1:
                return table.documents_at(table.in_a_row([words[0] for words in forms])[1])
        return sets.of(map(self._document_at.__getitem__, self._places(forms, gaps)))

    def _beside(self, lefts: Forms, rights: Forms, table: Pairs) -> int:
        if len(lefts) == len(rights) == 1:
            return table.documents(lefts[0], rights[0])
        bits = 0
        for left in lefts:
            for right in rights:
                bits |= table.documents(left, right)
        return bits

    def _places(self, forms: Sequence[Forms], gaps: str) -> Iterable[int]:
        """Return where in the batch words of `forms` stand in turn, glued as `gaps` ask."""
        if not all(forms):
            return ()
        single = max(map(len, forms)) == 1
        places: Iterable[int]
        if self._table is None:
            places = self._searched(forms)
        elif single:
            places = self._looked_up([form[0] for form in forms], self._table)
        else:
            places = self._paired(forms, self._table)
        if "-" not in gaps and "=" not in gaps:
            return places
        return [place for place in places if phrases.glue_fits(gaps, self.glue, place)]

    def _looked_up(self, words: Sequence[int], table: Pairs) -> Iterable[int]:
        """Return where single words stand in turn."""
        which, places = table.in_a_row(words)
        return [at - which for at in places] if which else places

    def _paired(self, forms: Sequence[Forms], table: Pairs) -> Iterable[int]:
        places = chain.from_iterable(table.places(left, right) for left in forms[0] for right in forms[1])
        return self._where_all(places, forms, known=(0, 1)) if len(forms) > 2 else places

    def _where_all(
        self, places: Iterable[int], forms: Sequence[Forms], known: Sequence[int] = ()
    ) -> list[int]:
        """Return those of `places` where `forms` stand in turn; some are `known` to."""
        row, typed = self.row, self.typed
        for k, words in enumerate(signs(forms)):
            if k not in known:
                places = [at for at in places if row[at + k] in words or typed[at + k] in words]
        return list(places)

    def _searched(self, forms: Sequence[Forms]) -> list[int]:
        """Return where words stand in turn, by a search for all or for the rarest of them."""
        self._look(len(self._spans) // 4)
        as_typed = {words[0] in self._as_typed for words in forms}
        if max(map(len, forms)) == 1 and len(as_typed) == 1:  # else "SAM model" stands in neither row
            wanted = "".join(chr(words[0]) for words in forms)
            return [*_found(self.typed if True in as_typed else self.row, wanted)]
        rarest = min(range(len(forms)), key=lambda k: self._price(forms[k]))
        if len(forms[rarest]) > FEW:
            return self._scanned(forms)
        starts = {
            at - rarest
            for word in forms[rarest]
            for at in _found(self.typed if word in self._as_typed else self.row, chr(word))
        }
        return sorted(self._where_all(starts, forms, known=(rarest,)))

    def _price(self, words: Forms) -> int:
        """Return about how much must be looked at to find every place of `words`."""
        return len(words) * len(self._spans) + sum(
            map(len, chain.from_iterable(map(self._listed.__getitem__, words)))
        )

    def _scanned(self, forms: Sequence[Forms]) -> list[int]:
        """Return where words stand in turn, by a look at every document that has all of them."""
        documents = -1
        for words in forms:
            documents &= self.having(words)
        self._look(documents.bit_count())
        places = chain.from_iterable(range(*self._spans[document]) for document in sets.members(documents))
        return self._where_all(places, forms)

    def _look(self, documents: int) -> None:
        """Count what is looked at: a table of pairs is worth its price if phrases are asked for often."""
        self._looks += documents
        if self._looks > PATIENCE * len(self._spans) and self._table is None:
            self._table = self._new_table()

    def places(self, document: int, forms: Sequence[Forms], gaps: str) -> list[int]:
        """Return where in a document words of `forms` stand in turn, glued as `gaps` ask."""
        start, end = self._spans[document]
        if not all(forms):
            return []
        found = self._where_all(range(start, end - len(forms) + 1), forms)
        return [place - start for place in found if phrases.glue_fits(gaps, self.glue, place)]

    def found_in(self, forms: Sequence[Forms], gaps: str) -> Iterator[int]:
        """Yield the document of every place where words of `forms` stand in turn."""
        if len(forms) > 1:
            yield from map(self._document_at.__getitem__, self._places(forms, gaps))
            return
        for document in sets.members(self.having(forms[0]) if forms[0] else 0):
            yield from repeat(document, self.count(document, forms[0]))

    def count(self, document: int, words: Forms) -> int:
        """Return how often any of `words` stands in a document."""
        start, end = self._spans.get(document, (0, 0))
        typed, as_typed = self.typed, self._as_typed
        return sum([(typed if word in as_typed else self.row).count(chr(word), start, end) for word in words])

    def length(self, document: int) -> int:
        """Return how many words a document has."""
        start, end = self._spans.get(document, (0, 0))
        return end - start

    def together(self, forms: Sequence[Forms], between: int) -> int:
        """Return the documents with all of `forms` within a stretch of so many further words."""
        bits = -1
        for words in forms:
            bits &= self.having(words)
        reach = len(forms) + between
        return sets.of(
            document
            for document in sets.members(bits)
            if phrases.near_window(self.all_places(document, forms), reach)
        )

    def all_places(self, document: int, forms: Sequence[Forms]) -> list[list[int]]:
        """Return where in a document each of `forms` stands, in order."""
        start, end = self._spans[document]
        row, typed = self.row[start:end], self.typed[start:end]
        return [
            sorted(at for word in words for at in _found(typed if word in self._as_typed else row, chr(word)))
            for words in forms
        ]

    # ── words in two ────────────────────────────────────────────────────────────────────────────

    def _in_two(self, token: str, forms: Callable[[str], Forms]) -> list[Halves]:
        """Return the ways in which this batch writes a token as two parts."""
        if token[-1] == "*":
            return self._begun_in_two(token[:-1])
        found: list[Halves] = []
        for left, right, gap in phrases.halves(token, self.words):
            two = (self.words[left],), forms(right)
            if two[1] and self._is_beside(self.words[left], two[1], gap):
                found.append((gap, two))
        return found

    def _begun_in_two(self, prefix: str) -> list[Halves]:
        found: list[Halves] = []
        for left, right, gap in phrases.halves(prefix, self.words):
            first = self.words[left]
            loose = gap == "-" and len(right) >= SHORTEST_LOOSE
            forms = self._beginning(right) if loose else self._touching(first, right)
            if forms and self._is_beside(first, forms, "-" if loose else "="):
                found.append(("-" if loose else "=", ((first,), forms)))
        return found

    def _is_beside(self, left: int, rights: Forms, gap: str) -> bool:
        return any(True for _ in self._places(((left,), rights), gap))

    def _touching(self, first: int, prefix: str) -> Forms:
        """Return the words that begin with `prefix` and may follow a word after a hyphen."""
        if self._table is None:
            return self._beginning(prefix)
        spelled = self._spellings
        return tuple([word for word in self._table.followers(first) if spelled[word].startswith(prefix)])


def signs(forms: Sequence[Forms]) -> list[frozenset[str]]:
    """Return words as they stand in rows."""
    return [frozenset(map(chr, words)) for words in forms]


def _found(row: str, wanted: str) -> Iterator[int]:
    at = row.find(wanted)
    while at >= 0:
        yield at
        at = row.find(wanted, at + 1)
