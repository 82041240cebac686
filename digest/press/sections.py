"""Sections as pieces: the cards under a topic, one after the other, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from digest.links import Site
from digest.press import pages
from digest.press.budget import Planned
from digest.press.cards import Cards, between
from digest.press.presses import Press
from digest.rendering import words
from digest.rendering.cards import Form
from digest.rendering.mime import unwired, wire
from digest.rendering.stencils import escaped

PIECES_KEPT = 4096
ROWS_KEPT = 8192
LONGEST_URL = 200  #: bytes of the address under which a digest is read in a browser, or about
GAP = "\0"  #: stands where a filled part will be parted again; no text has it
IN_HTML, IN_TEXT = 4, 5  #: pieces of a card with its number


class Pair(NamedTuple):
    """One piece of a letter, encoded for both of its bodies."""

    html: bytes
    text: bytes


class Told(NamedTuple):
    """What all sections of a letter come to."""

    html: list[bytes]
    text: list[bytes]
    papers: list[int]
    octets: int  #: of HTML, encoded
    words: int  #: to read


class Row(NamedTuple):
    """Pieces that stand in a letter one after the other."""

    html: tuple[bytes, ...]
    text: tuple[bytes, ...]
    octets: int  #: of HTML, encoded
    words: int = 0  #: to read


class Sections:
    """Sets the sections of one press for one site, and keeps the pieces that many have."""

    def __init__(self, press: Press, site: Site):
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.cards = Cards(press, site)
        self.card = self.cards.card
        self.row = lru_cache(ROWS_KEPT)(self.set_row)
        self.numbers = lru_cache(PIECES_KEPT)(self.set_numbers)
        self.opening = lru_cache(PIECES_KEPT)(self.set_opening)
        self.ending = lru_cache(PIECES_KEPT)(self.set_ending)
        self.rest = lru_cache(PIECES_KEPT)(self.set_rest)
        self.counting = self.measure_rest()
        self.start = len(unwired(self.set_number(999, 1).html))

    def tell(self, plan: Iterable[Planned], page: Pair) -> Told:
        """Return the pieces of all sections; `page` is the address of the digest on the web, if it has one."""
        html: list[bytes] = []
        text: list[bytes] = []
        papers: list[int] = []
        octets = reading = 0
        for place, (topic, canonical, shown, forms, more) in enumerate(plan, start=1):
            opening, cards = self.opening(place, topic), self.row(canonical, shown, forms)
            numbers = self.numbers(len(papers) + 1, len(shown))
            html.append(opening.html)
            text.append(opening.text)
            in_html, in_text = len(html), len(text)
            html += cards.html
            text += cards.text
            html[in_html::IN_HTML] = numbers.html
            text[in_text::IN_TEXT] = numbers.text
            octets += len(opening.html) + numbers.octets + cards.octets
            reading += cards.words
            papers += shown
            for piece in self.left_out(more, place, page):
                html.append(piece.html)
                text.append(piece.text)
                octets += len(piece.html)
        return Told(html, text, papers, octets, reading)

    def left_out(self, more: int, place: int, page: Pair) -> tuple[Pair, ...]:
        """Return the end of a section, which leads to what was left out where a page lists it."""
        if more and page.html:
            before, after = self.rest(more, place)
            return before, page, after
        return (self.ending(more),)

    def set_row(self, canonical: str | None, papers: tuple[int, ...], forms: tuple[Form, ...]) -> Row:
        """Return the cards of a section, each behind a gap for its number: they are the same in every place."""
        html: list[bytes] = []
        text: list[bytes] = []
        words = 0
        for paper, form in zip(papers, forms, strict=True):
            card = self.card(paper, canonical, form)
            html += b"", card.head, card.html, card.frame.html.tail
            text += b"", card.frame.text.head, card.first, card.rest, card.frame.text.tail
            words += card.words
        return Row(tuple(html), tuple(text), sum(map(len, html)), words)

    def set_numbers(self, first: int, cards: int) -> Row:
        """Return the beginnings of the cards of a section, numbered from `first`."""
        numbers = [self.set_number(first + row, row) for row in range(cards)]
        html = tuple([number.html for number in numbers])
        return Row(html, tuple([number.text for number in numbers]), sum(map(len, html)))

    def set_number(self, number: int, row: int) -> Pair:
        """Return the beginning of a card, and before all but the first of a section the rule that parts them."""
        html, text = self.cards.start()
        if row:
            html, text = between(self.html_parts, "rule") + html, between(self.text_parts, "rule") + text
        return Pair(wire(f"{html}{number}"), wire(f"{text}{number}"))

    def set_opening(self, place: int, topic: str) -> Pair:
        """Return the beginning of a section, and before it the gap that parts it from the last."""
        shown = pages.heading(topic)
        values = {"name": pages.anchor_name(place), "underline": pages.underline(shown), "card": GAP}
        html = self.html_parts["section"].fill({**values, "topic": escaped(shown)}).partition(GAP)[0]
        text = self.text_parts["section"].fill({**values, "topic": shown}).partition(GAP)[0]
        if place > 1:
            html, text = between(self.html_parts, "gap") + html, between(self.text_parts, "gap") + text
        return Pair(wire(html), wire(text))

    def set_ending(self, more: int) -> Pair:
        """Return the end of a section, which says how many papers were left out."""
        values = {"name": "", "topic": "", "underline": "", "card": GAP}
        said = words.more(more) if more else ""
        html = values | ({"more": self.html_parts["more"].fill({"more": escaped(said)})} if said else {})
        text = values | ({"more": self.text_parts["more"].fill({"more": said})} if said else {})
        return Pair(
            wire(self.html_parts["section"].fill(html).partition(GAP)[2]),
            wire(self.text_parts["section"].fill(text).partition(GAP)[2]),
        )

    def set_rest(self, more: int, place: int) -> tuple[Pair, Pair]:
        """Return such an end in two pieces: between them stands the page that lists what was left out."""
        values = {"name": "", "topic": "", "underline": "", "card": GAP}
        said, url = words.more(more), pages.rest_url(GAP, place)
        html = self.html_parts["rest"].fill({"rest": escaped(said), "rest_url": url})
        text = self.text_parts["rest"].fill({"rest": said, "rest_url": url})
        _, *in_html = self.html_parts["section"].fill({**values, "rest": html}).split(GAP)
        _, *in_text = self.text_parts["section"].fill({**values, "rest": text}).split(GAP)
        before, after = (Pair(wire(piece), wire(said)) for piece, said in zip(in_html, in_text, strict=True))
        return before, after

    # ── how much room they take ─────────────────────────────────────────────────────────────────

    def measure(self, paper_id: int, canonical: str | None, form: Form) -> int:
        """Return how many bytes of HTML a card takes, with its number and its rule."""
        return self.card(paper_id, canonical, form).size + self.start

    def frame(self, topic: str) -> int:
        """Return how many bytes of HTML a section takes beside its cards."""
        return len(unwired(self.opening(2, topic).html + self.ending(0).html).encode())

    def measure_rest(self) -> int:
        """Return how many bytes of HTML the line takes that counts what was left out, with its address."""
        linked = sum(len(unwired(piece.html).encode()) for piece in self.set_rest(999, 99)) + LONGEST_URL
        return linked - len(unwired(self.set_ending(0).html).encode())
