"""Find single words, pairs of neighbouring words and phrases in a batch of texts.

Each text of the batch is a numbered *document*; a set of documents is an integer with one bit per document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from digest import bitsets
from digest.topics import phrase_spellings, tokenizer, word_pairs
from digest.topics.word_pairs import WordPairs
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
#: A table of pairs is built once more documents were scanned than in this many scans of the whole batch.
SCANS_BEFORE_TABLE = 40
#: If the rarest token of a phrase matches at most this many words, each of these words is searched for.
FEW_FORMS = 4
#: Characters that represent no word. They are added at the end of each row; a negative index, which Python
#: counts from the end, therefore also finds no word.
MARGIN = chr(0) * word_pairs.MARGIN


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
        self._pair_table: WordPairs | None = None
        self.documents_scanned = 0

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
    def _spellings(self) -> list[str]:
        return list(self.words)

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

    def prepare(self) -> None:
        """Build the tables that are otherwise built on demand; call this before many lookups."""
        for word in range(len(self.words)):
            self.documents_of_word[word]
        self.list_pairs().list_documents()

    def list_pairs(self) -> WordPairs:
        """Return the table of pairs of neighbouring words; build it first if it is missing."""
        if self._pair_table is None:
            self._pair_table = WordPairs(self.row, self.typed, self.glue, self._document_at)
        return self._pair_table

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

    @cached_property
    def single_word(self) -> Mapping[str, int]:
        """Return {token: the only word that matches the token exactly}.

        The value is 0 if several words match or the token has a spelling in two parts.
        """
        return LazyDict(self._alone)

    def _alone(self, token: str) -> int:
        forms, halves = self.known[True][token]
        return forms[0] if len(forms) == 1 and not halves else 0

    def phrase(self, words: Sequence[int]) -> int | None:
        """Return the documents that contain the words as a phrase, or None if there is no table of pairs."""
        return self._pair_table.documents_in_a_row(words) if self._pair_table is not None else None

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
        table = self._pair_table
        if table is not None and not gaps.strip():
            if len(forms) == 2:
                return self._beside(forms[0], forms[1], table)
            single = [words[0] for words in forms if len(words) == 1]
            if len(single) == len(forms):
                return table.documents_in_a_row(single)
        return bitsets.bitset_of([*map(self._document_at.__getitem__, self._places(forms, gaps))])

    def _beside(self, lefts: Forms, rights: Forms, table: WordPairs) -> int:
        if len(lefts) == len(rights) == 1:
            return table.documents(lefts[0], rights[0])
        bits = 0
        for left in lefts:
            for right in rights:
                bits |= table.documents(left, right)
        return bits

    def _places(self, forms: Sequence[Forms], gaps: str) -> Iterable[int]:
        """Return the positions of consecutive words that match `forms` and are separated as in `gaps`."""
        if not all(forms):
            return ()
        single = max(map(len, forms)) == 1
        places: Iterable[int]
        if self._pair_table is None:
            places = self._searched(forms)
        elif single:
            places = self._looked_up([form[0] for form in forms], self._pair_table)
        else:
            places = self._paired(forms, self._pair_table)
        if "-" not in gaps and "=" not in gaps:
            return places
        return [place for place in places if phrase_spellings.glue_fits(gaps, self.glue, place)]

    def _looked_up(self, words: Sequence[int], table: WordPairs) -> Iterable[int]:
        """Return the positions of a phrase in which each token matches a single word."""
        which, places = table.in_a_row(words)
        return [at - which for at in places] if which else places

    def _paired(self, forms: Sequence[Forms], table: WordPairs) -> Iterable[int]:
        places = chain.from_iterable(table.places(left, right) for left in forms[0] for right in forms[1])
        return self._where_all(places, forms, known=(0, 1)) if len(forms) > 2 else places

    def _where_all(
        self, places: Iterable[int], forms: Sequence[Forms], known: Sequence[int] = ()
    ) -> list[int]:
        """Return the positions in `places` at which consecutive words match `forms`.

        Forms with an index in `known` are not checked.
        """
        row, typed = self.row, self.typed
        for k, words in enumerate(signs(forms)):
            if k not in known:
                places = [at for at in places if row[at + k] in words or typed[at + k] in words]
        return list(places)

    def _searched(self, forms: Sequence[Forms]) -> list[int]:
        """Return the positions of consecutive words by searching for all words or for the rarest of them."""
        self._count_scan(len(self.spans) // 4)
        spelled = self._spelled(forms)
        if spelled:
            return _found(*spelled)
        rarest = min(range(len(forms)), key=lambda k: self._scan_cost(forms[k]))
        if len(forms[rarest]) > FEW_FORMS:
            return self._scanned(forms)
        starts = {at - rarest for word in forms[rarest] for at in self._places_of(word, 0, len(self.row))}
        return sorted(self._where_all(starts, forms, known=(rarest,)))

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

    def _scan_cost(self, words: Forms) -> int:
        """Estimate the cost of finding every position of `words`."""
        return len(words) * len(self.spans) + sum(map(len, map(self._listed.__getitem__, words)))

    def _scanned(self, forms: Sequence[Forms]) -> list[int]:
        """Return the positions of consecutive words by scanning documents that contain all of the words."""
        documents = -1
        for words in forms:
            documents &= self.documents_having(words)
        self._count_scan(documents.bit_count())
        places = chain.from_iterable(range(*self.spans[document]) for document in bitsets.members(documents))
        return self._where_all(places, forms)

    def _count_scan(self, documents: int) -> None:
        """Add to the number of scanned documents; build a table of pairs once the number is high enough."""
        self.documents_scanned += documents
        if self.documents_scanned > SCANS_BEFORE_TABLE * len(self.spans):
            self.list_pairs()

    def search(self, forms: Sequence[Forms], gaps: str) -> PlaceSearch:
        """Return a function that searches part of the rows for consecutive words of `forms`."""
        spelled = self._spelled(forms)
        find = partial(_found, *spelled) if spelled else partial(self._found_in_turn, forms)
        return partial(self._found_glued, gaps, find) if "-" in gaps or "=" in gaps else find

    def _found_in_turn(self, forms: Sequence[Forms], start: int, end: int) -> list[int]:
        found = sorted([at for word in forms[0] for at in self._places_of(word, start, end)])
        return self._where_all(found, forms, known=(0,)) if len(forms) > 1 else found

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
            forms = self._beginning(right) if loose else self._touching(first, right)
            if forms and self._is_beside(first, forms, "-" if loose else "="):
                found.append(("-" if loose else "=", ((first,), forms)))
        return found

    def _is_beside(self, left: int, rights: Forms, gap: str) -> bool:
        return any(True for _ in self._places(((left,), rights), gap))

    def _touching(self, first: int, prefix: str) -> Forms:
        """Return the words that begin with `prefix` and may follow the word `first` after a hyphen."""
        if self._pair_table is None:
            return self._beginning(prefix)
        spelled = self._spellings
        return tuple([word for word in self._pair_table.followers(first) if spelled[word].startswith(prefix)])


def signs(forms: Sequence[Forms]) -> list[frozenset[str]]:
    """Return the characters that represent each form's words in the rows."""
    return [frozenset(map(chr, words)) for words in forms]


def _found(row: str, pattern: str, start: int = 0, end: int | None = None) -> list[int]:
    found: list[int] = []
    at = row.find(pattern, start, end)
    while at >= 0:
        found.append(at)
        at = row.find(pattern, at + 1, end)
    return found
