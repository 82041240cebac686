"""Where the words of a batch stand: by word, by pair of neighbours, and all in a row.

Every text of the batch is a *document* with a number; a set of documents is an integer, bit by bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from digest.topics import pairs, phrases, sets, text
from digest.topics.pairs import Pairs
from digest.topics.rows import Memory, Rows

#: The words of a batch that one token stands for.
Forms: TypeAlias = tuple[int, ...]
#: A token as two parts: the glue between them, and the words that each stands for.
Halves: TypeAlias = tuple[str, tuple[Forms, Forms]]
#: Where something stands in a stretch of the rows, from its start to its end.
Search: TypeAlias = Callable[[int, int], list[int]]

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


class Postings:
    """Where the words of some rows stand, however they are asked for."""

    def __init__(self, rows: Rows):
        self.words = rows.words
        self.glue = rows.glue
        self.row, self.typed = rows.folded + MARGIN, rows.typed + MARGIN
        self.spans = rows.spans
        self._size = max(rows.spans, default=0) + 1
        self._document_at = rows.document_at
        self._folded_of = rows.folded_of
        self._table: Pairs | None = None
        self._looks = 0

    # ── made when asked for ─────────────────────────────────────────────────────────────────────

    @cached_property
    def stems(self) -> Mapping[str, Forms]:
        """The words by what they share with their plurals."""
        every = [*zip(map(text.stem, self.words), self.words.values(), strict=True)]
        stems: dict[str, Forms] = {stem: (at,) for stem, at in every}
        if len(stems) < len(every):
            for stem, at in reversed(every):
                if stems[stem][0] != at:
                    stems[stem] = (at, *stems[stem])
        return stems

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.words)

    @cached_property
    def _spellings(self) -> list[str]:
        return list(self.words)

    @cached_property
    def _listed(self) -> Sequence[Sequence[int]]:
        """The document of every place of every word; of a folded one, also of those where it stands as typed."""
        listed: list[list[int]] = [[] for _ in self.words]
        for document, (start, end) in self.spans.items():
            for word in map(ord, self.typed[start:end]):
                listed[word].append(document)
        for word, folded in self._folded_of.items():
            listed[folded] += listed[word]
        return listed

    @cached_property
    def posted(self) -> Mapping[int, int]:
        """The set of the documents that have a word."""
        return Memory(lambda word: sets.of_many(self._listed[word], self._size))

    def list_words(self) -> None:
        """Make at once what nearly every question needs, so that the first is answered like the others."""
        self._sorted, self.stems, self._listed  # noqa: B018 - each is made by being looked at

    def prepare(self) -> None:
        """Make at once what would be made when asked for: right before very many questions."""
        for word in range(len(self.words)):
            self.posted[word]
        self._table = self._table or self._new_table()
        self._table.list_documents()

    def _new_table(self) -> Pairs:
        return Pairs(self.row, self.typed, self.glue, self._document_at)

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def known(self) -> Mapping[bool, Mapping[str, Known]]:
        """What this batch has for a token: under True as it is, under False also its plural."""
        return {True: Memory(self._known_as_it_is), False: Memory(self._known_in_number)}

    def _known_as_it_is(self, token: str) -> Known:
        return Known(self.exact_forms(token), self._in_two(token, self.exact_forms))

    def _known_in_number(self, token: str) -> Known:
        return Known(self.all_forms(token), self._in_two(token, self.all_forms))

    def exact_forms(self, token: str) -> Forms:
        """Return the words of this batch that a token stands for as it is."""
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return (self.words[token],) if token in self.words else ()

    def all_forms(self, token: str) -> Forms:
        """Return those that it stands for in any number."""
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return self.stems.get(text.stem(token), ())

    def _beginning(self, prefix: str) -> Forms:
        """Return the words that begin with `prefix`."""
        start = bisect_left(self._sorted, prefix)
        end = bisect_left(self._sorted, prefix + _LAST, start)
        return tuple([self.words[word] for word in self._sorted[start:end]])

    @cached_property
    def alone(self) -> Mapping[str, int]:
        """The one word that a token stands for as it is; 0 for none, for several, and where it is written in two."""
        return Memory(self._alone)

    def _alone(self, token: str) -> int:
        forms, halves = self.known[True][token]
        return forms[0] if len(forms) == 1 and not halves else 0

    def phrase(self, words: Sequence[int]) -> int | None:
        """Return the documents in which words stand in turn; None as long as there is no table of pairs."""
        return self._table.documents_in_a_row(words) if self._table is not None else None

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
            wanted = [words[0] for words in forms if len(words) == 1]
            if len(wanted) == len(forms):
                return table.documents_in_a_row(wanted)
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
        self._look(len(self.spans) // 4)
        spelled = self._spelled(forms)
        if spelled:
            return _found(*spelled)
        rarest = min(range(len(forms)), key=lambda k: self._price(forms[k]))
        if len(forms[rarest]) > FEW:
            return self._scanned(forms)
        starts = {at - rarest for word in forms[rarest] for at in self._places_of(word, 0, len(self.row))}
        return sorted(self._where_all(starts, forms, known=(rarest,)))

    def _spelled(self, forms: Sequence[Forms]) -> tuple[str, str] | None:
        """Return the row in which single words stand as `forms` have them, and how they are spelled there.

        There is none for forms of several words, nor for "SAM model": one row has SAM, the other model.
        """
        where, wanted = None, ""
        for words in forms:
            row = self.typed if words[0] in self._folded_of else self.row
            if len(words) > 1 or (where is not None and where is not row):
                return None
            where = row
            wanted += chr(words[0])
        return (where, wanted) if where else None

    def _price(self, words: Forms) -> int:
        """Return about how much must be looked at to find every place of `words`."""
        return len(words) * len(self.spans) + sum(map(len, map(self._listed.__getitem__, words)))

    def _scanned(self, forms: Sequence[Forms]) -> list[int]:
        """Return where words stand in turn, by a look at every document that has all of them."""
        documents = -1
        for words in forms:
            documents &= self.having(words)
        self._look(documents.bit_count())
        places = chain.from_iterable(range(*self.spans[document]) for document in sets.members(documents))
        return self._where_all(places, forms)

    def _look(self, documents: int) -> None:
        """Count what is looked at: a table of pairs is worth its price if phrases are asked for often."""
        self._looks += documents
        if self._looks > PATIENCE * len(self.spans) and self._table is None:
            self._table = self._new_table()

    def search(self, forms: Sequence[Forms], gaps: str) -> Search:
        """Return how to find where words of `forms` stand in turn in a stretch of the rows, glued as asked."""
        spelled = self._spelled(forms)
        find = partial(_found, *spelled) if spelled else partial(self._found_in_turn, forms)
        return partial(self._found_glued, gaps, find) if "-" in gaps or "=" in gaps else find

    def _found_in_turn(self, forms: Sequence[Forms], start: int, end: int) -> list[int]:
        found = sorted([at for word in forms[0] for at in self._places_of(word, start, end)])
        return self._where_all(found, forms, known=(0,)) if len(forms) > 1 else found

    def _found_glued(self, gaps: str, find: Search, start: int, end: int) -> list[int]:
        return [place for place in find(start, end) if phrases.glue_fits(gaps, self.glue, place)]

    def _places_of(self, word: int, start: int, end: int) -> list[int]:
        return _found(self.typed if word in self._folded_of else self.row, chr(word), start, end)

    def found_in(self, forms: Sequence[Forms], gaps: str) -> Iterator[int]:
        """Yield the document of every place where words of `forms` stand in turn."""
        if len(forms) > 1:
            yield from map(self._document_at.__getitem__, self._places(forms, gaps))
            return
        for document, count in self.counts(forms[0]).items():
            yield from repeat(document, count)

    def counts(self, words: Forms) -> Mapping[int, int]:
        """Return how often any of `words` stands in each document that has one."""
        return Counter(chain.from_iterable(map(self._listed.__getitem__, words)))

    def length(self, document: int) -> int:
        """Return how many words a document has."""
        start, end = self.spans.get(document, (0, 0))
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
        start, end = self.spans[document]
        return [
            sorted(at - start for word in words for at in self._places_of(word, start, end))
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


def _found(row: str, wanted: str, start: int = 0, end: int | None = None) -> list[int]:
    found: list[int] = []
    at = row.find(wanted, start, end)
    while at >= 0:
        found.append(at)
        at = row.find(wanted, at + 1, end)
    return found
