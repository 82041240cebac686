"""Index the positions of words in a batch of texts, and find the words of clauses.

Each text is a numbered *document*. The words of all documents are numbered and form one row; the word 0, which no
token matches, separates documents. A word is a folded part of a text ("model"), or a part as typed if it begins
with two capitals ("SAM"). Texts are split at spaces into pieces ("(pre-trained", "models,"), and each distinct
piece is tokenized once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from itertools import chain
from operator import and_
from typing import TypeAlias

from digest.topics import phrase_spellings, tokenizer
from digest.topics.filter_tree import TextClause

#: The numbers of the words in a batch that match one token.
Forms: TypeAlias = frozenset[int]

NO_WORD = "\0"
#: Marks a piece that begins with a separator character; a space before such a piece is ignored.
_ROUGH = "\0"
#: Minimum number of letters before a * if only a space separates the word from the word before it.
SHORTEST_LOOSE = 3
#: Words added at the end of the row, so that no phrase extends beyond it. A negative index, which Python counts
#: from the end, therefore also finds no word.
MARGIN = NO_WORD * 100


class TextIndex:
    """The words of a batch of texts, each with its positions in the row."""

    def __init__(self, documents: Iterable[tuple[int, str]]):
        self.words: dict[str, int] = {"": 0}
        self.spans: dict[int, tuple[int, int]] = {}  #: {document: (start, end)}
        self.document_at = array("I", [0])
        rows, glues, end = [NO_WORD], [","], 1
        read = cache(self._read)
        for document, written in documents:
            words, glue = map("".join, zip(*map(read, written.split(" ")), strict=True))
            rows += words, NO_WORD
            glues += glue, f"{_ROUGH},"
            self.spans[document] = end, end + len(words)
            self.document_at += array("I", [document]) * (len(words) + 1)
            end += len(words) + 1
        self.row = array("I", map(ord, "".join([*rows, MARGIN])))
        self.glue = _smooth("".join(glues))  #: the separator between each position and the next
        self.positions = [array("I") for _ in self.words]
        for at, word in enumerate(self.row[: -len(MARGIN)]):
            self.positions[word].append(at)
        self.numbers = self._numbers_by_spelling()
        self._sorted = sorted(self.numbers)
        self._by_stem = united((tokenizer.stem(word), numbers) for word, numbers in self.numbers.items())
        self.forms, self._halves = cache(self._forms), cache(self._in_two)

    def _read(self, piece: str) -> tuple[str, str]:
        """Return the words and the separators of a piece of text without spaces."""
        before, *rest = tokenizer.split(piece)
        behind = rest[-1] if rest else ""
        lead = "" if not before or before.isspace() else _ROUGH
        trail = " " if not behind or behind.isspace() else ","
        glue = f"{lead}{''.join(map(tokenizer.glue_of, rest[1:-1:2]))}{trail if rest else ''}"
        words = [part if tokenizer.is_as_typed(part) else tokenizer.fold(part) for part in rest[::2]]
        return "".join([chr(self.words.setdefault(word, len(self.words))) for word in words]), glue

    def _numbers_by_spelling(self) -> dict[str, Forms]:
        """Return the numbers of each word; those of a folded word include the words that are folded to it."""
        typed = [(tokenizer.fold(word), at) for word, at in self.words.items() if tokenizer.is_as_typed(word)]
        return united((word, [at]) for word, at in chain(self.words.items(), typed))

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def _forms(self, token: str, *, exact: bool) -> Forms:
        """Return the words that match a token: exactly, in singular or plural, or beginning with a prefix."""
        if token[-1] == "*":
            start = bisect_left(self._sorted, token[:-1])
            end = bisect_left(self._sorted, token[:-1] + "\U0010ffff", start)
            return frozenset().union(*[self.numbers[word] for word in self._sorted[start:end]])
        return (
            self.numbers.get(token, frozenset())
            if exact
            else self._by_stem.get(tokenizer.stem(token), frozenset())
        )

    def _in_two(self, token: str, *, exact: bool) -> list[tuple[str, tuple[Forms, Forms]]]:
        """Return the ways to spell a token as two neighbouring words of this batch, each with its gap."""
        found: list[tuple[str, tuple[Forms, Forms]]] = []
        bare = token.removesuffix("*")
        for left, right, gap in phrase_spellings.split_spellings(bare, self.numbers):
            is_loose = bare == token or len(right) >= SHORTEST_LOOSE
            two = self.forms(left, exact=True), self.forms(right + token[len(bare) :], exact=exact)
            if two[1] and self.places(two, gap if is_loose else "="):
                found.append((gap if is_loose else "=", two))
        return found

    def spellings(self, leaf: TextClause) -> list[tuple[Sequence[Forms], str]]:
        """Return (words, gaps) for each spelling of a clause whose words all occur in this batch."""
        forms = [self.forms(token, exact=leaf.exact) for token in leaf.tokens]
        found: list[tuple[Sequence[Forms], str]] = [(forms, leaf.gaps)]
        for joined, tokens, gaps in leaf.closed:
            if self.forms(joined, exact=leaf.exact):
                found.append(([self.forms(token, exact=leaf.exact) for token in tokens], gaps))
        for k, token in enumerate(leaf.tokens):
            for gap, two in self._halves(token, exact=leaf.exact):
                found.append(([*forms[:k], *two, *forms[k + 1 :]], leaf.gaps[:k] + gap + leaf.gaps[k:]))
        return [(words, gaps) for words, gaps in found if all(words)]

    # ── positions ───────────────────────────────────────────────────────────────────────────────

    def places(self, forms: Sequence[Forms], gaps: str, span: tuple[int, int] | None = None) -> Sequence[int]:
        """Return the positions of consecutive words that match `forms` and are separated as in `gaps`.

        The whole batch is searched, or only the positions within a span.
        """
        row, positions = self.row, self.positions
        found: Sequence[int]
        if span is None:
            counts = [sum(len(positions[word]) for word in words) for words in forms]
            rarest = counts.index(min(counts))
            found = [at - rarest for word in forms[rarest] for at in positions[word]]
        else:
            rarest, found = -1, range(*span)
        for k, words in enumerate(forms):
            if k != rarest:
                found = [at for at in found if row[at + k] in words]
        if "-" in gaps or "=" in gaps:
            found = [at for at in found if phrase_spellings.glue_fits(gaps, self.glue, at)]
        return found

    def documents_of(self, forms: Sequence[Forms], gaps: str) -> list[int]:
        """Return the document of each occurrence of consecutive words of `forms`."""
        return [*map(self.document_at.__getitem__, self.places(forms, gaps))]

    def counts(self, leaf: TextClause) -> Counter[int]:
        """Return {document: number of occurrences} for the words of a clause."""
        if leaf.near is not None:
            return Counter(self._windows(leaf).keys())
        spellings = self.spellings(leaf)
        return Counter([document for found in spellings for document in self.documents_of(*found)])

    def marks(self, leaf: TextClause, document: int) -> list[tuple[int, int]]:
        """Return the occurrences of a clause's words in a document as (first word, number of words).

        Of words that are near one another, only the first occurrence is returned.
        """
        start, end = self.spans[document]
        if leaf.near is not None:
            windows = self._windows(leaf, (start, end)).values()
            return [(first - start, last - first + 1) for first, last in windows]
        return [
            (place - start, len(forms))
            for forms, gaps in self.spellings(leaf)
            for place in self.places(forms, gaps, (start, end))
        ]

    def _windows(self, leaf: TextClause, span: tuple[int, int] | None = None) -> dict[int, tuple[int, int]]:
        """Return {document: (first position, last position)} of words that are as near as a clause requires."""
        places: list[Mapping[int, list[int]]] = []
        for token in leaf.tokens:
            found: defaultdict[int, list[int]] = defaultdict(list)
            for at in sorted(self.places([self.forms(token, exact=leaf.exact)], "", span)):
                found[self.document_at[at]].append(at)
            places.append(found)
        reach = len(places) + (leaf.near or 0)
        documents = reduce(and_, [found.keys() for found in places])
        windows = {
            document: phrase_spellings.near_window([found[document] for found in places], reach)
            for document in documents
        }
        return {document: window for document, window in windows.items() if window}

    def length(self, document: int) -> int:
        """Return the number of words in a document."""
        start, end = self.spans.get(document, (0, 0))
        return end - start


def united(numbers: Iterable[tuple[str, Iterable[int]]]) -> dict[str, Forms]:
    """Return the union of the numbers with the same key."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, some in numbers:
        found[key] += some
    return {key: frozenset(some) for key, some in found.items()}


def _smooth(glue: str) -> str:
    """Return `glue` with the marks of pieces, and a space or comma beside them, replaced by one comma."""
    while _ROUGH * 2 in glue:
        glue = glue.replace(_ROUGH * 2, _ROUGH)
    return glue.replace(f" {_ROUGH}", ",").replace(f",{_ROUGH}", ",")
