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
from digest.rendering.cards import Card, Excerpt, Form, bare, because, clipped, excerpt, places
from digest.rendering.cards import title as full_title
from digest.rendering.mime import wire
from digest.rendering.runs import plain
from digest.rendering.stencils import Stencil, escaped
from digest.rendering.words import MEASURE, barred, wrapped

Parts = Mapping[str, Stencil]

CARDS_KEPT = 32768  #: a kilobyte each: what they have of their paper is kept once for all
SHARED_KEPT = 8192  #: for another filter that soon finds the same
FOUND_KEPT = 1024  #: for a card that is soon wanted in another length
FRAMES_KEPT = 4096
PLAIN_KEPT = 8192

#: Where a card is parted again after filling; no text from outside has a NUL.
NUMBER, TITLE, ABSTRACT, WHY, MARK = "\0n", "\0t", "\0a", "\0w", "\0m"
GAP = re.compile("\0(.)")  #: the letter is its name
TOLD = re.compile("\0([aw])(.*\0[taw])?", re.DOTALL)  #: from what is told first to what is told last
BLANK = Card(meta="", href="", title=(), byline="", abstract=(), why="", links=())


class SetText(NamedTuple):
    """A stretch of a card, encoded for both bodies."""

    html: bytes
    text: bytes
    size: int  #: bytes of HTML, decoded
    words: int = 0  #: to read


class SetCard(NamedTuple):
    """A card from behind its number, in pieces: most are kept, so each holds what is its own and little else."""

    frame: Frame
    head: bytes  #: of its HTML
    html: bytes  #: what a filter has to say
    first: bytes  #: the same in the text: mostly the abstract, which many cards have in common
    rest: bytes
    size: int  #: bytes of HTML, decoded
    words: int  #: to read


class Mould(NamedTuple):
    """A card in one of the bodies, but for what a filter has to say; its gaps are filled with `%`."""

    opening: bytes  #: with a gap for the title
    head: bytes  #: the same, around a title in which nothing is marked
    first: bytes  #: the name of what is told first
    rest: bytes  #: from there to the last gap
    tail: bytes


class Frame(NamedTuple):
    """A card but for what a filter has to say."""

    html: Mould
    text: Mould
    title: SetText  #: with nothing marked
    abstract: SetText
    size: int  #: of all else


