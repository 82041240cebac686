"""Encode cards as pieces: shared parts once per paper, marked parts once per paper and filter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from digest.letters.cards import (
    Card,
    CardForm,
    Excerpt,
    bare_card,
    clip_spans,
    excerpt,
    split_places,
    why_line,
)
from digest.letters.cards import display_title as full_title
from digest.letters.figures_in_words import LINE_WIDTH, wrap, wrap_with_bar
from digest.letters.marked_text import plain_text
from digest.letters.mime import encode_quoted_printable
from digest.letters.piece_templates import PieceTemplate, escape_html
from digest.letters.press import digest_page
from digest.letters.press.digest_page import CardMatch
from digest.letters.press.press_value import Press
from digest.links import paper_url
from digest.site_profile import Site

Parts = Mapping[str, PieceTemplate]

CARDS_CACHED = 32768  #: a kilobyte each; the part that depends only on the paper is stored once
SHARED_CARDS_CACHED = 8192  #: shared by filters that match the same words
MATCHES_CACHED = 1024  #: reused when the same card is rendered in another length
TEMPLATES_CACHED = 4096  #: the papers that are shown, in a form or two
PLAIN_TEXTS_CACHED = 8192  #: their titles and abstracts

#: Marks where a filled card is split; untrusted text never contains NUL.
NUMBER, TITLE, ABSTRACT, WHY, MARK = "\0n", "\0t", "\0a", "\0w", "\0m"
GAP_PATTERN = re.compile("\0(.)")  #: the character names the gap
MATCH_GAPS = re.compile("\0([aw])(.*\0[taw])?", re.DOTALL)  #: from the first gap to the last
BLANK_CARD = Card(meta="", href="", title=(), byline="", abstract=(), why="", links=())


class EncodedText(NamedTuple):
    """Part of a card, encoded for both bodies."""

    html: bytes
    text: bytes
    size: int  #: bytes of HTML, decoded
    words: int = 0  #: words to read


class EncodedCard(NamedTuple):
    """A card without its number, in pieces; cached cards share equal pieces."""

    frame: CardTemplate
    head: bytes  #: the beginning of the HTML
    html: bytes  #: the HTML that depends on the filter
    first: bytes  #: the beginning of the plain text: usually the abstract, which many cards share
    rest: bytes  #: the plain text that follows
    size: int  #: bytes of HTML, decoded
    words: int  #: words to read


class BodyCardTemplate(NamedTuple):
    """A card in one of the bodies, with `%` gaps for what depends on the filter."""

    opening: bytes  #: the beginning, with a gap for the title
    head: bytes  #: the beginning, with the unmarked title
    first: bytes  #: the name of the first gap
    rest: bytes  #: from the first gap to the last
    tail: bytes


class CardTemplate(NamedTuple):
    """A card without the parts that depend on the filter."""

    html: BodyCardTemplate
    text: BodyCardTemplate
    title: EncodedText  #: unmarked
    abstract: EncodedText
    size: int  #: bytes of everything else


class CardRenderer:
    """Encode the cards of one press, and cache them."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        opens, self.closes = self.html_parts["mark"].fill({"marked": MARK}).split(MARK)
        self.mark, self.marking = encode_quoted_printable(opens), len((opens + self.closes).encode())
        self.card = lru_cache(CARDS_CACHED)(self.card_for_filter)
        self.card_of = lru_cache(SHARED_CARDS_CACHED)(self.encode_card)
        self.found = lru_cache(MATCHES_CACHED)(self.find_match)
        self.frame = lru_cache(TEMPLATES_CACHED)(self.encode_template)
        self.lead = lru_cache(TEMPLATES_CACHED)(encode_html)
        self.plain = lru_cache(PLAIN_TEXTS_CACHED)(encode_plain)

    def start(self) -> tuple[str, str]:
        """Return the HTML and the text before a card's number."""
        return (
            fill_card(self.html_parts, html_values(self.html_parts, BLANK_CARD, number=NUMBER)).partition(
                NUMBER
            )[0],
            fill_card(self.text_parts, text_values(self.text_parts, BLANK_CARD, number=NUMBER)).partition(
                NUMBER
            )[0],
        )

    def card_for_filter(self, paper_id: int, canonical: str | None, form: CardForm) -> EncodedCard:
        """Return a paper's card without its number; filters that match the same words share it."""
        number = self.press.rank_of_paper[paper_id]
        return self.card_of(number, self.found(number, canonical), form)

    def encode_card(self, number: int, found: CardMatch, form: CardForm) -> EncodedCard:
        """Encode the card of a paper with the matched words marked."""
        paper, frame = self.press.papers[number], self.frame(number, form)
        in_title, in_abstract = split_places(found.words)
        title, abstract, why = frame.title, frame.abstract, encode_why(why_line(found.why))
        if in_title:
            title = self.encode_excerpt(Excerpt("", full_title(paper), in_title))
        if in_abstract:
            abstract = self.encode_excerpt(excerpt(paper, in_abstract, form))
        html, in_html = frame.html, {b"t": title.html, b"a": abstract.html, b"w": why.html, b"": b""}
        text, in_text = frame.text, {b"t": title.text, b"a": abstract.text, b"w": why.text, b"": b""}
        return EncodedCard(
            frame,
            html.opening % in_html if in_title else html.head,
            in_html[html.first] + html.rest % in_html,
            in_text[text.first],
            text.rest % in_text,
            frame.size + title.size + abstract.size + why.size,
            title.words + abstract.words,
        )

    def find_match(self, number: int, canonical: str | None) -> CardMatch:
        """Return why a paper is shown, and the words to mark."""
        return digest_page.find_match(self.press, number, canonical)

    def encode_template(self, number: int, form: CardForm) -> CardTemplate:
        """Encode the part of a card that does not depend on the filter, after its number."""
        paper = self.press.papers[number]
        card = bare_card(paper, page=paper_url(self.site, paper.id), form=form)
        gaps = {"number": NUMBER, "title": TITLE, "abstract": ABSTRACT if card.abstract else "", "why": WHY}
        html = fill_card(self.html_parts, html_values(self.html_parts, card, **gaps)).partition(NUMBER)[2]
        text = fill_card(self.text_parts, text_values(self.text_parts, card, **gaps)).partition(NUMBER)[2]
        title = self.encode_excerpt(Excerpt("", plain_text(card.title), ()))
        abstract = self.encode_excerpt(Excerpt("", plain_text(card.abstract), ()))
        size = len(GAP_PATTERN.sub("", html).encode())
        return CardTemplate(
            body_card_template(html, title.html), body_card_template(text, title.text), title, abstract, size
        )

    def encode_excerpt(self, shown: Excerpt) -> EncodedText:
        """Encode an excerpt as HTML with marks and as plain text without."""
        lead, text, marks = shown
        lines, size, words = self.plain(lead + text)
        marks = clip_spans(marks, len(text))
        starts = [*[start for start, _ in marks], len(text)]
        html = [self.lead(lead), encode_quoted_printable(escape_html(text[: starts[0]]))]
        for (start, end), following in zip(marks, starts[1:], strict=True):
            html.append(self.mark)
            html.append(
                encode_quoted_printable(
                    f"{escape_html(text[start:end])}{self.closes}{escape_html(text[end:following])}"
                )
            )
        return EncodedText(b"".join(html), lines, size + len(marks) * self.marking, words)


