"""Encode sections as pieces: the cards under a topic, and the parts around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from digest.editions.compose import TRENDING_TOPIC
from digest.letters import figures_in_words
from digest.letters.cards import CardForm
from digest.letters.line_wrapping import wrap
from digest.letters.mime import decode_quoted_printable, encode_quoted_printable
from digest.letters.piece_templates import escape_html
from digest.letters.press import digest_page
from digest.letters.press.card_pieces import (
    CARD_PIECES,
    NUMBER,
    REASON_PIECE,
    TOKEN_MARK,
    CardRenderer,
    Parts,
    encode_format,
    optional_part,
    separator_part,
)
from digest.letters.press.digest_page import Layout
from digest.letters.press.press_value import Press
from digest.letters.press.size_budget import SectionPlan
from digest.site_profile import Site

PIECES_CACHED = 16384  #: maximum number of cached short pieces, such as topic names and numbers of cards
ROWS_CACHED = 16384  #: maximum number of cached rows of cards; readers with the same filter share rows
MAX_URL_LENGTH = 200  #: approximate maximum length of a digest's web URL, in bytes
GAP_MARK = "\0"  #: a marker at which filled parts are split; text never contains this marker


class EncodedPair(NamedTuple):
    """One piece of a letter, encoded for both bodies."""

    html: bytes
    text: bytes


EMPTY_PAIR = EncodedPair(b"", b"")


class SectionPieces(Struct, frozen=True):
    """All sections of a letter, encoded."""

    html: bytes
    text: list[bytes]
    papers: list[int]
    words: int  #: number of words that count towards the reading time
    lead: EncodedPair  #: the first card, if its title is the headline

    @property
    def octets(self) -> int:
        """Return the number of bytes of encoded HTML."""
        return len(self.html) + len(self.lead.html)


class CardRow(Struct, frozen=True):
    """The cards of a section as pieces, with an empty piece in place of each card's number."""

    html: list[bytes]
    text: list[bytes]
    words: int  #: number of words that count towards the reading time

    def without_first(self) -> CardRow:
        """Return the row without the pieces of its first card; `words` still counts that card's words."""
        return CardRow(self.html[CARD_PIECES:], self.text[CARD_PIECES:], self.words)


