"""Encode sections as pieces: the cards under a topic, and the parts around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from digest.letters import figures_in_words
from digest.letters.cards import CardForm
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.piece_templates import escape_html
from digest.letters.press import digest_page
from digest.letters.press.card_pieces import CardRenderer, optional_part, separator_part
from digest.letters.press.digest_page import Layout
from digest.letters.press.press_value import Press
from digest.letters.press.size_budget import SectionPlan
from digest.site_profile import Site

PIECES_CACHED = 4096  #: maximum number of short pieces, such as topic names and numbers of cards
ROWS_CACHED = 8192  #: maximum number of rows of cards, which the readers of one filter share
MAX_TOKEN_LENGTH = 60  #: maximum bytes of the path at the start of a reader's links
MAX_URL_LENGTH = 200  #: approximate maximum bytes of a digest's web URL
GAP_MARK = "\0"  #: a marker at which a filled part is split, and which never occurs in text
WIDE_SHARE = figures_in_words.share_of_matches(100, 10_000)  #: the longest share of any section
CARD_PIECES = 4  #: number of pieces of a card, the first of which includes the card's number
LINKED_CARD_PIECES = 8  #: number of pieces of a card with links that differ from reader to reader
SAVE_PIECE, LESS_PIECE = 4, 6  #: the indices of the pieces with the start of a reader's links
REASON_PIECE = 2  #: the index of the piece with the reason line


class EncodedPair(NamedTuple):
    """One piece of a letter, encoded for both bodies."""

    html: bytes
    text: bytes


EMPTY_PAIR = EncodedPair(b"", b"")


class SectionPieces(NamedTuple):
    """All sections of a letter as pieces."""

    html: list[bytes]
    text: list[bytes]
    papers: list[int]
    octets: int  #: bytes of encoded HTML
    words: int  #: words to read
    lead: EncodedPair  #: the first card, if the headline is its title


class CardSequence(NamedTuple):
    """Consecutive pieces of a letter."""

    html: tuple[bytes, ...]
    text: tuple[bytes, ...]
    octets: int  #: bytes of encoded HTML
    words: int = 0  #: words to read
    has_links: tuple[bool, ...] = ()  #: whether each card has links that differ from reader to reader

    def without_first(self, step: int) -> CardSequence:
        """Return the sequence without its first card, which has `step` pieces."""
        octets = self.octets - sum(map(len, self.html[:step]))
        return CardSequence(self.html[step:], self.text[step:], octets, 0, self.has_links[1:])


class ReadersLinks(NamedTuple):
    """The start of the links in cards that differ from reader to reader."""

    save: EncodedPair
    less: EncodedPair

    def insert_into(
        self, html: list[bytes], text: list[bytes], start: int, has_links: Sequence[bool]
    ) -> None:
        """Insert a reader's links into the cards that have links, beginning at piece `start`."""
        for place, link in ((start + SAVE_PIECE, self.save), (start + LESS_PIECE, self.less)):
            html[place::LINKED_CARD_PIECES] = [link.html if one else b"" for one in has_links]
            text[place::LINKED_CARD_PIECES] = [link.text if one else b"" for one in has_links]