def encode_html(text: str) -> bytes:
    """Encode text for the HTML body."""
    return encode_quoted_printable(escape_html(text))


def encode_plain(text: str) -> tuple[bytes, int, int]:
    """Return the text encoded for the text body, its size in HTML, and its number of words."""
    return encode_quoted_printable(wrap(text)), len(escape_html(text).encode()), len(text.split())


def encode_why(why: str) -> EncodedText:
    """Encode the why line; the plain text usually differs only by a leading bar."""
    html = escape_html(why)
    lines = encode_quoted_printable(html)
    is_short = html == why and len(lines) < LINE_WIDTH
    return EncodedText(
        lines, b"| " + lines if is_short else encode_quoted_printable(wrap_with_bar(why)), len(html.encode())
    )


def body_card_template(card: str, title: bytes) -> BodyCardTemplate:
    """Split a filled card at its gaps."""
    found = MATCH_GAPS.search(card)
    start, end = found.span() if found else (len(card), len(card))
    first, rest = found.groups("") if found else ("", "")
    opening = format_with_gaps(card[:start])
    return BodyCardTemplate(
        opening,
        opening % {b"t": title},
        first.encode(),
        format_with_gaps(rest),
        encode_quoted_printable(card[end:]),
    )


def format_with_gaps(some: str) -> bytes:
    """Encode part of a filled card as a `%` format with named gaps."""
    pieces = enumerate(GAP_PATTERN.split(some))  # odd pieces are names of gaps
    return b"".join(
        [
            f"%({piece})b".encode() if number % 2 else encode_quoted_printable(piece).replace(b"%", b"%%")
            for number, piece in pieces
        ]
    )


def html_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return the HTML values of a card's placeholders; `gaps` replace some of them."""
    ways = [
        parts["link"].fill(
            {"label": escape_html(link.label), "href": escape_html(link.href), "about": link.about}
        )
        for link in card.links
    ]
    return {
        "meta": escape_html(card.meta),
        "href": escape_html(card.href),
        "byline": escape_html(card.byline),
        "link": separator_part(parts, "dot").join(ways),
        "title": "",
        "abstract": "",
        "why": "",
        **gaps,
    }


def text_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return the plain-text values of a card's placeholders; `gaps` replace some of them."""
    ways = [parts["link"].fill({"label": link.label, "href": link.href}) for link in card.text_links]
    return {
        "meta": card.meta,
        "byline": wrap(card.byline),
        "link": separator_part(parts, "dot").join(ways),
        "marked": "",
        "title": "",
        "abstract": "",
        "why": "",
        **gaps,
    }


#: The optional parts of a card, each with the value it requires.
REQUIRED_VALUES = {
    "details": "meta",
    "meta": "number",
    "byline": "byline",
    "abstract": "abstract",
    "why": "why",
    "links": "link",
}


def fill_card(parts: Parts, values: Mapping[str, str]) -> str:
    """Fill a card; parts without a value are left out."""
    filled = {**values, "details": parts["details"].fill(values) if values["meta"] else ""}
    shown = {
        part: parts[part].fill(filled) if values[needed] else "" for part, needed in REQUIRED_VALUES.items()
    }
    return parts["card"].fill({**filled, **shown})


def separator_part(parts: Parts, name: str) -> str:
    """Return the named separator, or "" if the template has none."""
    return parts[name].fill({}) if name in parts else ""