class Cards:
    """Sets the cards of one press, and keeps what it has set."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        opens, self.closes = self.html_parts["mark"].fill({"marked": MARK}).split(MARK)
        self.mark, self.marking = wire(opens), len((opens + self.closes).encode())
        self.card = lru_cache(CARDS_KEPT)(self.choose_card)
        self.card_of = lru_cache(SHARED_KEPT)(self.set_card)
        self.found = lru_cache(FOUND_KEPT)(self.find)
        self.frame = lru_cache(FRAMES_KEPT)(self.set_frame)
        self.lead = lru_cache(FRAMES_KEPT)(set_html)
        self.plain = lru_cache(PLAIN_KEPT)(set_plain)

    def start(self) -> tuple[str, str]:
        """Return what stands before the number of any card, in HTML and text."""
        return (
            filled(self.html_parts, html_values(self.html_parts, BLANK, number=NUMBER)).partition(NUMBER)[0],
            filled(self.text_parts, text_values(self.text_parts, BLANK, number=NUMBER)).partition(NUMBER)[0],
        )

    def choose_card(self, paper_id: int, canonical: str | None, form: Form) -> SetCard:
        """Return the card of a paper from behind its number: often one that another filter has found the same for."""
        number = self.press.number[paper_id]
        return self.card_of(number, self.found(number, canonical), form)

    def set_card(self, number: int, found: Found, form: Form) -> SetCard:
        """Return the card of a paper and what was found in it."""
        paper, frame = self.press.papers[number], self.frame(number, form)
        in_title, in_abstract = places(found.words)
        title, abstract, why = frame.title, frame.abstract, set_why(because(found.why))
        if in_title:
            title = self.set_excerpt(Excerpt("", full_title(paper), in_title))
        if in_abstract:
            abstract = self.set_excerpt(excerpt(paper, in_abstract, form))
        html, in_html = frame.html, {b"t": title.html, b"a": abstract.html, b"w": why.html, b"": b""}
        text, in_text = frame.text, {b"t": title.text, b"a": abstract.text, b"w": why.text, b"": b""}
        return SetCard(
            frame,
            html.opening % in_html if in_title else html.head,
            in_html[html.first] + html.rest % in_html,
            in_text[text.first],
            text.rest % in_text,
            frame.size + title.size + abstract.size + why.size,
            title.words + abstract.words,
        )

    def find(self, number: int, canonical: str | None) -> Found:
        """Return why a paper is shown, and the words to mark."""
        return pages.found(self.press, number, canonical)

    def set_frame(self, number: int, form: Form) -> Frame:
        """Return what of a card no filter changes, from behind its number."""
        paper = self.press.papers[number]
        card = bare(paper, page=paper_url(self.site, paper.id), form=form)
        gaps = {"number": NUMBER, "title": TITLE, "abstract": ABSTRACT if card.abstract else "", "why": WHY}
        html = filled(self.html_parts, html_values(self.html_parts, card, **gaps)).partition(NUMBER)[2]
        text = filled(self.text_parts, text_values(self.text_parts, card, **gaps)).partition(NUMBER)[2]
        title = self.set_excerpt(Excerpt("", plain(card.title), ()))
        abstract = self.set_excerpt(Excerpt("", plain(card.abstract), ()))
        size = len(GAP.sub("", html).encode())
        return Frame(mould(html, title.html), mould(text, title.text), title, abstract, size)

    def set_excerpt(self, shown: Excerpt) -> SetText:
        """Return text with what is marked marked: in HTML; plain text has no marks, and is the same for all."""
        lead, text, marks = shown
        lines, size, words = self.plain(lead + text)
        marks = clipped(marks, len(text))
        starts = [*[start for start, _ in marks], len(text)]
        html = [self.lead(lead), wire(escaped(text[: starts[0]]))]
        for (start, end), following in zip(marks, starts[1:], strict=True):
            html.append(self.mark)
            html.append(wire(f"{escaped(text[start:end])}{self.closes}{escaped(text[end:following])}"))
        return SetText(b"".join(html), lines, size + len(marks) * self.marking, words)


def set_html(text: str) -> bytes:
    """Return text in HTML."""
    return wire(escaped(text))


def set_plain(text: str) -> tuple[bytes, int, int]:
    """Return the lines of a text as they are mailed, its bytes in HTML, and how many words there are to read."""
    return wire(wrapped(text)), len(escaped(text).encode()), len(text.split())


def set_why(why: str) -> SetText:
    """Return the why line; mostly its text is the same behind a bar."""
    html = escaped(why)
    lines = wire(html)
    is_short = html == why and len(lines) < MEASURE
    return SetText(lines, b"| " + lines if is_short else wire(barred(why)), len(html.encode()))


def mould(card: str, title: bytes) -> Mould:
    """Return a filled card parted at its gaps."""
    found = TOLD.search(card)
    start, end = found.span() if found else (len(card), len(card))
    first, rest = found.groups("") if found else ("", "")
    opening = format_of(card[:start])
    return Mould(opening, opening % {b"t": title}, first.encode(), format_of(rest), wire(card[end:]))


def format_of(some: str) -> bytes:
    """Return a stretch of a filled card, encoded, as a format with its gaps by name."""
    pieces = enumerate(GAP.split(some))  # every second one is the name of a gap
    return b"".join(
        [
            f"%({piece})b".encode() if number % 2 else wire(piece).replace(b"%", b"%%")
            for number, piece in pieces
        ]
    )


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