class SectionRenderer:
    """Encode the sections of one press for one site, and cache the pieces that many letters share."""

    def __init__(self, press: Press, site: Site):
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.cards = CardRenderer(press, site)
        self.row = lru_cache(ROWS_CACHED)(self.encode_cards)
        self.numbers = lru_cache(PIECES_CACHED)(self.encode_numbers)
        self.opening = lru_cache(PIECES_CACHED)(self.encode_opening)
        self.ending = lru_cache(PIECES_CACHED)(self.encode_ending)
        self.rest = lru_cache(PIECES_CACHED)(self.encode_overflow)
        self.links_size = 2 * (len(site.url) + MAX_TOKEN_LENGTH)
        self.around_lead = self.encode_around_lead()
        self.counting = self.measure_rest()
        self.start = len(decode_quoted_printable(self.encode_number(999, 1).html))

    def render_sections(
        self,
        plan: Sequence[SectionPlan],
        page: EncodedPair,
        layout: Layout,
        links: ReadersLinks | None = None,
    ) -> SectionPieces:
        """Return the pieces of all sections; `page` is the URL of the digest on the web, or empty."""
        has_links = links is not None
        rows = [self.row(section.canonical, section.papers, section.forms, has_links) for section in plan]
        if layout is not Layout.LED:
            return self.join_sections(plan, rows, page, layout, links)
        (section,), (row,) = plan, rows
        lead = self.lead_card(section, row, links)
        rest = row.without_first(LINKED_CARD_PIECES if has_links else CARD_PIECES)
        made = self.join_sections(
            digest_page.without_lead(plan, layout), [rest], page, layout, links, first=2
        )
        return SectionPieces(
            html=made.html,
            text=made.text,
            papers=[*section.papers],
            octets=made.octets + len(lead.html),
            words=row.words,
            lead=lead,
        )

    def join_sections(
        self,
        plan: Sequence[SectionPlan],
        rows: Sequence[CardSequence],
        page: EncodedPair,
        layout: Layout,
        links: ReadersLinks | None,
        *,
        first: int = 1,
    ) -> SectionPieces:
        """Return the pieces of sections whose cards are numbered from `first`."""
        html: list[bytes] = []
        text: list[bytes] = []
        papers: list[int] = []
        octets = reading = 0
        step = LINKED_CARD_PIECES if links else CARD_PIECES
        for place, (section, row) in enumerate(zip(plan, rows, strict=False), start=1):
            opening = self.opening(place, section.topic, digest_page.share_of_matches(section), layout)
            numbers = self.numbers(len(papers) + first, len(section.papers))
            html.append(opening.html)
            text.append(opening.text)
            start = len(html)  # both bodies have the same number of pieces
            html += row.html
            text += row.text
            html[start::step] = numbers.html
            text[start::step] = numbers.text
            octets += len(opening.html) + numbers.octets + row.octets
            if links:
                links.insert_into(html, text, start, row.has_links)
                octets += sum(row.has_links) * (len(links.save.html) + len(links.less.html))
            reading += row.words
            papers += section.papers
            for piece in self.overflow_pieces(section.more, place, page):
                html.append(piece.html)
                text.append(piece.text)
                octets += len(piece.html)
        return SectionPieces(html, text, papers, octets, reading, EMPTY_PAIR)

    def lead_card(self, section: SectionPlan, row: CardSequence, links: ReadersLinks | None) -> EncodedPair:
        """Return the first card of a section without its title, which is the headline."""
        untitled = self.cards.untitled(section.papers[0], section.forms[0], links is not None)
        save, less = links if links and row.has_links[0] else (EMPTY_PAIR, EMPTY_PAIR)
        html, text = (
            b"".join(
                (
                    before,
                    body.head,
                    reason,
                    body.tail,
                    save[side],
                    body.after_save,
                    less[side],
                    body.after_less,
                    after,
                )
            )
            for side, body, reason, (before, after) in (
                (0, untitled[0], row.html[REASON_PIECE], self.around_lead[0]),
                (1, untitled[1], row.text[REASON_PIECE], self.around_lead[1]),
            )
        )
        return EncodedPair(html, text)

    def overflow_pieces(self, more: int, place: int, page: EncodedPair) -> tuple[EncodedPair, ...]:
        """Return the end of a section, with a link to the omitted papers if a page lists them."""
        if more and page.html:
            before, after = self.rest(more, place)
            return before, page, after
        return (self.ending(more),)

    def encode_cards(
        self,
        canonical: str | None,
        papers: tuple[int, ...],
        forms: tuple[CardForm, ...],
        has_links: bool,  # noqa: FBT001 - part of the cache key
    ) -> CardSequence:
        """Encode the cards of a section, with gaps for the numbers and for the start of the reader's links."""
        html: list[bytes] = []
        text: list[bytes] = []
        cards = self.cards.cards(papers, canonical, forms, has_links=has_links)
        for frame, reason in cards:
            html += b"", frame.html.head, reason.html, frame.html.tail
            text += b"", frame.text.head, reason.text, frame.text.tail
            if has_links:
                html += b"", frame.html.after_save, b"", frame.html.after_less
                text += b"", frame.text.after_save, b"", frame.text.after_less
        return CardSequence(
            tuple(html),
            tuple(text),
            sum(map(len, html)),
            sum(card.frame.words for card in cards),
            tuple([card.frame.has_readers_links for card in cards]),
        )

    def encode_numbers(self, first: int, cards: int) -> CardSequence:
        """Encode the beginnings of a section's cards, numbered from `first`."""
        numbers = [self.encode_number(first + row, row) for row in range(cards)]
        html = tuple([number.html for number in numbers])
        return CardSequence(html, tuple([number.text for number in numbers]), sum(map(len, html)))

    def encode_number(self, number: int, row: int) -> EncodedPair:
        """Encode the beginning of a card with its number.

        A rule precedes every card except the first.
        """
        html, text = self.cards.start()
        if row:
            html, text = (
                separator_part(self.html_parts, "rule") + html,
                separator_part(self.text_parts, "rule") + text,
            )
        return EncodedPair(
            encode_quoted_printable(f"{html}{number}"), encode_quoted_printable(f"{text}{number}")
        )

    def encode_around_lead(self) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Encode the pieces around the first card, up to its number, if the headline is its title."""
        if not self.cards.press.has_parts("lead"):
            return (b"", b""), (b"", b"")
        number = self.encode_number(1, 0)
        html, text = (
            parts["lead"].fill({"card": GAP_MARK}).split(GAP_MARK)
            for parts in (self.html_parts, self.text_parts)
        )
        return (
            (encode_quoted_printable(html[0]) + number.html, encode_quoted_printable(html[1])),
            (encode_quoted_printable(text[0]) + number.text, encode_quoted_printable(text[1])),
        )

    def encode_opening(self, place: int, topic: str, share: str, layout: Layout) -> EncodedPair:
        """Encode the beginning of a section, preceded by a gap unless it is the first in the letter."""
        shown = digest_page.section_heading(topic, layout)
        values = {
            "name": digest_page.anchor_name(place),
            "underline": digest_page.underline(shown, share),
            "card": GAP_MARK,
        }
        html, text = (
            parts["section"]
            .fill({**values, "topic": named, "share": optional_part(parts, "share", {"share": share})})
            .partition(GAP_MARK)[0]
            for parts, named in ((self.html_parts, escape_html(shown)), (self.text_parts, shown))
        )
        if place > 1 or layout is Layout.LED:
            html, text = (
                separator_part(self.html_parts, "gap") + html,
                separator_part(self.text_parts, "gap") + text,
            )
        return EncodedPair(encode_quoted_printable(html), encode_quoted_printable(text))

    def encode_ending(self, more: int) -> EncodedPair:
        """Encode the end of a section with the number of papers left out."""
        values = {"name": "", "topic": "", "share": "", "underline": "", "card": GAP_MARK}
        said = figures_in_words.more_matched(more) if more else ""
        html = values | ({"more": self.html_parts["more"].fill({"more": escape_html(said)})} if said else {})
        text = values | ({"more": self.text_parts["more"].fill({"more": said})} if said else {})
        return EncodedPair(
            encode_quoted_printable(self.html_parts["section"].fill(html).partition(GAP_MARK)[2]),
            encode_quoted_printable(self.text_parts["section"].fill(text).partition(GAP_MARK)[2]),
        )

    def encode_overflow(self, more: int, place: int) -> tuple[EncodedPair, EncodedPair]:
        """Encode the end of a section in two pieces: before and after the URL of its overflow page."""
        values = {"name": "", "topic": "", "share": "", "underline": "", "card": GAP_MARK}
        said, url = figures_in_words.see_more_matches(more), digest_page.overflow_url(GAP_MARK, place)
        html = self.html_parts["rest"].fill({"rest": escape_html(said), "rest_url": url})
        text = self.text_parts["rest"].fill({"rest": said, "rest_url": url})
        _, *in_html = self.html_parts["section"].fill({**values, "rest": html}).split(GAP_MARK)
        _, *in_text = self.text_parts["section"].fill({**values, "rest": text}).split(GAP_MARK)
        before, after = (
            EncodedPair(encode_quoted_printable(piece), encode_quoted_printable(said))
            for piece, said in zip(in_html, in_text, strict=True)
        )
        return before, after

    # ── sizes ─────────────────────────────────────────────────────────────────

    def measure_card(self, paper_id: int, canonical: str | None, form: CardForm, *, has_links: bool) -> int:
        """Return the HTML size of a card with its number and rule, in bytes."""
        frame, reason = self.cards.card(paper_id, canonical, form, has_links)
        return frame.size + reason.size + self.start + self.links_size * frame.has_readers_links

    def measure_section(self, topic: str) -> int:
        """Return the HTML size of a section without its cards, in bytes."""
        return len(
            decode_quoted_printable(
                self.opening(2, topic, WIDE_SHARE, Layout.COUNTED).html + self.ending(0).html
            ).encode()
        )

    def measure_rest(self) -> int:
        """Return the HTML size of the line that links to the omitted papers, in bytes."""
        linked = (
            sum(len(decode_quoted_printable(piece.html).encode()) for piece in self.encode_overflow(999, 99))
            + MAX_URL_LENGTH
        )
        return linked - len(decode_quoted_printable(self.encode_ending(0).html).encode())
