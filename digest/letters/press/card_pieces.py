"""Encode cards as pieces once per press; only the reason line depends on the filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from jinja2 import TemplateError

from digest.letters.cards import Card, CardForm, link_text, make_card, printed_text
from digest.letters.figures_in_words import wrap, wrap_with_bar
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.piece_templates import PieceTemplate, escape_html
from digest.letters.press import digest_page
from digest.letters.press.press_value import Press
from digest.letters.reason_lines import NO_REASON, PrintedText
from digest.links import paper_url
from digest.site_profile import Site
from digest.topics.filter_tree import Leaf

Parts = Mapping[str, PieceTemplate]

REASONS_CACHED = 32768  #: maximum number of reason lines, about 500 bytes each
TEMPLATES_CACHED = 4096  #: maximum number of cards; each shown paper has one or two

#: Markers at which a filled card is split; untrusted text never contains NUL.
NUMBER, REASON, SAVE, LESS = "\0n", "\0r", "\0s", "\0l"
CARD_PIECES = 4  #: number of pieces of a card, including its number
LINKED_CARD_PIECES = 8  #: number of pieces of a card in HTML with links that differ from reader to reader
REASON_PIECE, SAVE_PIECE, LESS_PIECE = 2, 4, 6  #: the indices of the other pieces that are replaced
BLANK_CARD = Card(meta="", href="", title="", byline="", abstract="", why=NO_REASON, links=())


class CardTemplate(NamedTuple):
    """A card as encoded pieces, with empty pieces between them that are replaced in each letter.

    The empty pieces are replaced with the card's number, its reason line (the only part that depends on the
    filter) and, in HTML, the start of each link that differs from reader to reader.
    """

    html: tuple[bytes, ...]
    text: tuple[bytes, ...]
    octets: int  #: bytes of encoded HTML
    size: int  #: bytes of HTML, decoded
    words: int  #: words to read
    has_readers_links: bool  #: whether it has links that differ from reader to reader


class EncodedReason(NamedTuple):
    """A reason line, encoded for both bodies; empty if there is no fact."""

    html: bytes = b""
    text: bytes = b""

    @property
    def size(self) -> int:
        """Return the bytes of HTML, decoded."""
        return len(decode_quoted_printable(self.html).encode())


class EncodedCard(NamedTuple):
    """A card without its number."""

    frame: CardTemplate
    reason: EncodedReason


class CardRenderer:
    """Encodes and caches the cards of one press."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.why_html, self.why_text = (
            encode_literals(parts["why"]) for parts in (self.html_parts, self.text_parts)
        )
        self.bold = encode_literals(self.html_parts["bold"]) if "bold" in self.html_parts else ()
        self.frame = lru_cache(TEMPLATES_CACHED)(self.encode_template)
        self.untitled = lru_cache(TEMPLATES_CACHED)(self.encode_untitled)
        self.printed = lru_cache(TEMPLATES_CACHED)(self.find_printed_text)
        self.matched = lru_cache(REASONS_CACHED)(self.encode_matched)
        self.card = lru_cache(REASONS_CACHED)(self.encode_card)

    def start(self) -> tuple[str, str]:
        """Return the beginning of a card in HTML and text, up to and including the marker for its number."""
        html = fill_card(self.html_parts, html_values(self.html_parts, BLANK_CARD, number=NUMBER))
        text = fill_card(self.text_parts, text_values(self.text_parts, BLANK_CARD, number=NUMBER))
        return html.rpartition(NUMBER)[0] + NUMBER, text.rpartition(NUMBER)[0] + NUMBER

    def encode_card(
        self,
        paper_id: int,
        canonical: str | None,
        form: CardForm,
        has_links: bool = False,  # noqa: FBT001, FBT002 - part of the cache key
    ) -> EncodedCard:
        """Encode a paper's card without its number."""
        return self.cards((paper_id,), canonical, (form,), has_links=has_links)[0]

    def cards(
        self, papers: Sequence[int], canonical: str | None, forms: Sequence[CardForm], *, has_links: bool
    ) -> list[EncodedCard]:
        """Return the cards of papers without numbers; with `has_links`, some links differ by reader."""
        rank_of_paper, card = self.press.rank_of_paper, self.matched
        numbers = [rank_of_paper[paper] for paper in papers]
        clauses = digest_page.matched_clauses(self.press, numbers, canonical).get
        return [
            card(number, form, has_links, clauses(number, ()))
            for number, form in zip(numbers, forms, strict=True)
        ]

    def encode_matched(
        self,
        number: int,
        form: CardForm,
        has_links: bool,  # noqa: FBT001 - part of the cache key
        clauses: tuple[Leaf, ...],
    ) -> EncodedCard:
        """Encode the card of a paper matched by these clauses; many filters share the card."""
        return EncodedCard(self.frame(number, form, has_links), self.encode_reason(number, form, clauses))

    def encode_reason(self, number: int, form: CardForm, clauses: tuple[Leaf, ...]) -> EncodedReason:
        """Encode the reason line of a paper matched by these clauses."""
        why = digest_page.reason_of(self.press, number, clauses, self.printed(number, form))
        if not why.text:
            return EncodedReason()
        shown = {
            "why": encode_quoted_printable(escape_html(why.before)),
            "word": encode_quoted_printable(escape_html(why.word)),
            "after": encode_quoted_printable(escape_html(why.after)),
            "bold": b"",
        }
        if why.word and "bold" in self.html_parts:
            shown["bold"] = fill_encoded(self.bold, shown)
        text = {
            "why": encode_quoted_printable(wrap_with_bar(why.text)),
            "word": b"",
            "after": b"",
            "bold": b"",
        }
        return EncodedReason(fill_encoded(self.why_html, shown), fill_encoded(self.why_text, text))

    def encode_template(self, number: int, form: CardForm, has_links: bool) -> CardTemplate:  # noqa: FBT001 - part of the cache key
        """Encode the part of a card after its number, without the reason line."""
        card = self.make_card(number, form, has_links=has_links)
        html, text = self.fill_bodies(card, has_links=has_links)
        return CardTemplate(
            html=html,
            text=text,
            octets=sum(map(len, html)),
            size=len(decode_quoted_printable(b"".join(html)).encode()),
            words=digest_page.count_words(card),
            has_readers_links=has_links and bool(card.links),
        )

    def encode_untitled(
        self,
        paper_id: int,
        form: CardForm,
        has_links: bool,  # noqa: FBT001 - part of the cache key
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Encode the part of a card after its number, without the reason line and the title."""
        card = self.make_card(self.press.rank_of_paper[paper_id], form, has_links=has_links)
        return self.fill_bodies(replace(card, title=""), has_links=has_links)

    def make_card(self, number: int, form: CardForm, *, has_links: bool) -> Card:
        """Return a card without a reason line, with gaps at the start of the links that differ by reader."""
        paper, (save_url, less_url) = self.press.papers[number], (SAVE, LESS) if has_links else ("", "")
        page = paper_url(self.site, paper.id)
        return make_card(paper, page=page, form=form, save_url=save_url, less_url=less_url)

    def find_printed_text(self, number: int, form: CardForm) -> PrintedText:
        """Return the positions of the parts of a paper's title and abstract that its card prints."""
        return printed_text(self.press.papers[number], form)

    def fill_bodies(self, card: Card, *, has_links: bool) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Return the pieces of a card in HTML and text; only HTML has links that differ by reader."""
        html = fill_card(self.html_parts, html_values(self.html_parts, card, number=NUMBER), reason=REASON)
        text = fill_card(self.text_parts, text_values(self.text_parts, card, number=NUMBER), reason=REASON)
        return split_card(html, (REASON, SAVE, LESS) if has_links else (REASON,)), split_card(text, (REASON,))


def split_card(card: str, marks: Sequence[str]) -> tuple[bytes, ...]:
    """Return the encoded text after a card's number, split at the marks, with an empty piece for each."""
    pieces: list[bytes] = []
    rest = card.rpartition(NUMBER)[2]
    for mark in marks:
        piece, _, rest = rest.partition(mark)
        if "\0" in piece:
            raise TemplateError("the links of a card must follow its reason line")
        pieces += b"", encode_quoted_printable(piece)
    return (*pieces, b"", encode_quoted_printable(rest))


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
        "title": escape_html(card.title),
        "abstract": escape_html(card.abstract),
        **gaps,
    }