class SectionRenderer:
    """Encodes the sections of one press for one site, and caches the pieces that many letters share."""

    def __init__(self, press: Press, site: Site):
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        self.cards = CardRenderer(press, site)
        self.row = lru_cache(ROWS_CACHED)(self.encode_row)
        self.numbers = lru_cache(PIECES_CACHED)(self.encode_numbers)
        self.openings = [self.encode_opening_format(has_gap=has_gap) for has_gap in (False, True)]
        self.overflows = [*map(self.encode_overflow_format, (self.html_parts, self.text_parts))]
        self.heading = lru_cache(PIECES_CACHED)(self.encode_heading)
        self.share = lru_cache(PIECES_CACHED)(self.encode_share)
        self.opening = lru_cache(PIECES_CACHED)(self.encode_opening)
        self.ending = lru_cache(PIECES_CACHED)(self.encode_ending)
        self.rest = lru_cache(PIECES_CACHED)(self.encode_overflow)
        self.around_lead = self.encode_around_lead()
        self.counting = self.measure_rest()
        self.start = len(decode_quoted_printable(self.encode_number(999, 1).html))

    def render_sections(
        self, plan: Sequence[SectionPlan], page: EncodedPair, layout: Layout, token: bytes = b""
    ) -> SectionPieces:
        """Return all sections of a letter, encoded.

        `page` is the URL of the digest on the web, and `token` is the reader's token in the links of the
        cards. Either may be empty.
        """
        html: list[bytes] = []
        text: list[bytes] = []
        has_links = bool(token)
        rows = [self.row(one.canonical, one.papers, one.forms, has_links) for one in plan]
        words = sum(row.words for row in rows)
        lead, number = EMPTY_PAIR, 1
        if layout is Layout.LED:
            lead, number = self.lead_card(plan[0], rows[0], token), 2
            rows = [rows[0].without_first()]
        for place, (section, row) in enumerate(
            zip(digest_page.without_lead(plan, layout), rows, strict=False), start=1
        ):
            papers = len(section.papers)
            opening = self.opening(place, section.topic, papers, section.matches, layout)
            numbers_html, numbers_text = self.numbers(number, papers)
            append_cards(html, opening.html, row.html, numbers_html)
            append_cards(text, opening.text, row.text, numbers_text)
            if section.more and page.html:
                before, after = self.rest(section.more, section.topic, place)
                html += before.html, page.html, after.html
                text += before.text, page.text, after.text
            else:
                ending = self.ending(section.more, section.topic if section.more else "")
                html.append(ending.html)
                text.append(ending.text)
            number += papers
        papers_shown = [*chain.from_iterable([one.papers for one in plan])]
        return SectionPieces(b"".join(html).replace(TOKEN_MARK, token), text, papers_shown, words, lead)

    def lead_card(self, section: SectionPlan, row: CardRow, token: bytes) -> EncodedPair:
        """Return a section's first card without its title, which is the headline."""
        frame = self.cards.untitled_card(section.papers[0], section.forms[0], has_links=bool(token))
        card = frame.with_reason(row.html[REASON_PIECE], row.text[REASON_PIECE])
        (before, after), (text_before, text_after) = self.around_lead
        html = b"".join((before, *card.html, after)).replace(TOKEN_MARK, token)
        return EncodedPair(html, b"".join((text_before, *card.text, text_after)))

    def encode_row(
        self,
        canonical: str | None,
        papers: tuple[int, ...],
        forms: tuple[CardForm, ...],
        has_links: bool,  # noqa: FBT001 - part of the cache key
    ) -> CardRow:
        """Encode the cards of a section."""
        html: list[bytes] = []
        text: list[bytes] = []
        words = 0
        for card in self.cards.cards(papers, canonical, forms, has_links=has_links):
            html += card.html
            text += card.text
            words += card.words
        return CardRow(html, text, words)

    def encode_numbers(self, first: int, cards: int) -> tuple[list[bytes], list[bytes]]:
        """Encode the beginnings of a section's cards, numbered from `first`, in HTML and text."""
        numbers = [self.encode_number(first + row, row) for row in range(cards)]
        return [number.html for number in numbers], [number.text for number in numbers]

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
        """Encode the pieces before and after a first card whose title is the headline.

        The piece before the card ends with the card's number.
        """
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

    def encode_opening(
        self, place: int, topic: str, papers: int, matches: int, layout: Layout
    ) -> EncodedPair:
        """Encode the beginning of a section, preceded by a gap unless it is the first in the letter."""
        shown, topic_html = self.heading(topic, layout)
        share, share_html, share_text = self.share(papers, matches)
        topic_text = encode_quoted_printable(wrap(shown, measure=digest_page.heading_width(share)))
        name, underline = digest_page.anchor_name(place), digest_page.underline(shown, share)
        fixed = {b"name": encode_quoted_printable(name), b"underline": encode_quoted_printable(underline)}
        html, text = self.openings[place > 1 or layout is Layout.LED]
        return EncodedPair(
            html % {**fixed, b"topic": topic_html, b"share": share_html},
            text % {**fixed, b"topic": topic_text, b"share": share_text},
        )

    def encode_heading(self, topic: str, layout: Layout) -> tuple[str, bytes]:
        """Return the heading of a section as text and in encoded HTML."""
        shown = digest_page.section_heading(topic, layout)
        return shown, encode_quoted_printable(escape_html(shown))

    def encode_share(self, papers: int, matches: int) -> tuple[str, bytes, bytes]:
        """Return the phrase behind a heading as text, and its part of the section in HTML and text."""
        share = digest_page.share_of_matches(papers, matches)
        html, text = (
            optional_part(parts, "share", {"share": share}) for parts in (self.html_parts, self.text_parts)
        )
        return share, encode_quoted_printable(html), encode_quoted_printable(text)

    def encode_opening_format(self, *, has_gap: bool) -> EncodedPair:
        """Encode the beginning of a section with placeholders for the operator %."""
        return EncodedPair(
            *(
                encode_format(parts.get("gap") if has_gap else None)
                + encode_format(parts["section"], {"share", "card"}).partition(b"%(card)b")[0]
                for parts in (self.html_parts, self.text_parts)
            )
        )

    def encode_ending(self, more: int, topic: str) -> EncodedPair:
        """Encode the end of a section with the number of papers left out."""
        values = {"name": "", "topic": "", "share": "", "underline": "", "card": GAP_MARK}
        said = figures_in_words.more_papers(more, topic) if more else ""
        html = values | ({"more": self.html_parts["more"].fill({"more": escape_html(said)})} if said else {})
        text = values | ({"more": self.text_parts["more"].fill({"more": said})} if said else {})
        return EncodedPair(
            encode_quoted_printable(self.html_parts["section"].fill(html).partition(GAP_MARK)[2]),
            encode_quoted_printable(self.text_parts["section"].fill(text).partition(GAP_MARK)[2]),
        )

    def encode_overflow(self, more: int, topic: str, place: int) -> tuple[EncodedPair, EncodedPair]:
        """Encode the end of a section in two pieces: before and after the URL of its overflow page."""
        said = figures_in_words.see_more(more, topic)
        url = GAP_MARK.encode() + encode_quoted_printable(digest_page.overflow_url("", place))
        (before, after), (text_before, text_after) = (
            (ending % {b"rest": encode_quoted_printable(label), b"rest_url": url}).split(GAP_MARK.encode())
            for ending, label in zip(self.overflows, (escape_html(said), said), strict=True)
        )
        return EncodedPair(before, text_before), EncodedPair(after, text_after)

    def encode_overflow_format(self, parts: Parts) -> bytes:
        """Encode the end of a section that has an overflow page, with placeholders for the operator %."""
        end = encode_format(parts["section"], {"card", "rest"}).partition(b"%(card)b")[2]
        return end.replace(b"%(rest)b", encode_format(parts["rest"]))

    # ── sizes ─────────────────────────────────────────────────────────────────

    def measure_card(self, paper_id: int, canonical: str | None, form: CardForm, *, has_links: bool) -> int:
        """Return the HTML size of a card in bytes, including its number and the rule above it."""
        return self.cards.card(paper_id, canonical, form, has_links).size + self.start

    def measure_section(self, topic: str) -> int:
        """Return the HTML size of a section without its cards, in bytes."""
        return len(
            decode_quoted_printable(
                self.opening(2, topic, 100, 10_000, Layout.COUNTED).html + self.ending(0, "").html
            ).encode()
        )

    def measure_rest(self) -> int:
        """Return the HTML size of the line that links to the omitted papers, in bytes."""
        linked = (
            sum(
                len(decode_quoted_printable(piece.html).encode())
                for piece in self.encode_overflow(999, TRENDING_TOPIC, 99)
            )
            + MAX_URL_LENGTH
        )
        return linked - len(decode_quoted_printable(self.encode_ending(0, "").html).encode())


def append_cards(pieces: list[bytes], opening: bytes, cards: list[bytes], numbers: list[bytes]) -> None:
    """Append the beginning of a section and its cards to `pieces`; insert the numbers of the cards."""
    pieces.append(opening)
    start = len(pieces)
    pieces += cards
    pieces[start::CARD_PIECES] = numbers
