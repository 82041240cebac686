"""Split an inlined page into pieces, so that letters are made by joining strings.

A template is rendered with markers instead of values, inlined by premailer, and split at the markers. Filling
the pieces with escaped values gives the same bytes as rendering the page with these values and then inlining
the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from digest.letters.templates import CLOSE_MARK, MARK_END, OPEN_MARK, SLOT_MARK

MARK_PATTERN = re.compile(
    f"({re.escape(SLOT_MARK)}|{re.escape(OPEN_MARK)}|{re.escape(CLOSE_MARK)})([a-z_0-9]+){re.escape(MARK_END)}"
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place in a page where a value is inserted; `name` is the name of the value."""

    name: str


@dataclass(frozen=True, slots=True)
class PieceTemplate:
    """The pieces of one part of a page, in order."""

    name: str
    pieces: tuple[str | Placeholder | PieceTemplate, ...] = field(default=())

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the part with every placeholder filled; nested parts not in `values` are left empty."""
        return "".join(
            [
                piece
                if isinstance(piece, str)
                else values[piece.name]
                if isinstance(piece, Placeholder)
                else values.get(piece.name, "")
                for piece in self.pieces
            ]
        )

    def parts(self) -> dict[str, PieceTemplate]:
        """Return this part and all nested parts, keyed by name; of parts with the same name, the first."""
        found = {self.name: self}
        for piece in self.pieces:
            if isinstance(piece, PieceTemplate):
                found = {**piece.parts(), **found}
        return found

    def to_json(self) -> list[Any]:
        """Return the part as the JSON array [name, pieces]; `piece_to_json` describes each piece."""
        return [self.name, [piece_to_json(piece) for piece in self.pieces]]

    @classmethod
    def from_json(cls, stored: Any) -> PieceTemplate:
        """Return the part from the JSON array that `to_json` returned."""
        name, pieces = stored
        return cls(name, tuple(piece_from_json(piece) for piece in pieces))


def piece_to_json(piece: str | Placeholder | PieceTemplate) -> Any:
    """Return one piece as a JSON value: a string, [name of the placeholder], or [name of the part, pieces]."""
    if isinstance(piece, str):
        return piece
    return [piece.name] if isinstance(piece, Placeholder) else piece.to_json()


def piece_from_json(stored: Any) -> str | Placeholder | PieceTemplate:
    """Return the piece from the JSON value that `piece_to_json` returned."""
    if isinstance(stored, str):
        return stored
    return Placeholder(stored[0]) if len(stored) == 1 else PieceTemplate.from_json(stored)


def escape_html(text: str) -> str:
    """Escape `text` as lxml does, without escaping quotes; links contain no quotes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def placeholder_mark(name: str) -> str:
    """Return the marker that replaces a value on a page that will be split."""
    return f"{SLOT_MARK}{name}{MARK_END}"


def cut_at_marks(page: str, name: str = "page") -> PieceTemplate:
    """Split a page at its markers into placeholders and parts.

    Of parts with the same name and parent, only the first is used. The others are on the page so that the
    template also renders the separators between them.
    """
    before, *marks = MARK_PATTERN.split(page)
    open_parts: list[tuple[str, list[str | Placeholder | PieceTemplate]]] = [(name, [before])]
    for mark, named, after in zip(marks[0::3], marks[1::3], marks[2::3], strict=True):
        if mark == OPEN_MARK:
            open_parts.append((named, []))
        elif mark == SLOT_MARK:
            open_parts[-1][1].append(Placeholder(named))
        else:
            part = close_part(*open_parts.pop())
            siblings = open_parts[-1][1]
            if not any(isinstance(other, PieceTemplate) and other.name == named for other in siblings):
                siblings.append(part)
        open_parts[-1][1].append(after)
    return close_part(*open_parts.pop())


def close_part(name: str, pieces: list[str | Placeholder | PieceTemplate]) -> PieceTemplate:
    """Return a part of these pieces, with adjacent strings joined and empty strings removed."""
    joined: list[str | Placeholder | PieceTemplate] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return PieceTemplate(name, tuple(joined))
