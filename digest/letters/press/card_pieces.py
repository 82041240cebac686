"""Encode cards as pieces once per press; only the reason line depends on the filter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from msgspec import Struct

from digest import links
from digest.letters.cards import Card, CardForm, link_text, make_card, printed_text
from digest.letters.line_wrapping import keep_figures, wrap, wrap_with_bar
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.piece_templates import PieceTemplate, Placeholder, escape_html
from digest.letters.press import digest_page
from digest.letters.press.press_value import Press
from digest.letters.reason_lines import NO_REASON, PrintedText, ReasonLine
from digest.site_profile import Site
from digest.topics.filter_tree import Leaf

Parts = Mapping[str, PieceTemplate]

CARDS_CACHED = 32768  #: maximum number of cached cards with a reason line, at 1 KB each
TEMPLATES_CACHED = 4096  #: maximum number of cached cards without a reason line, one or two per paper

#: Markers at which a filled card is split; untrusted text never contains NUL.
NUMBER, REASON, TOKEN = "\0n", "\0r", "\0t"
CARD_PIECES = 4  #: number of pieces of a card; the first piece is the card's number
REASON_PIECE = 2
#: The byte in encoded HTML that is replaced with the reader's token; quoted-printable never contains it.
TOKEN_MARK = b"\0"
WIDEST_TOKEN = b"x" * 60
BLANK_CARD = Card(meta="", href="", title="", byline="", abstract="", why=NO_REASON, links=())


class CardPieces(Struct, frozen=True):
    """A card as four encoded pieces: number, text up to the reason line, reason line, and the rest.

    The number is added later. Only the reason line depends on the filter, so all cards of a paper share the
    other pieces. In HTML, the links that belong to the reader contain `TOKEN_MARK` instead of the token.
    """

    html: tuple[bytes, ...]
    text: tuple[bytes, ...]
    words: int  #: number of words that count towards the reading time

    def with_reason(self, html: bytes, text: bytes) -> CardPieces:
        """Return the card with this encoded reason line."""
        (number, before, _, after), (_, text_before, _, text_after) = self.html, self.text
        return CardPieces((number, before, html, after), (number, text_before, text, text_after), self.words)

    @property
    def size(self) -> int:
        """Return the size of the decoded HTML in bytes, with the longest possible token in its links."""
        return len(decode_quoted_printable(b"".join(self.html).replace(TOKEN_MARK, WIDEST_TOKEN)).encode())


class CardRenderer:
    """Encodes and caches the cards of one press."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.bold = encode_format(self.html_parts.get("bold"))
        self.reason_html = encode_format(self.html_parts["why"], {"bold"})
        self.reason_text = encode_format(self.text_parts["why"])
        self.links = links.save_prefix(site, TOKEN), links.feedback_prefix(site, TOKEN)
        self.frame = lru_cache(TEMPLATES_CACHED)(self.encode_frame)
        self.untitled = lru_cache(TEMPLATES_CACHED)(self.encode_untitled)
        self.plain_card = lru_cache(TEMPLATES_CACHED)(self.make_card)
        self.printed = lru_cache(TEMPLATES_CACHED)(self.find_printed_text)
        self.matched = lru_cache(CARDS_CACHED)(self.encode_matched)

    def start(self) -> tuple[str, str]:
        """Return the beginning of a card in HTML and text, up to and including the marker for its number."""
        html = fill_card(self.html_parts, html_values(self.html_parts, BLANK_CARD, number=NUMBER))
        text = fill_card(self.text_parts, text_values(self.text_parts, BLANK_CARD, number=NUMBER))
        return html.rpartition(NUMBER)[0] + NUMBER, text.rpartition(NUMBER)[0] + NUMBER

    def card(
        self,
        paper_id: int,
        canonical: str | None,
        form: CardForm,
        has_links: bool = False,  # noqa: FBT001, FBT002 - part of a cache key
    ) -> CardPieces:
        """Return a paper's card without its number; `canonical` is the filter that chose the paper."""
        return self.cards((paper_id,), canonical, (form,), has_links=has_links)[0]

    def cards(
        self, papers: Sequence[int], canonical: str | None, forms: Sequence[CardForm], *, has_links: bool
    ) -> list[CardPieces]:
        """Return papers' cards without numbers; `has_links` adds the links that belong to the reader."""
        numbers = [*map(self.press.rank_of_paper.__getitem__, papers)]
        card, clauses = self.matched, digest_page.matched_clauses(self.press, numbers, canonical).get
        return [
            card(number, form, has_links, clauses(number, ()))
            for number, form in zip(numbers, forms, strict=True)
        ]

    def untitled_card(self, paper_id: int, form: CardForm, *, has_links: bool) -> CardPieces:
        """Return a paper's card without its number, its title and its reason line."""
        return self.untitled(self.press.rank_of_paper[paper_id], form, has_links)

    def encode_matched(
        self,
        number: int,
        form: CardForm,
        has_links: bool,  # noqa: FBT001 - part of the cache key
        clauses: tuple[Leaf, ...],
    ) -> CardPieces:
        """Encode the card of a paper that these clauses match; filters with these clauses share the card."""
        frame = self.frame(number, form, has_links)
        why = digest_page.reason_of(self.press, number, clauses, self.printed(number, form))
        return frame.with_reason(*self.encode_reason(why)) if why.text else frame

    def encode_reason(self, why: ReasonLine) -> tuple[bytes, bytes]:
        """Encode a reason line in HTML and text."""
        word = encode_quoted_printable(escape_html(why.word)) if why.word else b""
        shown = {
            b"why": encode_quoted_printable(escape_html(keep_figures(why.before))),
            b"word": word,
            b"bold": self.bold % {b"word": word} if word else b"",
            b"after": encode_quoted_printable(escape_html(keep_figures(why.after))) if why.after else b"",
        }
        in_text = {b"why": encode_quoted_printable(wrap_with_bar(why.text)), b"word": b"", b"after": b""}
        return self.reason_html % shown, self.reason_text % in_text

    def encode_frame(self, number: int, form: CardForm, has_links: bool) -> CardPieces:  # noqa: FBT001 - part of the cache key
        """Encode a card without its number and its reason line."""
        return self.encode_card(self.plain_card(number, form, has_links))

    def encode_untitled(self, number: int, form: CardForm, has_links: bool) -> CardPieces:  # noqa: FBT001 - part of the cache key
        """Encode a card without its number, reason line and title."""
        return self.encode_card(replace(self.plain_card(number, form, has_links), title=""))

    def make_card(self, number: int, form: CardForm, has_links: bool) -> Card:  # noqa: FBT001 - part of the cache key
        """Return a card without a reason line; the links that belong to the reader contain a marker."""
        paper, (save_url, less_url) = self.press.papers[number], self.links if has_links else ("", "")
        page = links.paper_url(self.site, paper.id)
        return make_card(paper, page=page, form=form, save_url=save_url, less_url=less_url)

    def find_printed_text(self, number: int, form: CardForm) -> PrintedText:
        """Return the positions of the parts of a paper's title and abstract that its card prints."""
        return printed_text(self.press.papers[number], form)

    def encode_card(self, card: Card) -> CardPieces:
        """Encode a card without its number and its reason line."""
        html = fill_card(self.html_parts, html_values(self.html_parts, card, number=NUMBER), reason=REASON)
        text = fill_card(self.text_parts, text_values(self.text_parts, card, number=NUMBER), reason=REASON)
        return CardPieces(split_card(html), split_card(text), digest_page.count_words(card))


