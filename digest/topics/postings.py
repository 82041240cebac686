"""Find single words, pairs of neighbouring words and phrases in a batch of texts.

Each text of the batch is a numbered *document*; a set of documents is an integer with one bit per document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from itertools import chain
from operator import and_
from typing import NamedTuple, TypeAlias

from digest.papers import bitsets
from digest.topics import phrase_spellings, tokenizer
from digest.topics.word_rows import LazyDict, WordRows

#: The numbers of the words in a batch that match one token.
Forms: TypeAlias = tuple[int, ...]
#: A token split into two parts: the gap between the parts, and the words that match each part.
Halves: TypeAlias = tuple[str, tuple[Forms, Forms]]
#: A function that returns the matching positions between two positions (start, end) in the rows.
PlaceSearch: TypeAlias = Callable[[int, int], list[int]]

_LAST = "\U0010ffff"
#: Minimum number of letters before a * if only a space separates the word from the word before it.
SHORTEST_LOOSE = 3
#: Characters that represent no word. They are added at the end of each row; a negative index, which Python
#: counts from the end, therefore also finds no word.
MARGIN = chr(0) * 100
#: If more words than this match the rarest token of a phrase, every position is checked.
FEW_FORMS = 8
#: If more than this share of the documents contain all words of a phrase, the whole batch is searched.
MANY_DOCUMENTS = 0.25


class TokenForms(NamedTuple):
    """The words of a batch that match a token, and the ways to split it into two words of the batch."""

    forms: Forms
    halves: list[Halves]


class Postings:
    """An index of the positions of words in the rows of a batch."""

    def __init__(self, rows: WordRows):
        self.words = rows.words
        self.glue = rows.glue
        self.row, self.typed = rows.folded + MARGIN, rows.typed + MARGIN
        self.spans = rows.spans
        self._size = max(rows.spans, default=0) + 1
        self._document_at = rows.document_at
        self._folded_of = rows.folded_of

    # ── built on demand ───────────────────────────────────────────────────────────────────────

    @cached_property
    def stems(self) -> Mapping[str, Forms]:
        """Return {stem: numbers of the words with this stem}."""
        every = [*zip(map(tokenizer.stem, self.words), self.words.values(), strict=True)]
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
    def _listed(self) -> Sequence[Sequence[int]]:
        """Return the documents of each word, one entry per occurrence; folded words include typed forms."""
        listed: list[list[int]] = [[] for _ in self.words]
        for document, (start, end) in self.spans.items():
            for word in map(ord, self.typed[start:end]):
                listed[word].append(document)
        for word, folded in self._folded_of.items():
            listed[folded] += listed[word]
        return listed

    @cached_property
    def documents_of_word(self) -> Mapping[int, int]:
        """Return {word: set of documents that contain the word}."""
        return LazyDict(lambda word: bitsets.bitset_of_many(self._listed[word], self._size))

    def list_words(self) -> None:
        """Build the tables that most lookups need, so that the first lookup does not have to build them."""
        self._sorted, self.stems, self._listed  # noqa: B018 - access builds each

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def known(self) -> Mapping[bool, Mapping[str, TokenForms]]:
        """Return {True: words by token, matched exactly; False: words by token, in singular or plural}."""
        return {True: LazyDict(self._known_as_it_is), False: LazyDict(self._known_in_number)}

    def _known_as_it_is(self, token: str) -> TokenForms:
        return TokenForms(self.exact_forms(token), self._in_two(token, self.exact_forms))

    def _known_in_number(self, token: str) -> TokenForms:
        return TokenForms(self.all_forms(token), self._in_two(token, self.all_forms))

    def exact_forms(self, token: str) -> Forms:
        """Return the words of this batch that match a token exactly."""
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return (self.words[token],) if token in self.words else ()

    def all_forms(self, token: str) -> Forms:
        """Return the words that match a token in singular or plural."""
        if token[-1] == "*":
            return self._beginning(token[:-1])
        return self.stems.get(tokenizer.stem(token), ())

    def _beginning(self, prefix: str) -> Forms:
        """Return the words that begin with `prefix`."""
        start = bisect_left(self._sorted, prefix)
        end = bisect_left(self._sorted, prefix + _LAST, start)
        return tuple([self.words[word] for word in self._sorted[start:end]])

    def documents_having(self, words: Forms) -> int:
        """Return the documents that contain any of `words`."""
        if len(words) == 1:
            return self.documents_of_word[words[0]]
        bits = 0
        for word in words:
            bits |= self.documents_of_word[word]
        return bits

    # ── neighbours ──────────────────────────────────────────────────────────────────────────────

    def documents_in_a_row(self, forms: Sequence[Forms], gaps: str) -> int:
        """Return the documents with consecutive words that match `forms` and are separated as in `gaps`."""
        if len(forms) == 1:
            return self.documents_having(forms[0])
        return bitsets.bitset_of([*map(self._document_at.__getitem__, self._places(forms, gaps))])

    def _places(self, forms: Sequence[Forms], gaps: str) -> Iterable[int]:
        """Return the positions of consecutive words that match `forms` and are separated as in `gaps`.

        Only the documents that contain all of the words are searched, unless these are many.
        """
        documents = reduce(and_, map(self.documents_having, forms))
        if not documents:
            return ()
        find = self.search(forms, gaps)
        if documents.bit_count() > len(self.spans) * MANY_DOCUMENTS:
            return find(0, len(self.row))
        return chain.from_iterable([find(*self.spans[document]) for document in bitsets.members(documents)])

    def _spelled(self, forms: Sequence[Forms]) -> tuple[str, str] | None:
        """Return (row, characters to find) if each of `forms` is one word and all are in one row, else None.

        The result is also None for "SAM model", because SAM and model are in different rows.
        """
        where, pattern = None, ""
        for words in forms:
            row = self.typed if words[0] in self._folded_of else self.row
            if len(words) > 1 or (where is not None and where is not row):
                return None
            where = row
            pattern += chr(words[0])
        return (where, pattern) if where else None

    def search(self, forms: Sequence[Forms], gaps: str) -> PlaceSearch:
        """Return a function that searches part of the rows for consecutive words of `forms`."""
        spelled = self._spelled(forms)
        if spelled:
            find = partial(_found, *spelled)
        else:
            rarest = min(range(len(forms)), key=lambda k: len(forms[k]))
            signs = [frozenset(map(chr, words)) for words in forms]
            find = partial(self._found_in_turn, signs, rarest, forms[rarest])
        return partial(self._found_glued, gaps, find) if "-" in gaps or "=" in gaps else find

    def _found_in_turn(
        self, signs: Sequence[frozenset[str]], rarest: int, words: Forms, start: int, end: int
    ) -> list[int]:
        """Return the positions of consecutive characters of `signs`; `words` are those at index `rarest`."""
        places: Iterable[int] = range(start, end)
        if len(words) <= FEW_FORMS:
            places = sorted([at - rarest for word in words for at in self._places_of(word, start, end)])
        row, typed = self.row, self.typed
        for k, characters in enumerate(signs):
            places = [at for at in places if row[at + k] in characters or typed[at + k] in characters]
        return [*places]

    def _found_glued(self, gaps: str, find: PlaceSearch, start: int, end: int) -> list[int]:
        return [place for place in find(start, end) if phrase_spellings.glue_fits(gaps, self.glue, place)]

    def _places_of(self, word: int, start: int, end: int) -> list[int]:
        return _found(self.typed if word in self._folded_of else self.row, chr(word), start, end)

    def found_in(self, forms: Sequence[Forms], gaps: str) -> Iterator[int]:
        """Return the document of each occurrence of consecutive words of `forms`."""
        if len(forms) > 1:
            return map(self._document_at.__getitem__, self._places(forms, gaps))
        return self.counts(forms[0]).elements()

    def counts(self, words: Forms) -> Counter[int]:
        """Return {document: number of occurrences of any of `words`}."""
        return Counter(chain.from_iterable(map(self._listed.__getitem__, words)))

    def length(self, document: int) -> int:
        """Return the number of words in a document."""
        start, end = self.spans.get(document, (0, 0))
        return end - start

    def documents_near(self, forms: Sequence[Forms], between: int) -> int:
        """Return the documents with a word from each of `forms` and at most `between` words between them."""
        bits = -1
        for words in forms:
            bits &= self.documents_having(words)
        reach = len(forms) + between
        return bitsets.bitset_of(
            [
                document
                for document in bitsets.members(bits)
                if phrase_spellings.near_window(self.all_places(document, forms), reach)
            ]
        )

    def all_places(self, document: int, forms: Sequence[Forms]) -> list[list[int]]:
        """Return the sorted positions in a document of the words in each of `forms`."""
        start, end = self.spans[document]
        return [
            sorted(at - start for word in words for at in self._places_of(word, start, end))
            for words in forms
        ]

    # ── words split in two ──────────────────────────────────────────────────────────────────────

    def _in_two(self, token: str, forms: Callable[[str], Forms]) -> list[Halves]:
        """Return the ways to spell a token as two words that occur next to each other in this batch."""
        if token[-1] == "*":
            return self._begun_in_two(token[:-1])
        found: list[Halves] = []
        for left, right, gap in phrase_spellings.split_spellings(token, self.words):
            two = (self.words[left],), forms(right)
            if two[1] and self._is_beside(self.words[left], two[1], gap):
                found.append((gap, two))
        return found

    def _begun_in_two(self, prefix: str) -> list[Halves]:
        found: list[Halves] = []
        for left, right, gap in phrase_spellings.split_spellings(prefix, self.words):
            first = self.words[left]
            loose = gap == "-" and len(right) >= SHORTEST_LOOSE
            forms = self._beginning(right)
            if forms and self._is_beside(first, forms, "-" if loose else "="):
                found.append(("-" if loose else "=", ((first,), forms)))
        return found

    def _is_beside(self, left: int, rights: Forms, gap: str) -> bool:
        return any(True for _ in self._places(((left,), rights), gap))


def _found(row: str, pattern: str, start: int = 0, end: int | None = None) -> list[int]:
    found: list[int] = []
    at = row.find(pattern, start, end)
    while at >= 0:
        found.append(at)
        at = row.find(pattern, at + 1, end)
    return found
