"""Write the digest letters of one press from the templates of the digest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import structs

from digest.editions.compose import Digest
from digest.letters import figures_in_words, subject_lines
from digest.letters.cards import Card, CardForm, display_title, make_card, printed_text
from digest.letters.headers import header_block, list_headers, reply_to
from digest.letters.letter_rendering import FILLER, Personalization
from digest.letters.letter_template import (
    PERSONAL_MARKS,
    LetterTemplate,
    encoded_by_mark,
    escape_html,
    filled,
)
from digest.letters.mime import RenderedLetter, decode_quoted_printable, mime_boundary, multipart_pieces
from digest.letters.press import digest_page as pages
from digest.letters.press.digest_page import NumberedTitle, PrintedPaper, TitleGroup
from digest.letters.press.press_value import Press
from digest.letters.press.size_budget import HTML_BYTES, Plan, full_plan, shorten_plan
from digest.letters.reason_lines import PrintedText
from digest.site import links
from digest.site.site_profile import Site

#: Maximum numbers of cached cards, reasons, rows of cards, and short texts that readers share.
CARDS_KEPT, REASONS_KEPT, ROWS_KEPT, WORDS_KEPT = 4096, 32_768, 16_384, 4096
#: Stand for the values of the reader with the longest ones when a digest is shortened.
LONGEST_VALUES = encoded_by_mark(
    {name: "x" * (60 if name == "paper_token" else 200) for name in PERSONAL_MARKS}
)
SPARE_BYTES = 12_000  #: more than the values of one reader take


class DigestTemplates(NamedTuple):
    """The compiled templates of the digest."""

    html: LetterTemplate
    text: LetterTemplate


class DigestLetters:
    """Writes the letters of one press for one site; it keeps what the letters share."""

    def __init__(self, press: Press, site: Site, templates: DigestTemplates):
        self.press, self.site, self.templates = press, site, templates
        self.samples = frozenset(paper.id for paper in press.papers if paper.is_sample)
        self.card = lru_cache(CARDS_KEPT)(self.make_card)
        self.reason = lru_cache(REASONS_KEPT)(partial(pages.reason_of, press))
        self.row = lru_cache(ROWS_KEPT)(self.make_row)
        self.untitled = lru_cache(CARDS_KEPT)(partial(replace, title=""))
        self.listed_title = lru_cache(WORDS_KEPT)(self.make_listed_title)
        self.title = lru_cache(CARDS_KEPT)(self.make_title)
        self.subject = lru_cache(WORDS_KEPT)(self.make_subject)
        self.preheader = lru_cache(WORDS_KEPT)(self.make_preheader)

    # ── one letter ──────────────────────────────────────────────────────────────────────────────

    def letter(self, digest: Digest, copy: Personalization) -> RenderedLetter:
        """Return the rendered digest letter of one reader."""
        subject, html, text = self.bodies(digest, copy)
        return RenderedLetter(
            subject=subject, html=decode_quoted_printable(html), text=decode_quoted_printable(text)
        )

    def message(self, digest: Digest, copy: Personalization) -> bytes:
        """Return the whole message (RFC 5322, CRLF); the same arguments give the same bytes."""
        subject, html, text = self.bodies(digest, copy)
        message_id = copy.message_id or links.message_id(self.site, f"delivery-{copy.delivery_id}")
        of_list = list_headers(
            self.site,
            copy.unsubscribe_url,
            unsubscribe_address=copy.unsubscribe_address,
            campaign=copy.edition,
        )
        top = header_block(
            site=self.site,
            recipient=copy.recipient,
            subject=subject,
            message_id=message_id,
            dated_at=copy.dated_at,
            headers=(*reply_to(copy.reply_address), *of_list),
        )
        return b"".join(multipart_pieces(top, mime_boundary(message_id), [text], [html]))

    def bodies(self, digest: Digest, copy: Personalization) -> tuple[str, bytes, bytes]:
        """Return the subject, and the encoded HTML and text of one reader."""
        own = {name: getattr(copy, name) for name in PERSONAL_MARKS}
        _, values, html = self.fitting_page(digest, copy)
        text = self.templates.text.render(values)
        in_text = encoded_by_mark(own)
        escaped = {name: escape_html(value) for name, value in own.items()}
        in_html = in_text if escaped == own else encoded_by_mark(escaped)
        return values["subject"], filled(html, in_html), filled(text, in_text)

    def fitting_page(self, digest: Digest, copy: Personalization) -> tuple[Plan, dict[str, Any], str]:
        """Return the plan, the values and the encoded HTML of a letter that mail programs show whole.

        The HTML has marks in place of the values of one reader. Its size is that of the letter of the reader
        with the longest values, so all readers of a digest get the same cards.
        """
        shared = masked(copy)
        plan = full_plan(digest, copy.filters)
        values = self.values(digest, shared, plan)
        html = self.templates.html.render(values)
        if len(html) <= HTML_BYTES - SPARE_BYTES:  # encoded, it is longer
            return plan, values, html

        def fits(plan: Plan) -> bool:
            page = self.templates.html.render(self.values(digest, shared, plan))
            return len(decode_quoted_printable(filled(page, LONGEST_VALUES)).encode()) <= HTML_BYTES

        plan = shorten_plan(plan, fits)
        values = self.values(digest, shared, plan)
        return plan, values, self.templates.html.render(values)

    def plain_values(self, digest: Digest, copy: Personalization) -> dict[str, Any]:
        """Return the values with which the plain templates render the letter of one reader."""
        plan, _, _ = self.fitting_page(digest, copy)
        return self.values(digest, copy, plan) | {"site": self.site, "filler": FILLER}

    # ── values ──────────────────────────────────────────────────────────────────────────────────

    def values(self, digest: Digest, copy: Personalization, plan: Plan) -> dict[str, Any]:
        """Return the values that the templates print, for one reader or with marks for their own values."""
        cadence = subject_lines.CATCH_UP if digest.is_catch_up else copy.edition.partition("-")[0]
        is_listed = pages.is_listed(plan, digest, cadence)
        papers = [paper for part in plan for paper in part.papers]
        rows, words = self.printed_papers(plan, copy.paper_token)
        lead = rows[0].pop(0)
        counts = pages.counts_line(digest, len(papers), words)
        has_filters = any(section.filter_id is not None for section in digest.sections)
        shares = bool(copy.browser_url) and has_filters  # on a page for people other than the reader
        topics = tuple([(part.topic, len(part.papers)) for part in plan])
        titles = self.title_groups(plan) if is_listed else ()
        links_of_html = len(papers) + sum(len(group.titles) for group in titles)
        # rspamd penalizes an odd number of links in both parts; each card has one more in the HTML part
        even = {"shows_site_url": True} if links_of_html % 2 else {}
        return even | {
            "subject": self.subject(cadence, papers[0], len(papers)),
            "preheader": self.preheader(tuple(papers[:3]), digest.is_catch_up) or counts,
            "headline": lead.paper.title,
            "lead": PrintedPaper(lead.number, self.untitled(lead.paper), lead.why, is_first=True),
            "lead_url": lead.paper.href,
            "titles": titles,
            "counts": counts,
            "note": self.press.note,
            "is_sample": not self.samples.isdisjoint(papers),
            "day": figures_in_words.weekday_and_day(copy.day),
            "next_due": copy.next_due_at
            and figures_in_words.next_digest(copy.next_due_at, copy.timezone, seen_from=copy.dated_at),
            "recipient": copy.recipient,
            "is_group": copy.is_group,
            "topics": pages.topics_line(tuple([part.topic for part in plan]) + digest.others, digest.silent),
            "manage_url": copy.manage_url,
            "unsubscribe_url": copy.unsubscribe_url,
            "browser_url": copy.browser_url,
            "has_save_line": bool(copy.paper_token) and digest.abstracts != "titles",
            "shares_topics": shares,
            "share_url": f"{copy.browser_url}{pages.SHARE_PATH}" if shares else f"{self.site.url}/",
            "anchors": () if is_listed else pages.anchors(topics),
            "sections": [
                (
                    pages.page_section(
                        place,
                        part.topic,
                        len(row),
                        part.matches - (place == 1),
                        part.more,
                        len(plan) == 1,
                        copy.browser_url,
                    ),
                    row,
                )
                for place, (part, row) in enumerate(zip(plan, rows, strict=True), start=1)
                if row or part.more
            ],
            "news": pages.followup_items(digest.news, self.site) if digest.news else (),
            # any member of a group could answer for the whole group
            "asks_still_reading": digest.asks_still_reading and not copy.is_group,
        }

    def printed_papers(self, plan: Plan, token: str) -> tuple[list[list[PrintedPaper]], int]:
        """Return the papers of each section as printed, and the number of words of all."""
        rows, words, number, has_numbers = [], 0, 1, self.site.takes_commands
        for part in plan:
            row, length = self.row(part.canonical, part.papers, part.forms, token, number == 1)
            if has_numbers:
                row = [PrintedPaper(at, *one[1:]) for at, one in enumerate(row, number)]
            rows.append([*row])
            words, number = words + length, number + len(row)
        return rows, words

    def title_groups(self, plan: Plan) -> tuple[TitleGroup, ...]:
        """Return the list of titles for the top of a long digest, by topic."""
        counts = [len(part.papers) for part in plan]
        starts = accumulate(counts, initial=1)
        return tuple(
            [
                TitleGroup(
                    name=pages.anchor_name(place, count),
                    topic=pages.heading(part.topic) if len(plan) > 1 else "",
                    papers=count,
                    titles=tuple([self.listed_title(*one) for one in enumerate(part.papers[:listed], first)]),
                    more=figures_in_words.numbers_below(first + listed, first + count - 1)
                    if count > listed
                    else "",
                )
                for place, (part, count, listed, first) in enumerate(
                    zip(plan, counts, pages.titles_per_topic(counts), starts, strict=False), start=1
                )
            ]
        )

    # ── values that letters share ───────────────────────────────────────────────────────────────

    def make_card(self, rank: int, form: CardForm, token: str) -> tuple[Card, int, PrintedText]:
        """Return a card without its reason, the number of its words, and what it prints of the paper."""
        paper = self.press.papers[rank]
        save, less = (
            (links.save_prefix(self.site, token), links.feedback_prefix(self.site, token))
            if token
            else ("", "")
        )
        page = links.paper_url(self.site, paper.id)
        card = make_card(
            paper,
            page=page,
            form=form,
            save_url=save,
            less_url=less,
            today=self.press.as_of.astimezone(UTC).date(),
        )
        words = len(card.title.split()) + len(card.abstract.split())
        return card, words, printed_text(paper, form)

    def make_row(
        self,
        canonical: str | None,
        papers: tuple[int, ...],
        forms: tuple[CardForm, ...],
        token: str,
        has_lead: bool,  # noqa: FBT001 - part of the cache key
    ) -> tuple[list[PrintedPaper], int]:
        """Return the papers of a section, whose first may be above all sections, and the number of their words."""
        ranks = [*map(self.press.rank_of_paper.__getitem__, papers)]
        clauses = pages.matched_clauses(self.press, ranks, canonical).get
        row, length = [], 0
        for place, (rank, form) in enumerate(zip(ranks, forms, strict=True)):
            card, words, printed = self.card(rank, form, token)
            why = self.reason(rank, clauses(rank, ()), printed)
            row.append(PrintedPaper(0, card, why, place <= has_lead))
            length += words
        return row, length

    def make_listed_title(self, number: int, paper: int) -> NumberedTitle:
        """Return one title of the list at the top."""
        card, *_ = self.card(self.press.rank_of_paper[paper], CardForm.LINE, "")
        return NumberedTitle(number, card.title, card.href)

    def make_title(self, paper: int) -> str:
        """Return a paper's title as letters print it."""
        return display_title(self.press.papers[self.press.rank_of_paper[paper]])

    def make_subject(self, cadence: str, lead: int, count: int) -> str:
        """Return the subject of a letter that begins with the paper `lead`."""
        return subject_lines.subject(cadence, self.title(lead), count)

    def make_preheader(self, papers: tuple[int, ...], is_catch_up: bool) -> str:  # noqa: FBT001 - part of the cache key
        """Return the preheader, which names some of the first papers, or "" if it can name none."""
        named = [
            *map(self.title, papers[:2] if is_catch_up else papers[1:])
        ]  # that the subject does not name
        return subject_lines.preheader(named, is_catch_up=is_catch_up) if named else ""


def masked(copy: Personalization) -> Personalization:
    """Return a copy of the values in which marks stand for those of one reader."""
    return structs.replace(
        copy, **{name: mark for name, mark in PERSONAL_MARKS.items() if getattr(copy, name)}
    )
