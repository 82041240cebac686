"""Store a batch of texts as a string in which each character represents one word.

Searches for neighbouring words can therefore use `str.find`. The character 0 is not a word, but separates
documents. A batch of many texts is split at spaces into pieces ("(pre-trained", "models,"), and each distinct
piece is tokenized once. A single text is tokenized as a whole.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from digest.topics import tokenizer
from digest.topics.tokenizer import WordParts

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

NO_WORD = "\0"
#: Marks a piece that begins with a separator character; a space before such a piece is ignored.
_ROUGH = "\0"


class LazyDict(dict[_Key, _Value]):
    """A dict that computes missing values on access."""

    def __init__(self, look_up: Callable[[_Key], _Value]):
        super().__init__()
        self._look_up = look_up

    def __missing__(self, key: _Key) -> _Value:
        found = self[key] = self._look_up(key)
        return found


class WordRows(NamedTuple):
    """The words of a batch as rows that concatenate all documents.

    A *word* is a folded part ("model") or, in a separate row, a part as typed if it begins with two capitals
    ("SAM"). `glue[i]` is the separator between position i and the next.
    """

    words: dict[str, int]  #: {word: its number}
    folded_of: Mapping[int, int]  #: {number of a word as typed: number of its folded form}
    folded: str
    typed: str  #: like `folded`, but words that are indexed as typed replace their folded forms
    glue: str
    spans: dict[int, tuple[int, int]]  #: {document number: (start, end)}
    document_at: array[int]


def rows_of_texts(documents: Iterable[tuple[int, str]]) -> WordRows:
    """Return the rows of many texts, each given with its document number."""
    pieces = _Pieces()
    read = pieces.read.__getitem__
    typed, folded, glue = [NO_WORD], [NO_WORD], [","]
    spans: dict[int, tuple[int, int]] = {}
    document_at = array("I", [0])
    end = 1
    for document, written in documents:
        as_typed, as_folded, between = zip(*map(read, written.split(" ")), strict=True)
        words = "".join(as_typed)
        typed += words, NO_WORD
        folded += "".join(as_folded), NO_WORD
        glue += "".join(between), f"{_ROUGH},"
        spans[document] = end, end + len(words)
        document_at += array("I", [document]) * (len(words) + 1)
        end += len(words) + 1
    return WordRows(
        words=pieces.words,
        folded_of=pieces.as_typed,
        folded="".join(folded),
        typed="".join(typed),
        glue=_smooth("".join(glue)),
        spans=spans,
        document_at=document_at,
    )


class _Pieces:
    """A cache of pieces of text without spaces, with the words (typed and folded) and separators of each."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {"": 0}
        self.as_typed: dict[int, int] = {}
        self.read: LazyDict[str, tuple[str, str, str]] = LazyDict(self._read)

    def _read(self, piece: str) -> tuple[str, str, str]:
        before, *rest = tokenizer.split(piece)
        behind = rest[-1] if rest else ""
        lead = "" if not before or before.isspace() else _ROUGH
        trail = " " if not behind or behind.isspace() else ","
        glue = f"{lead}{''.join(map(tokenizer.glue_of, rest[1:-1:2]))}{trail if rest else ''}"
        numbers = [self._number(surface) for surface in rest[::2]]
        typed = "".join(map(chr, numbers))
        as_typed = self.as_typed
        if as_typed.keys().isdisjoint(numbers):
            return typed, typed, glue
        return typed, "".join([chr(as_typed.get(number, number)) for number in numbers]), glue

    def _number(self, surface: str) -> int:
        folded = self.words.setdefault(tokenizer.fold(surface), len(self.words))
        if not tokenizer.is_as_typed(surface):
            return folded
        typed = self.words.setdefault(surface, len(self.words))
        if typed != folded:
            self.as_typed[typed] = folded
        return typed


def _smooth(glue: str) -> str:
    """Return `glue` with the marks of pieces, and a space or comma beside them, replaced by one comma."""
    while _ROUGH * 2 in glue:
        glue = glue.replace(_ROUGH * 2, _ROUGH)
    return glue.replace(f" {_ROUGH}", ",").replace(f",{_ROUGH}", ",")


def rows_of_words(documents: Iterable[tuple[int, WordParts]]) -> WordRows:
    """Return the rows of a few texts that are already split into parts."""
    words: defaultdict[str, int] = defaultdict()
    words.default_factory = words.__len__
    number = words.__getitem__
    row, as_typed, glue = [number("")], {}, [","]
    spans: dict[int, tuple[int, int]] = {}
    document_at = array("I", [0])
    for document, read in documents:
        start = len(row)
        spans[document] = start, start + len(read.folded)
        row += map(number, read.folded)
        for at, (surface, folded) in enumerate(zip(read.surfaces, read.folded, strict=True), start):
            if surface != folded and tokenizer.is_as_typed(surface):
                as_typed[at] = number(surface)
        row.append(0)
        glue += read.glue, ",," if read.folded else ","
        document_at += array("I", [document]) * (len(row) - start)
    typed = row.copy()
    for at, word in as_typed.items():
        typed[at] = word
    return WordRows(
        words=dict(words),
        folded_of={word: row[at] for at, word in as_typed.items() if word != row[at]},
        folded="".join(map(chr, row)),
        typed="".join(map(chr, typed)),
        glue="".join(glue),
        spans=spans,
        document_at=document_at,
    )