def split_card(card: str) -> tuple[bytes, ...]:
    """Return the encoded pieces of a filled card, with empty pieces for its number and its reason line."""
    before, _, after = card.rpartition(NUMBER)[2].partition(REASON)
    return b"", encode_marked(before), b"", encode_marked(after)


def encode_marked(text: str) -> bytes:
    """Encode text, and replace each `TOKEN` in it with `TOKEN_MARK`."""
    return TOKEN_MARK.join(map(encode_quoted_printable, text.split(TOKEN)))


def html_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return the HTML values of a card's placeholders; values in `gaps` replace those of the card."""
    ways = [
        parts["link"].fill(
            {"label": escape_html(link.label), "href": escape_html(link.href), "about": link.about}
        )
        for link in card.links
    ]
    return {
        "meta": escape_html(keep_figures(card.meta)),
        "href": escape_html(card.href),
        "byline": escape_html(keep_figures(card.byline)),
        "link": separator_part(parts, "dot").join(ways),
        "title": escape_html(card.title),
        "abstract": escape_html(card.abstract),
        **gaps,
    }


def text_values(parts: Parts, card: Card, **gaps: str) -> dict[str, str]:
    """Return the plain-text values of a card's placeholders; values in `gaps` replace those of the card."""
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


#: The optional parts of a card, each with the name of the value that it requires. In a customized template,
#: the title may be outside all of these parts.
REQUIRED_VALUES = {
    "heading": "title",
    "byline": "byline",
    "abstract": "abstract",
    "links": "link",
}


def fill_card(parts: Parts, values: Mapping[str, str], *, reason: str = "") -> str:
    """Return a card filled with these values; parts whose value is missing are left out."""
    shown = {
        part: parts[part].fill(values) if values[needed] else ""
        for part, needed in REQUIRED_VALUES.items()
        if part in parts or part != "heading"
    }
    return parts["card"].fill({**values, **shown, "why": reason})


def encode_format(template: PieceTemplate | None, parts: Collection[str] = ()) -> bytes:
    """Encode a part for the operator %, with placeholders for its values and for the nested `parts`.

    Other nested parts are left out.
    """
    made = b""
    for piece in template.pieces if template else ():
        if isinstance(piece, str):
            made += encode_quoted_printable(piece).replace(b"%", b"%%")
        elif isinstance(piece, Placeholder) or piece.name in parts:
            made += f"%({piece.name})b".encode()
    return made


def optional_part(parts: Parts, name: str, values: Mapping[str, str]) -> str:
    """Return the named part filled with values, or "" if there are no values or no such part."""
    return parts[name].fill(values) if any(values.values()) and name in parts else ""


def separator_part(parts: Parts, name: str) -> str:
    """Return the named separator, or "" if the template has none."""
    return parts[name].fill({}) if name in parts else ""