def text_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return the plain-text values of a card's placeholders; `gaps` replace some of them."""
    ways = [
        parts["link"].fill({"label": link.label, "href": link.href, "link_text": link_text(link)})
        for link in card.text_links
    ]
    return {
        "meta": wrap(card.meta),
        "byline": wrap(card.byline),
        "link": separator_part(parts, "dot").join(ways),
        "title": wrap(card.title),
        "abstract": wrap(card.abstract),
        **gaps,
    }


#: The optional parts of a card, each with the value it requires. In a customized template, the title may be
#: outside all of these parts.
REQUIRED_VALUES = {
    "heading": "title",
    "byline": "byline",
    "abstract": "abstract",
    "links": "link",
}


def fill_card(parts: Parts, values: Mapping[str, str], *, reason: str = "") -> str:
    """Fill a card; parts without a value are left out."""
    shown = {
        part: parts[part].fill(values) if values[needed] else ""
        for part, needed in REQUIRED_VALUES.items()
        if part in parts or part != "heading"
    }
    return parts["card"].fill({**values, **shown, "why": reason})


def encode_literals(part: PieceTemplate) -> tuple[bytes | str, ...]:
    """Return the pieces of a part: encoded text, and the names of placeholders and nested parts."""
    return tuple(
        [encode_quoted_printable(piece) if isinstance(piece, str) else piece.name for piece in part.pieces]
    )


def fill_encoded(pieces: Sequence[bytes | str], values: Mapping[str, bytes]) -> bytes:
    """Return the pieces joined, with each name replaced by its encoded value."""
    return b"".join([piece if isinstance(piece, bytes) else values[piece] for piece in pieces])


def optional_part(parts: Parts, name: str, values: Mapping[str, str]) -> str:
    """Return the named part filled with values, or "" if there are no values or no such part."""
    return parts[name].fill(values) if any(values.values()) and name in parts else ""


def separator_part(parts: Parts, name: str) -> str:
    """Return the named separator, or "" if the template has none."""
    return parts[name].fill({}) if name in parts else ""
