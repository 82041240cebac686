"""Stencils: a page inlined once and cut into parts, so that a letter is made by joining.

A template is rendered with marks instead of values, handed to premailer, and cut at the marks.
Filling the parts with escaped values gives, byte for byte, what premailer would have made of the
page rendered with those values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from digest.rendering.templates import CLOSES, END, OPENS, SLOT

MARK = re.compile(f"({re.escape(SLOT)}|{re.escape(OPENS)}|{re.escape(CLOSES)})([a-z_0-9]+){re.escape(END)}")


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Stencil:
    """A part of a page: what stands in it, in order. A name that comes twice counts once."""

    name: str
    pieces: tuple[str | Slot | Stencil, ...] = field(default=())

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the part with every slot filled; a part within it is empty unless named in `values`."""
        return "".join(self.filled(values))

    def filled(self, values: Mapping[str, str]) -> Iterator[str]:
        """Yield the pieces of the filled part."""
        for piece in self.pieces:
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, Slot):
                yield values[piece.name]
            else:
                yield values.get(piece.name, "")

    def parts(self) -> dict[str, Stencil]:
        """Return this part and all within it, by name; of two with one name, the first."""
        found = {self.name: self}
        for piece in self.pieces:
            if isinstance(piece, Stencil):
                found = {**piece.parts(), **found}
        return found

    def to_json(self) -> list[Any]:
        """Return a form that JSON can hold: literals, [slot], [name, [pieces]]."""
        return [self.name, [piece_to_json(piece) for piece in self.pieces]]

    @classmethod
    def from_json(cls, stored: Any) -> Stencil:
        """Return the stencil that `to_json` wrote."""
        name, pieces = stored
        return cls(name, tuple(piece_from_json(piece) for piece in pieces))


def piece_to_json(piece: str | Slot | Stencil) -> Any:
    """Return one piece as JSON can hold it."""
    if isinstance(piece, str):
        return piece
    return [piece.name] if isinstance(piece, Slot) else piece.to_json()


def piece_from_json(stored: Any) -> str | Slot | Stencil:
    """Return the piece that `piece_to_json` wrote."""
    if isinstance(stored, str):
        return stored
    return Slot(stored[0]) if len(stored) == 1 else Stencil.from_json(stored)


def escaped(text: str) -> str:
    """Return `text` as lxml writes it: quotes stay as they are (in links there are none)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def slot(name: str) -> str:
    """Return what stands for a value on a page that is to be cut."""
    return f"{SLOT}{name}{END}"


def cut(page: str, name: str = "page") -> Stencil:
    """Return the page as a stencil: its marks become slots and parts.

    Of parts with one name inside the same parent the first is kept: the others showed the template
    how two stand beside each other.
    """
    before, *marks = MARK.split(page)
    open_parts: list[tuple[str, list[str | Slot | Stencil]]] = [(name, [before])]
    for sign, named, after in zip(marks[0::3], marks[1::3], marks[2::3], strict=True):
        if sign == OPENS:
            open_parts.append((named, []))
        elif sign == SLOT:
            open_parts[-1][1].append(Slot(named))
        else:
            part = closed(*open_parts.pop())
            siblings = open_parts[-1][1]
            if not any(isinstance(other, Stencil) and other.name == named for other in siblings):
                siblings.append(part)
        open_parts[-1][1].append(after)
    return closed(*open_parts.pop())


def closed(name: str, pieces: list[str | Slot | Stencil]) -> Stencil:
    """Return a part with its neighbouring literals joined and the empty ones left out."""
    joined: list[str | Slot | Stencil] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return Stencil(name, tuple(joined))
