"""A batch of texts as one row of words: words are numbered, and a character is the number of a word.

So the search for neighbours runs at the speed of `str.find`. Word 0 is none and parts the documents.
A text that is one of very many is read by what stands between two blanks ("(pre-trained", "models,"),
most of which has been read before; a single text is read as it is.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from digest.topics import text
from digest.topics.text import Words

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

NOWHERE = "\0"
#: In the glue of a piece: it begins with what is no part of a word, so a blank before it is none.
_ROUGH = "\0"


class Memory(dict[_Key, _Value]):
    """What was found for a key: looked up when first asked for."""

    def __init__(self, look_up: Callable[[_Key], _Value]):
        super().__init__()
        self._look_up = look_up

    def __missing__(self, key: _Key) -> _Value:
        found = self[key] = self._look_up(key)
        return found


class Rows(NamedTuple):
    """The words of a batch, every document behind the other.

    A *word* is a folded part ("model"), or a part as typed if it begins with two capitals ("SAM"),
    which then stands in a row of its own. `glue[i]` stands between place i and the next.
    """

    words: dict[str, int]  #: every word and its number
    folded_of: Mapping[int, int]  #: the words as typed, and what each is when folded
    folded: str
    typed: str  #: the same row, with words as typed where there are such
    glue: str
    spans: dict[int, tuple[int, int]]  #: where each document begins and ends
    document_at: array[int]


def of_texts(documents: Iterable[tuple[int, str]]) -> Rows:
    """Return the rows of many texts, each under its number."""
    pieces = _Pieces()
    read = pieces.read.__getitem__
    typed, folded, glue = [NOWHERE], [NOWHERE], [","]
    spans: dict[int, tuple[int, int]] = {}
    document_at = array("I", [0])
    end = 1
    for document, written in documents:
        as_typed, as_folded, between = zip(*map(read, written.split(" ")), strict=True)
        words = "".join(as_typed)
        typed += words, NOWHERE
        folded += "".join(as_folded), NOWHERE
        glue += "".join(between), f"{_ROUGH},"
        spans[document] = end, end + len(words)
        document_at += array("I", [document]) * (len(words) + 1)
        end += len(words) + 1
    return Rows(
        words=pieces.words,
        folded_of=pieces.as_typed,
        folded="".join(folded),
        typed="".join(typed),
        glue=_smooth("".join(glue)),
        spans=spans,
        document_at=document_at,
    )


class _Pieces:
    """What stands between two blanks: its words as typed and folded, and the glue behind each of its parts."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {"": 0}
        self.as_typed: dict[int, int] = {}
        self.read: Memory[str, tuple[str, str, str]] = Memory(self._read)

    def _read(self, piece: str) -> tuple[str, str, str]:
        before, *rest = text.split(piece)
        behind = rest[-1] if rest else ""
        lead = "" if not before or before.isspace() else _ROUGH
        trail = " " if not behind or behind.isspace() else ","
        glue = f"{lead}{''.join(map(text.glue_of, rest[1:-1:2]))}{trail if rest else ''}"
        numbers = [self._number(surface) for surface in rest[::2]]
        typed = "".join(map(chr, numbers))
        as_typed = self.as_typed
        if as_typed.keys().isdisjoint(numbers):
            return typed, typed, glue
        return typed, "".join([chr(as_typed.get(number, number)) for number in numbers]), glue

    def _number(self, surface: str) -> int:
        folded = self.words.setdefault(text.fold(surface), len(self.words))
        if not text.is_as_typed(surface):
            return folded
        typed = self.words.setdefault(surface, len(self.words))
        if typed != folded:
            self.as_typed[typed] = folded
        return typed


def _smooth(glue: str) -> str:
    """Return the glue of pieces put together: beside what is no part of a word, a blank says nothing."""
    while _ROUGH * 2 in glue:
        glue = glue.replace(_ROUGH * 2, _ROUGH)
    return glue.replace(f" {_ROUGH}", ",").replace(f",{_ROUGH}", ",")


def of_read(documents: Iterable[tuple[int, Words]]) -> Rows:
    """Return the rows of a few texts that have been read already."""
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
            if surface != folded and text.is_as_typed(surface):
                as_typed[at] = number(surface)
        row.append(0)
        glue += read.glue, ",," if read.folded else ","
        document_at += array("I", [document]) * (len(row) - start)
    typed = row.copy()
    for at, word in as_typed.items():
        typed[at] = word
    return Rows(
        words=dict(words),
        folded_of={word: row[at] for at, word in as_typed.items() if word != row[at]},
        folded="".join(map(chr, row)),
        typed="".join(map(chr, typed)),
        glue="".join(glue),
        spans=spans,
        document_at=document_at,
    )
