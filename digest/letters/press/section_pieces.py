"""Encode sections as pieces: the cards under a topic, and the parts around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from digest.letters import figures_in_words
from digest.letters.cards import CardForm
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.piece_templates import escape_html
from digest.letters.press import digest_page
from digest.letters.press.card_pieces import (
    CARD_PIECES,
    LESS_PIECE,
    LINKED_CARD_PIECES,
    NUMBER,
    REASON_PIECE,
    SAVE_PIECE,
    CardRenderer,
    optional_part,
    separator_part,
)
from digest.letters.press.digest_page import Layout
from digest.letters.press.press_value import Press
from digest.letters.press.size_budget import SectionPlan
from digest.site_profile import Site

PIECES_CACHED = 4096  #: maximum number of short pieces, such as topic names and numbers of cards
ROWS_CACHED = 4096  #: maximum number of rows of cards, which the readers of one filter share
MAX_TOKEN_LENGTH = 60  #: maximum bytes of the path at the start of a reader's links
MAX_URL_LENGTH = 200  #: approximate maximum bytes of a digest's web URL
GAP_MARK = "\0"  #: a marker at which filled parts are split; it never occurs in text
WIDE_SHARE = figures_in_words.share_of_matches(100, 10_000)  #: the longest share text


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


class ReadersLinks(NamedTuple):
    """The encoded beginnings of the card links that differ from reader to reader."""

    save: bytes
    less: bytes

    def insert_into(self, html: list[bytes], start: int, has_links: Sequence[bool]) -> int:
        """Insert the links into the cards from index `start` on; return the number of bytes added."""
        cards = len(has_links)
        if False not in has_links:
            html[start + SAVE_PIECE :: LINKED_CARD_PIECES] = [self.save] * cards
            html[start + LESS_PIECE :: LINKED_CARD_PIECES] = [self.less] * cards
            return cards * (len(self.save) + len(self.less))
        html[start + SAVE_PIECE :: LINKED_CARD_PIECES] = [self.save if one else b"" for one in has_links]
        html[start + LESS_PIECE :: LINKED_CARD_PIECES] = [self.less if one else b"" for one in has_links]
        return sum(has_links) * (len(self.save) + len(self.less))


class SectionRenderer:
    """Encodes the sections of one press for one site, and caches the pieces that many letters share."""

    def __init__(self, press: Press, site: Site):
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.cards = CardRenderer(press, site)
        self.row = lru_cache(ROWS_CACHED)(self.encode_cards)
        self.placed = lru_cache(ROWS_CACHED)(self.place_cards)
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
        html: list[bytes] = []
        text: list[bytes] = []
        lead, number, octets, words = EMPTY_PAIR, 1, 0, 0
        if layout is Layout.LED:
            lead = self.lead_card(plan[0], links)
            number, octets = 2, len(lead.html)
        for place, section in enumerate(plan, start=1):
            is_continued = bool(section.more and page.html)
            placed = self.placed(section, place, number, layout, links is not None, is_continued)
            start = len(html) + 1  # after the beginning of the section
            html += placed.html
            text += placed.text
            octets += placed.octets
            words += placed.words
            number += len(section.papers)
            if links:
                octets += links.insert_into(html, start, placed.has_links)
            if is_continued:
                before, after = self.rest(section.more, place)
                html += before.html, page.html, after.html
                text += before.text, page.text, after.text
                octets += len(before.html) + len(page.html) + len(after.html)
        return SectionPieces(
            html, text, [*chain.from_iterable([one.papers for one in plan])], octets, words, lead
        )

    def place_cards(
        self,
        section: SectionPlan,
        place: int,
        first: int,
        layout: Layout,
        has_links: bool,  # noqa: FBT001 - part of the cache key
        is_continued: bool,  # noqa: FBT001 - part of the cache key
    ) -> CardSequence:
        """Return a section with its cards numbered from `first`, without the lead.

        The end is missing if a page lists the papers that were left out, because that page's URL differs by
        reader.
        """
        row = self.row(section.canonical, section.papers, section.forms, has_links)
        rest = digest_page.without_lead([section], layout)
        if not rest:
            return CardSequence((), (), 0, row.words)
        skipped = len(section.papers) - len(rest[0].papers)
        steps = LINKED_CARD_PIECES if has_links else CARD_PIECES, CARD_PIECES
        opening = self.opening(place, section.topic, digest_page.share_of_matches(rest[0]), layout)
        numbers = self.numbers(first, len(rest[0].papers))
        html, text = (
            [begin, *pieces[skipped * step :]]
            for begin, pieces, step in zip(opening, (row.html, row.text), steps, strict=True)
        )
        html[1 :: steps[0]], text[1 :: steps[1]] = numbers.html, numbers.text
        if not is_continued:
            ending = self.ending(section.more)
            html.append(ending.html)
            text.append(ending.text)
        return CardSequence(tuple(html), tuple(text), sum(map(len, html)), row.words, row.has_links[skipped:])

    def lead_card(self, section: SectionPlan, links: ReadersLinks | None) -> EncodedPair:
        """Return the first card of a section without its title, because the headline is the title."""
        has_links = links is not None
        row = self.row(section.canonical, section.papers, section.forms, has_links)
        bodies = self.cards.untitled(section.papers[0], section.forms[0], has_links)
        html, text = map(list, bodies)
        (html[0], after_html), (text[0], after_text) = self.around_lead
        html[REASON_PIECE], text[REASON_PIECE] = row.html[REASON_PIECE], row.text[REASON_PIECE]
        if links:
            links.insert_into(html, 0, row.has_links[:1])
        return EncodedPair(b"".join((*html, after_html)), b"".join((*text, after_text)))

    def encode_cards(
        self,
        canonical: str | None,
        papers: tuple[int, ...],
        forms: tuple[CardForm, ...],
        has_links: bool,  # noqa: FBT001 - part of the cache key
    ) -> CardSequence:
        """Encode the cards of a section, with gaps for the numbers and for the start of the reader's links."""
        cards = self.cards.cards(papers, canonical, forms, has_links=has_links)
        frames, reasons = [one.frame for one in cards], [one.reason for one in cards]
        html = [*chain.from_iterable([one.html for one in frames])]
        text = [*chain.from_iterable([one.text for one in frames])]
        html[REASON_PIECE :: LINKED_CARD_PIECES if has_links else CARD_PIECES] = [one.html for one in reasons]
        text[REASON_PIECE::CARD_PIECES] = [one.text for one in reasons]
        return CardSequence(
            tuple(html),
            tuple(text),
            sum(one.octets for one in frames) + sum(len(one.html) for one in reasons),
            sum(one.words for one in frames),
            tuple([one.has_readers_links for one in frames]),
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
            *(encode_quoted_printable(body.replace(NUMBER, str(number))) for body in (html, text))
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
