"""Assemble digest letters from parts that are filled, escaped and encoded once.

A letter is joined from quoted-printable pieces, which can be joined in any order (letters.mime). Only a
few values differ between copies. Cards are cached by paper and matching clauses, because many filters
share the same cards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache, partial
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from digest import links
from digest.caches import Caches
from digest.editions.compose import Digest, FollowUp
from digest.letters import (
    Personalization,
    RenderedLetter,
    figures_in_words,
    list_headers,
    reply_to,
    subject_lines,
)
from digest.letters.cards import CardForm
from digest.letters.headers import header_block, one_line, subject_line
from digest.letters.line_wrapping import keep_figures, wrap
from digest.letters.mime import (
    MAX_LINE_LENGTH,
    SOFT_BREAK,
    decode_quoted_printable,
    encode_quoted_printable,
    mime_boundary,
    multipart_pieces,
)
from digest.letters.piece_templates import PieceTemplate, Placeholder, escape_html, placeholder_mark
from digest.letters.press import digest_page, size_budget
from digest.letters.press.card_pieces import Parts, separator_part
from digest.letters.press.digest_page import DigestPage, FollowUpItem, Layout
from digest.letters.press.press_value import Press
from digest.letters.press.section_pieces import (
    EMPTY_PAIR,
    GAP_MARK,
    EncodedPair,
    SectionPieces,
    SectionRenderer,
)
from digest.letters.press.size_budget import SectionPlan
from digest.site_profile import Site

#: Maximum number of cached bodies without sections, about 8 KB each. A run has one per schedule and layout.
OUTERS_CACHED = 256
WORDS_CACHED = 4096  #: maximum number of cached short strings; many readers share most of them
#: Upper bounds, in bytes, of nearly all title lines and of nearly all sections without their cards. If a
#: digest fits in the budget even with these sizes, its real size is not measured.
MAX_CARD_BYTES, MAX_SECTION_BYTES = 2000, 1500
SHARE_PATH = encode_quoted_printable(digest_page.SHARE_PATH)
NEEDS_NO_ENCODING = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_:/@.-]*"
)  #: matches text that needs no escaping or encoding
VALUES_BYTES = 3000  #: number of bytes of the size budget reserved for personal values


#: The names of the parts of the page that are omitted if empty.
OPTIONAL_PARTS = frozenset(
    {
        "next", "anchors", "browser", "sample", "note", "news", "offer", "lead", "lead_link", "lead_end", "titles",
        "save_line",
    }
)  # fmt: skip


OWN_LINKS = "own_links"  #: the name of the part with the links that belong to one reader
PARTS_OF_SOME = ("news", "offer", "sample")
PARTS_OF_LEAD = ("lead", "lead_link", "lead_end")


class LetterPieces(Struct, frozen=True):
    """The encoded pieces of one letter."""

    subject: str
    header: bytes  #: the value of the Subject header
    html: list[bytes]  #: the HTML body
    text: list[bytes]


SECTIONS = "section"  #: the name of the part that is repeated for each section
MAX_PRESSES = 4  #: maximum number of cached presses: today's press, the previous one, and two for retries


def assembler_of(press: Press, site: Site, caches: Caches) -> LetterAssembler:
    """Return the assembler of this press and site, cached if it was used recently."""
    return caches.get_or_make(
        "letter assembler", (press.name, site), lambda: LetterAssembler(press, site), bound=MAX_PRESSES
    )


class OuterTemplate:
    """One body without its sections: encoded pieces, and the names of values and parts to insert."""

    def __init__(self, pieces: Sequence[bytes | str]):
        self.pieces = pieces
        self.names = tuple(
            (place, piece)
            for place, piece in enumerate(pieces)
            if isinstance(piece, str) and piece != SECTIONS
        )
        self.section = pieces.index(SECTIONS)
        self.literals = [piece if isinstance(piece, bytes) else b"" for piece in pieces]

    def fill(self, values: Mapping[str, EncodedPair], side: int) -> OuterTemplate:
        """Return the template with these values inserted; `side` selects HTML (0) or text (1) of a pair."""
        made: list[bytes | str] = []
        for piece in self.pieces:
            known = piece if isinstance(piece, bytes) else values[piece][side] if piece in values else None
            if known is None:
                made.append(piece)
            elif made and isinstance(last := made[-1], bytes):
                made[-1] = last + known
            else:
                made.append(known)
        return OuterTemplate(made)

    def joined(self, values: Mapping[str, EncodedPair], sections: list[bytes], side: int) -> list[bytes]:
        """Return the pieces of a whole body; `side` selects HTML (0) or text (1) of each pair."""
        made = self.literals.copy()
        for place, name in self.names:
            made[place] = values[name][side]
        made[self.section : self.section + 1] = sections
        return made


def outer_pieces(template: PieceTemplate, *, is_group: bool) -> list[bytes | str]:
    """Return the encoded pieces of a body, with a name for each placeholder and optional part.

    The part with a reader's own links is left out of letters to a group.
    """
    found: list[bytes | str] = []
    for piece in template.pieces:
        if isinstance(piece, str):
            found.append(encode_quoted_printable(piece))
        elif isinstance(piece, PieceTemplate) and piece.name == OWN_LINKS:
            found += [] if is_group else outer_pieces(piece, is_group=is_group)
        elif isinstance(piece, Placeholder) or piece.name in OPTIONAL_PARTS or piece.name == SECTIONS:
            found.append(piece.name)
    return found


class LetterAssembler:
    """Assembles the letters of one press for one site, and caches the pieces that they share."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.sections = SectionRenderer(press, site)
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        own_links = self.html_parts.get(OWN_LINKS, PieceTemplate(OWN_LINKS))
        literals = (piece for piece in (*press.html.pieces, *own_links.pieces) if isinstance(piece, str))
        self.cards_budget = (
            size_budget.HTML_BYTES - VALUES_BYTES - sum(len(piece.encode()) for piece in literals)
        )
        self.samples = frozenset(paper.id for paper in press.papers if paper.is_sample)
        self.sample, self.save_line = map(self.encode_fixed_part, ("sample", "save_line"))
        self.outer = {
            is_group: [
                OuterTemplate(outer_pieces(body, is_group=is_group)).fill({"note": self.encode_note()}, side)
                for side, body in enumerate((press.html, press.text))
            ]
            for is_group in (False, True)
        }
        self.front_page = encode_words(f"{site.url}/")
        self.around_page = self.encode_browser_link()
        self.letterhead = lru_cache(WORDS_CACHED)(self.encode_headers)
        self.topics = lru_cache(WORDS_CACHED)(self.encode_topics)
        self.anchor = lru_cache(WORDS_CACHED)(self.encode_anchor)
        self.around_anchors = self.encode_around_anchors()
        self.around = lru_cache(OUTERS_CACHED)(self.fill_outer)
        self.title = lru_cache(WORDS_CACHED)(partial(digest_page.title_of, press))
        self.subject = lru_cache(WORDS_CACHED)(self.encode_subject)
        self.named_papers = lru_cache(WORDS_CACHED)(self.encode_named_papers)
        self.news = lru_cache(WORDS_CACHED)(self.encode_followups)
        self.lead_headline = lru_cache(WORDS_CACHED)(self.encode_lead_headline)
        self.listed_title, self.around_titles = (
            lru_cache(WORDS_CACHED)(self.encode_listed_title),
            lru_cache(WORDS_CACHED)(self.encode_around_titles),
        )
        self.lead_end = EncodedPair(encode_quoted_printable(separator_part(self.html_parts, "lead_end")), b"")

    # ── one letter ──────────────────────────────────────────────────────────────────────────────

    def letter(self, digest: Digest, copy: Personalization) -> RenderedLetter:
        """Return the rendered digest letter of one reader."""
        pieces = self.assemble(digest, copy)
        return RenderedLetter(
            subject=pieces.subject,
            html=decode_quoted_printable(b"".join(pieces.html)),
            text=decode_quoted_printable(b"".join(pieces.text)),
        )

    def message(self, digest: Digest, copy: Personalization) -> bytes:
        """Return the whole message (RFC 5322, CRLF); the same arguments give the same bytes."""
        pieces = self.assemble(digest, copy)
        message_id = copy.message_id or links.message_id(self.site, f"delivery-{copy.delivery_id}")
        optional = bool(copy.unsubscribe_url), bool(copy.unsubscribe_address), bool(copy.reply_address)
        top = self.letterhead(copy.edition, copy.dated_at, optional) % {
            b"to": one_line(copy.recipient).encode(),
            b"subject": pieces.header,
            b"id": message_id.encode(),
            b"unsubscribe": copy.unsubscribe_url.encode(),
            b"mailto": copy.unsubscribe_address.encode(),
            b"reply": copy.reply_address.encode(),
        }
        return b"".join(multipart_pieces(top, mime_boundary(message_id), pieces.text, pieces.html))

    def page(self, digest: Digest, copy: Personalization) -> DigestPage:
        """Return the content of the letter as a value, to be rendered later."""
        plan = self.plan(digest, copy.filters, copy.edition, has_links=bool(copy.paper_token))
        return digest_page.make_page(self.press, self.site, plan, digest, copy)

    def fit(self, digest: Digest, filters: Mapping[int, str], edition: str) -> Digest:
        """Return the digest without the papers that do not fit into the letter, even as title lines.

        The removed papers are counted but not recorded as shown, so the next digest may show them.
        """
        most = digest.size * MAX_CARD_BYTES + len(digest.sections) * MAX_SECTION_BYTES
        if most < size_budget.HTML_BYTES // 2 and not digest.news:
            return digest
        kept = {one.papers[0]: one for one in self.plan(digest, filters, edition, has_links=True)}
        left = [
            (section, kept[section.papers[0]]) for section in digest.sections if section.papers[0] in kept
        ]
        sections = [section._replace(papers=one.papers, more=one.more) for section, one in left]
        return replace(digest, sections=tuple(sections))

    def assemble(self, digest: Digest, copy: Personalization) -> LetterPieces:
        """Return the encoded pieces of one letter."""
        cadence = digest_page.cadence_of(copy.edition, is_catch_up=digest.is_catch_up)
        plan = size_budget.full_plan(digest, copy.filters)
        layout = digest_page.layout_of(self.press, plan, digest, cadence)
        page = encode_words(copy.browser_url)
        token = encode_words(copy.paper_token).html
        sections = self.sections.render_sections(plan, page, layout, token)
        news = self.news(digest.news) if digest.news else EMPTY_PAIR
        titles = self.encode_titles(plan) if layout is Layout.LISTED else EMPTY_PAIR
        if (
            sections.octets + len(news.html) + len(titles.html) > self.cards_budget
        ):  # cheap first test: the encoded size is at least the decoded size
            plan = self.plan(digest, copy.filters, copy.edition, has_links=bool(token))
            layout = digest_page.layout_of(self.press, plan, digest, cadence)
            sections = self.sections.render_sections(plan, page, layout, token)
            titles = self.encode_titles(plan) if layout is Layout.LISTED else EMPTY_PAIR
        return self.surround(sections, plan, layout, cadence, digest, copy, page=page, titles=titles)

    def surround(
        self,
        sections: SectionPieces,
        plan: Sequence[SectionPlan],
        layout: Layout,
        cadence: str,
        digest: Digest,
        copy: Personalization,
        *,
        page: EncodedPair,
        titles: EncodedPair,
    ) -> LetterPieces:
        """Return the pieces of a letter with these sections."""
        papers = sections.papers
        asked, anchors = self.topics(
            tuple([(section.topic, len(section.papers)) for section in plan]),
            digest.others,
            digest.silent,
            copy.is_group,
        )
        line = checked(digest.checked, sections.words)
        subject, header, titled = self.subject(cadence, papers[0], len(papers))
        link, headline = (
            self.lead_headline(papers[0])
            if layout is Layout.LED
            else (
                EMPTY_PAIR,
                encode_words_cached(digest_page.headline(digest, cadence, copy.day, len(papers))),
            )
        )
        is_plain = not digest.news and self.samples.isdisjoint(papers)
        has_question = digest_page.asks_still_reading(digest, copy)
        shares_topics = digest_page.shares_topics(digest, copy)
        outer_html, outer_text = self.around(
            layout,
            copy.day,
            copy.next_due_at,
            copy.timezone,
            copy.dated_at,
            digest_page.has_save_line(digest, copy),
            digest_page.share_label(shares_topics=shares_topics, is_group=copy.is_group),
            is_plain and not has_question,
            copy.is_group,
        )
        values = {
            "browser": self.browser_link(page) if copy.browser_url else EMPTY_PAIR,
            "subject": titled,
            "preheader": self.encode_preheader(papers, line, is_catch_up=digest.is_catch_up),
            "headline": headline,
            "lead_link": link,
            "lead_end": self.lead_end,
            "lead": sections.lead,
            "titles": titles,
            "checked": encode_words_cached(line),
            "recipient": encode_words(copy.recipient),
            "asked": asked,
            "anchors": EMPTY_PAIR if layout is Layout.LISTED else anchors,
            "share_url": EncodedPair(page.html + SHARE_PATH, page.text + SHARE_PATH)
            if shares_topics
            else self.front_page,
            "manage_url": encode_words(copy.manage_url),
            "unsubscribe_url": encode_words(copy.unsubscribe_url),
        }
        if not is_plain or has_question:
            values["news"] = self.news(digest.news)
            values["sample"] = EMPTY_PAIR if self.samples.isdisjoint(papers) else self.sample
            values["offer"] = self.encode_question(copy) if has_question else EMPTY_PAIR
        return LetterPieces(
            subject,
            header,
            outer_html.joined(values, [sections.html], 0),
            outer_text.joined(values, sections.text, 1),
        )

    def fill_outer(  # noqa: PLR0913, PLR0917 - the arguments are the cache key
        self,
        layout: Layout,
        day: date,
        next_due_at: datetime | None,
        timezone: str,
        dated_at: datetime,
        has_save_line: bool,  # noqa: FBT001 - part of the cache key
        share: str,
        is_plain: bool,  # noqa: FBT001 - part of the cache key
        is_group: bool,  # noqa: FBT001 - part of the cache key
    ) -> list[OuterTemplate]:
        """Return the HTML and the text around the sections, filled with the values that many letters share.

        A plain letter has no updates, no question and no invented papers.
        """
        values = {
            "day": encode_words(figures_in_words.weekday_and_day(day)),
            "next": self.encode_next_due(next_due_at, timezone, dated_at) if next_due_at else EMPTY_PAIR,
            "forwarded": encode_words(digest_page.share_question(is_group=is_group)),
            "share": encode_words(share),
            "save_line": self.save_line if has_save_line else EMPTY_PAIR,
        }
        left_out = (
            *(PARTS_OF_SOME if is_plain else ()),
            *(() if layout is Layout.LED else PARTS_OF_LEAD),
            *(() if layout is Layout.LISTED else ("titles",)),
        )
        values |= dict.fromkeys(left_out, EMPTY_PAIR)
        return [outer.fill(values, side) for side, outer in enumerate(self.outer[is_group])]

    def plan(
        self, digest: Digest, filters: Mapping[int, str], edition: str, *, has_links: bool
    ) -> list[SectionPlan]:
        """Return the papers that fit the letter's size budget, each with its card form."""
        cadence = digest_page.cadence_of(edition, is_catch_up=digest.is_catch_up)
        plan = size_budget.full_plan(digest, filters)
        layout = digest_page.layout_of(self.press, plan, digest, cadence)
        titles = self.encode_titles(plan) if layout is Layout.LISTED else EMPTY_PAIR
        return size_budget.shorten_plan(
            plan,
            max_bytes=self.cards_budget - len(self.news(digest.news).html) - len(titles.html),
            measure=partial(self.sections.measure_card, has_links=has_links),
            section_size=self.measure_section,
            overflow_size=self.sections.counting,
        )

    def measure_section(self, topic: str) -> int:
        """Return the HTML size of a section in bytes, without cards but with the link to it at the top."""
        link = self.around_anchors[1] + self.anchor(3, topic, 99)
        return self.sections.measure_section(topic) + len(decode_quoted_printable(link).encode())

    def encode_headers(self, edition: str, dated_at: datetime, optional: tuple[bool, bool, bool]) -> bytes:
        """Encode the headers of an edition's messages, with placeholders for the personal values.

        `optional` states whether the headers have an unsubscribe link, an unsubscribe address and a reply
        address.
        """
        marks = {
            name: placeholder_mark(name) for name in ("to", "subject", "id", "unsubscribe", "mailto", "reply")
        }
        has_link, has_address, has_reply_address = optional
        block = header_block(
            site=self.site,
            recipient=marks["to"],
            subject=marks["subject"],
            message_id=marks["id"],
            dated_at=dated_at,
            headers=(
                *reply_to(marks["reply"] if has_reply_address else ""),
                *list_headers(
                    self.site,
                    marks["unsubscribe"] if has_link else "",
                    unsubscribe_address=marks["mailto"] if has_address else "",
                    campaign=edition,
                ),
            ),
        ).replace(b"%", b"%%")
        for name, mark in marks.items():
            block = block.replace(mark.encode(), f"%({name})b".encode())
        return block

    # ── pieces that many letters share ──────────────────────────────────────────────────────────

    def encode_topics(
        self,
        topics: tuple[tuple[str, int], ...],
        others: tuple[str, ...],
        silent: tuple[str, ...],
        is_group: bool,  # noqa: FBT001 - part of the cache key
    ) -> tuple[EncodedPair, EncodedPair]:
        """Encode the reason why the reader gets this letter, and the links to its sections.

        The links are omitted from the text part and from letters with one section.
        """
        named = tuple(topic for topic, _ in topics) + others
        said = digest_page.subscription_reason(named, silent, is_group=is_group)
        return (
            EncodedPair(encode_quoted_printable(escape_html(said)), encode_quoted_printable(wrap(said))),
            EncodedPair(self.encode_anchors(topics), b"") if len(topics) > 1 else EMPTY_PAIR,
        )

    def encode_anchors(self, topics: Sequence[tuple[str, int]]) -> bytes:
        """Encode the links to the sections in HTML."""
        before, between, after = self.around_anchors
        links = [self.anchor(place, *one) for place, one in enumerate(topics, start=1)]
        return before + between.join(links) + after

    def encode_around_anchors(self) -> tuple[bytes, bytes, bytes]:
        """Encode the pieces before, between and after the links to the sections."""
        before, after = self.html_parts["anchors"].fill({"anchor": GAP_MARK}).split(GAP_MARK)
        between = separator_part(self.html_parts, "between")
        return (
            encode_quoted_printable(before),
            encode_quoted_printable(between),
            encode_quoted_printable(after),
        )

    def encode_anchor(self, place: int, topic: str, papers: int) -> bytes:
        """Encode the link to one section in HTML."""
        one = digest_page.anchor(place, topic, papers)
        values = {"name": one.name, "topic": escape_html(one.topic), "count": one.count}
        return encode_quoted_printable(self.html_parts["anchor"].fill(values))

    def encode_note(self) -> EncodedPair:
        """Encode the note of the press, if the templates have a part for it."""
        note = self.press.note
        if not note:
            return EMPTY_PAIR
        html, text = self.html_parts.get("note"), self.text_parts.get("note")
        return EncodedPair(
            encode_quoted_printable(html.fill({"note": escape_html(keep_figures(note))})) if html else b"",
            encode_quoted_printable(text.fill({"note": wrap(note)})) if text else b"",
        )

    def encode_followups(self, news: tuple[FollowUp, ...]) -> EncodedPair:
        """Encode the updates to papers of earlier digests, if the templates have a part for them."""
        html, text = self.html_parts.get("news"), self.text_parts.get("news")
        items = digest_page.followup_items(news, self.site)
        if not items:
            return EMPTY_PAIR
        return EncodedPair(
            encode_quoted_printable(html.fill({"item": "".join(map(self.html_followup, items))}))
            if html
            else b"",
            encode_quoted_printable(text.fill({"item": "".join(map(self.text_followup, items))}))
            if text
            else b"",
        )

    def html_followup(self, item: FollowUpItem) -> str:
        """Return one update in HTML."""
        values = {
            "href": escape_html(item.href),
            "title": escape_html(item.title),
            "text": escape_html(item.text),
        }
        return self.html_parts["item"].fill(values)

    def text_followup(self, item: FollowUpItem) -> str:
        """Return one update in plain text."""
        values = {"href": item.href, "title": wrap(item.title), "text": wrap(item.text)}
        return self.text_parts["item"].fill(values)

    def encode_question(self, copy: Personalization) -> EncodedPair:
        """Encode the question at the end of a digest, if the templates have a part for it."""
        html, text = self.html_parts.get("offer"), self.text_parts.get("offer")
        said, label = figures_in_words.still_reading_question(), figures_in_words.KEEP_DIGESTS
        url = copy.manage_url
        in_html = {
            "offer": escape_html(said),
            "offer_label": escape_html(label),
            "offer_url": escape_html(url),
        }
        in_text = {"offer": wrap(said), "offer_label": label, "offer_url": url}
        return EncodedPair(
            encode_quoted_printable(html.fill(in_html)) if html else b"",
            encode_quoted_printable(text.fill(in_text)) if text else b"",
        )

    def encode_next_due(self, due_at: datetime, timezone: str, dated_at: datetime) -> EncodedPair:
        """Encode the line with the time of the next digest."""
        said = figures_in_words.moment_in_words(due_at, timezone, seen_from=dated_at)
        return EncodedPair(
            encode_quoted_printable(
                self.html_parts["next"].fill({"next_due": escape_html(keep_figures(said))})
            ),
            encode_quoted_printable(self.text_parts["next"].fill({"next_due": said})),
        )

    def encode_browser_link(self) -> tuple[list[bytes], list[bytes]]:
        """Return the pieces around the URL of this digest on the web, in HTML and text."""
        parts = self.html_parts["browser"], self.text_parts["browser"]
        html, text = (part.fill({"browser_url": GAP_MARK}).split(GAP_MARK) for part in parts)
        return list(map(encode_quoted_printable, html)), list(map(encode_quoted_printable, text))

    def browser_link(self, page: EncodedPair) -> EncodedPair:
        """Return the link to this digest on the web."""
        html, text = self.around_page
        return EncodedPair(page.html.join(html), page.text.join(text))

    def encode_fixed_part(self, name: str) -> EncodedPair:
        """Encode a part that contains no values; the result is empty if the templates have no such part."""
        html, text = (separator_part(parts, name) for parts in (self.html_parts, self.text_parts))
        return EncodedPair(encode_quoted_printable(html), encode_quoted_printable(text))

    def encode_subject(self, cadence: str, lead: int, count: int) -> tuple[str, bytes, EncodedPair]:
        """Return the subject as text, as a header value, and as the encoded title of the page."""
        subject = subject_lines.subject(cadence, self.title(lead), count)
        return subject, subject_line(subject).encode(), encode_words(subject)

    def encode_preheader(self, papers: Sequence[int], checked: str, *, is_catch_up: bool) -> EncodedPair:
        """Encode the preheader, which names some of the first papers, or `checked` if it can name none."""
        named = digest_page.papers_in_preheader(papers, is_catch_up=is_catch_up)
        return self.named_papers(tuple(named), is_catch_up) if named else encode_words_cached(checked)

    def encode_named_papers(self, papers: tuple[int, ...], is_catch_up: bool) -> EncodedPair:  # noqa: FBT001 - part of the cache key
        """Encode the preheader that names these papers."""
        titles = [*map(self.title, papers)]
        return encode_words(subject_lines.preheader(titles, is_catch_up=is_catch_up))

    def encode_lead_headline(self, paper: int) -> tuple[EncodedPair, EncodedPair]:
        """Encode the opening of the headline's link, and the headline, which is the paper's title."""
        card = digest_page.card_of_paper(self.press, self.site, paper, None, CardForm.LINE)
        link = self.html_parts["lead_link"].fill({"lead_url": escape_html(card.href)})
        return (
            EncodedPair(encode_quoted_printable(link), b""),
            EncodedPair(
                encode_quoted_printable(escape_html(card.title)), encode_quoted_printable(wrap(card.title))
            ),
        )

    def encode_titles(self, plan: Sequence[SectionPlan]) -> EncodedPair:
        """Encode the list of titles at the top of a long digest."""
        counts = [len(section.papers) for section in plan]
        found: list[EncodedPair] = []
        last = 0
        for place, listed in enumerate(digest_page.titles_per_topic(counts)):
            section, papers = plan[place], counts[place]
            lines = map(self.listed_title, count(last + 1), section.papers[:listed])
            last += papers
            before, after = self.around_titles(
                place + 1,
                section.topic if len(plan) > 1 else "",
                papers,
                digest_page.unlisted_titles(papers - listed, last),
            )
            found += before, *lines, after
        return EncodedPair(b"".join([one.html for one in found]), b"".join([one.text for one in found]))

    def encode_around_titles(
        self, place: int, topic: str, papers: int, more: str
    ) -> tuple[EncodedPair, EncodedPair]:
        """Encode the pieces before and after the titles of one topic; without a name, it has no heading."""
        one = digest_page.anchor(place, topic, papers)
        values = {"name": one.name, "count": one.count, "more": more}
        (before, after), (text_before, text_after) = (
            self.fill_around_titles(parts, {**values, "topic": shown}, has_topic=bool(topic))
            for parts, shown in (
                (self.html_parts, escape_html(one.topic)),
                (self.text_parts, wrap(one.topic)),
            )
        )
        return EncodedPair(before, text_before), EncodedPair(after, text_after)

    def fill_around_titles(
        self, parts: Parts, values: Mapping[str, str], *, has_topic: bool
    ) -> tuple[bytes, bytes]:
        """Encode what one body has before and after the titles of one topic."""
        nested = {
            "listed": GAP_MARK,
            "listed_topic": parts["listed_topic"].fill(values) if has_topic else "",
            "unlisted": parts["unlisted"].fill(values) if values["more"] else "",
        }
        before, after = parts["titles"].fill(nested).split(GAP_MARK)
        return encode_quoted_printable(before), encode_quoted_printable(after)

    def encode_listed_title(self, number: int, paper: int) -> EncodedPair:
        """Encode one title of the list."""
        card = digest_page.card_of_paper(self.press, self.site, paper, None, CardForm.LINE)
        values = {"number": str(number), "href": escape_html(card.href), "title": escape_html(card.title)}
        html = self.html_parts["listed"].fill(values)
        text = self.text_parts["listed"].fill({**values, "href": card.href, "title": wrap(card.title)})
        return EncodedPair(encode_quoted_printable(html), encode_quoted_printable(text))


# ── texts as pieces ─────────────────────────────────────────────────────────────────────────────


def encode_words(text: str) -> EncodedPair:
    """Encode a short string for both bodies; addresses and URLs need neither escaping nor encoding."""
    if not text:
        return EMPTY_PAIR
    if NEEDS_NO_ENCODING.fullmatch(text):
        encoded = text.encode() + SOFT_BREAK if len(text) < MAX_LINE_LENGTH else encode_quoted_printable(text)
        return EncodedPair(encoded, encoded)
    shown = escape_html(text)
    encoded = encode_quoted_printable(text)
    return EncodedPair(encoded if shown == text else encode_quoted_printable(shown), encoded)


encode_words_cached = lru_cache(WORDS_CACHED)(encode_words)
checked = lru_cache(WORDS_CACHED)(figures_in_words.checked_line)
