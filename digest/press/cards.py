"""Cards as pieces: what no filter changes is set once per paper, what it marks once per paper and filter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from digest.links import Site, paper_url
from digest.press import pages
from digest.press.pages import Found
from digest.press.presses import Press
from digest.rendering.cards import Card, Form, bare, because, marked
from digest.rendering.mime import wire
from digest.rendering.runs import Run, plain
from digest.rendering.stencils import Stencil, escaped
from digest.rendering.words import barred, wrapped

Parts = Mapping[str, Stencil]

CARDS_KEPT = 32768  #: few are cards of their own
SET_KEPT = 16384  #: a good kilobyte each: what they have of their paper is kept once for all
FOUND_KEPT = 1024  #: for a card that is soon wanted in another length
FRAMES_KEPT = 4096
PLAIN_KEPT = 8192

#: Where a card is parted again after filling; no text from outside has a NUL.
NUMBER, TITLE, ABSTRACT, WHY = "\0n", "\0t", "\0a", "\0w"
GAP = re.compile("(\0.)")
BLANK = Card(meta="", href="", title=(), byline="", abstract=(), why="", links=())


class SetText(NamedTuple):
    """A stretch of a card, encoded for both bodies."""

    html: bytes
    text: bytes
    size: int  #: bytes of HTML, decoded
    words: int  #: to read


class SetCard(NamedTuple):
    """A card from behind its number, in pieces: cards of one paper have most of them in common."""

    html: tuple[bytes, ...]
    text: tuple[bytes, ...]
    octets: int  #: of HTML, encoded
    size: int
    words: int


class Frame(NamedTuple):
    """A card without what a filter has to say: literals and the names of gaps, in order."""

    card: Card
    title: SetText  #: with nothing marked
    abstract: SetText
    html: tuple[bytes | str, ...]
    text: tuple[bytes | str, ...]
    size: int


class Cards:
    """Sets the cards of one press, and keeps what it has set."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.mark = tuple(self.html_parts["mark"].fill({"marked": TITLE}).split(TITLE))
        self.card = lru_cache(CARDS_KEPT)(self.choose_card)
        self.card_of = lru_cache(SET_KEPT)(self.set_card)
        self.found = lru_cache(FOUND_KEPT)(self.find)
        self.frame = lru_cache(FRAMES_KEPT)(self.set_frame)
        self.plain = lru_cache(PLAIN_KEPT)(set_plain)

    def start(self) -> tuple[str, str]:
        """Return what stands before the number of any card, in HTML and text."""
        return (
            filled(self.html_parts, html_values(self.html_parts, BLANK, number=NUMBER)).partition(NUMBER)[0],
            filled(self.text_parts, text_values(self.text_parts, BLANK, number=NUMBER)).partition(NUMBER)[0],
        )

    def choose_card(self, paper_id: int, canonical: str | None, form: Form) -> SetCard:
        """Return a card from behind its number: often one that another filter has found the same for."""
        return self.card_of(paper_id, self.found(self.press.number[paper_id], canonical), form)

    def set_card(self, paper_id: int, found: Found, form: Form) -> SetCard:
        """Return the card of a paper and what was found in it, from behind its number."""
        frame = self.frame(paper_id, form)
        plain, reason = frame.card, set_why(because(found.why))
        paper = self.press.papers[self.press.number[paper_id]]
        in_title, in_abstract = marked(plain, paper, words=found.words, form=form)
        title = frame.title if in_title is plain.title else self.set_runs(in_title)
        abstract = frame.abstract if in_abstract is plain.abstract else self.set_runs(in_abstract)
        given = {TITLE: title, ABSTRACT: abstract, WHY: reason}
        html = tuple([piece if isinstance(piece, bytes) else given[piece].html for piece in frame.html])
        return SetCard(
            html,
            tuple([piece if isinstance(piece, bytes) else given[piece].text for piece in frame.text]),
            sum(map(len, html)),
            frame.size + title.size + abstract.size + reason.size,
            title.words + abstract.words,
        )

    def find(self, number: int, canonical: str | None) -> Found:
        """Return why a paper is shown, and the words to mark."""
        return pages.found(self.press, number, canonical)

    def set_frame(self, paper_id: int, form: Form) -> Frame:
        """Return what of a card no filter changes, from behind its number."""
        paper = self.press.papers[self.press.number[paper_id]]
        card = bare(paper, page=paper_url(self.site, paper_id), form=form)
        gaps = {"number": NUMBER, "title": TITLE, "abstract": ABSTRACT if card.abstract else "", "why": WHY}
        html = filled(self.html_parts, html_values(self.html_parts, card, **gaps)).partition(NUMBER)[2]
        text = filled(self.text_parts, text_values(self.text_parts, card, **gaps)).partition(NUMBER)[2]
        size = len(GAP.sub("", html).encode())
        title, abstract = self.set_runs(card.title), self.set_runs(card.abstract)
        return Frame(card, title, abstract, parted(html), parted(text), size)

    def set_runs(self, runs: tuple[Run, ...]) -> SetText:
        """Return text with what is marked marked: in HTML; plain text has no marks, and is the same for all."""
        opens, closes = self.mark
        html = "".join(
            [f"{opens}{escaped(run.text)}{closes}" if run.is_marked else escaped(run.text) for run in runs]
        )
        text, words = self.plain(plain(runs))
        return SetText(wire(html), text, len(html.encode()), words)


def set_why(why: str) -> SetText:
    """Return the why line."""
    html = escaped(why)
    return SetText(wire(html), wire(barred(why)), len(html.encode()), 0)


def set_plain(text: str) -> tuple[bytes, int]:
    """Return the lines of a text as they are mailed, and how many words there are to read."""
    return wire(wrapped(text)), len(text.split())


def parted(card: str) -> tuple[bytes | str, ...]:
    """Return a filled card as encoded literals and the names of its gaps."""
    return tuple(piece if GAP.match(piece) else wire(piece) for piece in GAP.split(card))


def html_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return what stands in a card's slots in HTML; the gaps stay open."""
    ways = [
        parts["link"].fill({"label": escaped(link.label), "href": escaped(link.href), "about": link.about})
        for link in card.links
    ]
    return {
        "meta": escaped(card.meta),
        "href": escaped(card.href),
        "byline": escaped(card.byline),
        "link": between(parts, "dot").join(ways),
        "title": "",
        "abstract": "",
        "why": "",
        **gaps,
    }


def text_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return what stands in a card's slots in the text part; the gaps stay open."""
    ways = [parts["link"].fill({"label": link.label, "href": link.href}) for link in card.ways]
    return {
        "meta": card.meta,
        "byline": wrapped(card.byline),
        "link": between(parts, "dot").join(ways),
        "marked": "",
        "title": "",
        "abstract": "",
        "why": "",
        **gaps,
    }


#: The parts of a card, and the value without which each leaves no trace.
NEEDS = {
    "said": "meta",
    "meta": "number",
    "byline": "byline",
    "abstract": "abstract",
    "why": "why",
    "links": "link",
}


def filled(parts: Parts, values: Mapping[str, str]) -> str:
    """Return a card; what the paper lacks leaves no trace."""
    said = {**values, "said": parts["said"].fill(values) if values["meta"] else ""}
    shown = {part: parts[part].fill(said) if values[needed] else "" for part, needed in NEEDS.items()}
    return parts["card"].fill({**said, **shown})


def between(parts: Parts, name: str) -> str:
    """Return the part that stands between two others, if the template has one."""
    return parts[name].fill({}) if name in parts else ""
