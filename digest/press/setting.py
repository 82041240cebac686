"""Setting letters: whatever stands in many of them is filled, escaped and encoded once.

A letter is joined from pieces of quoted-printable, which may be put one after the other in any
order (rendering.mime). What differs from copy to copy are a few slots; cards are kept by paper
and filter, since many readers hold the same filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from digest import links
from digest.composition import Digest, FollowUp
from digest.links import Site
from digest.press import budget, pages
from digest.press.budget import Planned
from digest.press.cards import Cards, between
from digest.press.pages import NewsItem, Page
from digest.press.presses import Press
from digest.rendering import Copy, Letter, list_headers, words
from digest.rendering.cards import Form
from digest.rendering.headers import head, one_line, subject_line
from digest.rendering.mime import boundary, enveloped, unwired, wire
from digest.rendering.stencils import Slot, Stencil, escaped, slot
from digest.rendering.words import wrapped

WORDS_KEPT = 4096
#: Bytes that hardly any title line, and hardly any section around its cards, takes; far fewer than fit are
#: not even measured.
LONGEST_LINE, LONGEST_FRAME = 2000, 1500
LONGEST_URL = 200  #: bytes of the address under which a digest is read in a browser, or about
VALUES = 3000  #: bytes set aside for what differs from copy to copy
GAP = "\0"  #: stands where a filled part will be parted again; no text has it


class Pair(NamedTuple):
    """One piece of a letter, encoded for both of its bodies."""

    html: bytes
    text: bytes


NOTHING = Pair(b"", b"")
#: Parts of the page that are left out unless there is something to say.
OPTIONAL = frozenset({"next", "anchors", "browser", "sample", "note", "news", "offer"})


class Told(NamedTuple):
    """What stands around the sections."""

    subject: str
    header: bytes  #: the subject, as its header has it
    values: dict[str, Pair]
    html: list[bytes]  #: the sections
    text: list[bytes]


def digest_letter(press: Press, site: Site, digest: Digest, copy: Copy) -> Letter:
    """Return the digest as its reader sees it."""
    made = setter(press, site)
    told = made.tell(digest, copy)
    return Letter(
        subject=told.subject,
        html=unwired(b"".join(made.html.joined(told.values, told.html, 0))),
        text=unwired(b"".join(made.text.joined(told.values, told.text, 1))),
    )


def digest_message(press: Press, site: Site, digest: Digest, copy: Copy) -> bytes:
    """Return the whole message (RFC 5322, CRLF); the same press, digest and copy give the same bytes."""
    made = setter(press, site)
    told = made.tell(digest, copy)
    message_id = copy.message_id or links.message_id(site, f"delivery-{copy.delivery_id}")
    top = made.letterhead(copy.edition, copy.dated_at, bool(copy.leave_address)) % {
        b"to": one_line(copy.recipient).encode(),
        b"subject": told.header,
        b"id": message_id.encode(),
        b"way": copy.unsubscribe_url.encode(),
        b"leave": copy.leave_address.encode(),
    }
    text, html = made.text.joined(told.values, told.text, 1), made.html.joined(told.values, told.html, 0)
    return b"".join(enveloped(top, boundary(message_id), text, html))


def page(press: Press, site: Site, digest: Digest, copy: Copy) -> Page:
    """Return what the letter says, before it is set."""
    return pages.page(press, site, setter(press, site).plan(digest, copy), digest, copy)


def fitted(press: Press, site: Site, digest: Digest, filters: Mapping[int, str]) -> Digest:
    """Return the digest without the papers that no letter has room for, not even for their titles.

    They are counted, and were not shown: they may come in the next one.
    """
    if (
        digest.size * LONGEST_LINE + len(digest.sections) * LONGEST_FRAME < budget.HTML_BYTES // 2
        and not digest.news
    ):
        return digest
    made = setter(press, site)
    plan = budget.shortened(
        budget.whole(digest, filters),
        room=made.room - len(made.news(digest.news).html),
        measure=made.measure,
        frame=made.frame,
        rest=made.counting,
    )
    kept = {one.papers[0]: one for one in plan}
    left = [(section, kept[section.papers[0]]) for section in digest.sections if section.papers[0] in kept]
    sections = [section._replace(papers=tuple(one.papers), more=one.more) for section, one in left]
    return replace(digest, sections=tuple(sections))


def setter(press: Press, site: Site) -> Setter:
    """Return the setter of this press, kept with it as long as the site is the same."""
    kept: Setter | None = press.__dict__.get("setter")
    if kept is None or (kept.site is not site and kept.site != site):
        kept = press.__dict__["setter"] = Setter(press, site)
    return kept


class Shell:
    """What stands around the sections in one body: literals, encoded once, and places for the rest."""

    def __init__(self, stencil: Stencil):
        self.literals = [wire(piece) if isinstance(piece, str) else b"" for piece in stencil.pieces]
        self.places = tuple(
            (place, piece.name)
            for place, piece in enumerate(stencil.pieces)
            if isinstance(piece, Slot) or (isinstance(piece, Stencil) and piece.name in OPTIONAL)
        )
        self.section = next(
            place
            for place, piece in enumerate(stencil.pieces)
            if isinstance(piece, Stencil) and piece.name == "section"
        )

    def joined(self, values: Mapping[str, Pair], sections: list[bytes], side: Literal[0, 1]) -> list[bytes]:
        """Return the pieces of a whole body; `side` picks HTML or text from every pair."""
        made = self.literals.copy()
        for place, name in self.places:
            made[place] = values[name][side]
        made[self.section : self.section + 1] = sections
        return made


class Setter:
    """Sets the letters of one press for one site, and keeps what it has set."""

    def __init__(self, press: Press, site: Site):
        self.press = press
        self.site = site
        self.cards = Cards(press, site)
        self.card = self.cards.card
        self.html = Shell(press.html)
        self.text = Shell(press.text)
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        literals = (piece for piece in press.html.pieces if isinstance(piece, str))
        self.room = budget.HTML_BYTES - VALUES - sum(len(piece.encode()) for piece in literals)
        self.samples = frozenset(paper.id for paper in press.papers if paper.is_sample)
        self.note = self.set_note()
        self.counting = self.measure_rest()
        self.around_page = self.set_browser()
        self.start = len(unwired(self.set_number(999, False).html))  # noqa: FBT003
        self.letterhead = lru_cache(WORDS_KEPT)(self.set_letterhead)
        self.number = lru_cache(WORDS_KEPT)(self.set_number)
        self.opening = lru_cache(WORDS_KEPT)(self.set_opening)
        self.ending = lru_cache(WORDS_KEPT)(self.set_ending)
        self.rest = lru_cache(WORDS_KEPT)(self.set_rest)
        self.anchors = lru_cache(WORDS_KEPT)(self.set_anchors)
        self.next_due = lru_cache(WORDS_KEPT)(self.set_next_due)
        self.subject = lru_cache(WORDS_KEPT)(self.set_subject)
        self.preheader = lru_cache(WORDS_KEPT)(self.set_preheader)
        self.news = lru_cache(WORDS_KEPT)(self.set_news)

    # ── one letter ──────────────────────────────────────────────────────────────────────────────

    def tell(self, digest: Digest, copy: Copy) -> Told:
        """Return every piece of one letter."""
        plan = budget.whole(digest, copy.filters)
        page = spelled(copy.browser_url)
        html, text, papers, reading = self.sections(plan, page)
        news = self.news(digest.news) if digest.news else NOTHING
        if (
            sum(map(len, html)) + len(news.html) > self.room
        ):  # encoded it is longer than decoded: a cheap first question
            plan = self.plan(digest, copy)
            html, text, papers, reading = self.sections(plan, page)
        topics = tuple([(section.topic, len(section.papers)) for section in plan])
        line = checked(digest.checked, reading)
        cadence = pages.cadence_of(copy.edition, is_catch_up=digest.is_catch_up)
        subject, header, titled = self.subject(cadence, papers[0], len(papers))
        others = tuple(papers[1:3])
        values = {
            "next": NOTHING,
            "sample": self.sample(papers),
            "note": self.note,
            "news": news,
            "offer": self.offer(digest, copy) if digest.offer and copy.browser_url else NOTHING,
            "browser": self.browser(page) if copy.browser_url else NOTHING,
            "subject": titled,
            "preheader": self.preheader(others) if others else same(line),
            "headline": same(pages.headline(digest, len(papers)))
            if digest.is_catch_up
            else headline(len(papers)),
            "checked": same(line),
            "day": day(copy.day),
            "recipient": spelled(copy.recipient),
            "asked": asked(topics),
            "anchors": self.anchors(topics),
            "manage_url": spelled(copy.manage_url),
            "unsubscribe_url": spelled(copy.unsubscribe_url),
        }
        if copy.next_due_at is not None:
            values["next"] = self.next_due(copy.next_due_at, copy.timezone, copy.dated_at)
        return Told(subject, header, values, html, text)

    def sections(
        self, plan: Iterable[Planned], page: Pair
    ) -> tuple[list[bytes], list[bytes], list[int], int]:
        """Return the pieces of all sections, HTML and text, their papers, and the words there are to read.

        `page` is the address of the same digest on the web, if it has one.
        """
        html: list[bytes] = []
        text: list[bytes] = []
        papers: list[int] = []
        number = reading = 0
        for place, section in enumerate(plan, start=1):
            opening, canonical = self.opening(place, section.topic), section.canonical
            html.append(opening.html)
            text.append(opening.text)
            papers += section.papers
            is_first = True
            for paper, form in zip(section.papers, section.forms, strict=False):
                number += 1
                before, card = self.number(number, is_first), self.card(paper, canonical, form)
                html.append(before.html)
                html += card.html
                text.append(before.text)
                text += card.text
                reading += card.words
                is_first = False
            for piece in self.left_out(section.more, place, page):
                html.append(piece.html)
                text.append(piece.text)
        return html, text, papers, reading

    def left_out(self, more: int, place: int, page: Pair) -> tuple[Pair, ...]:
        """Return the end of a section, which leads to what was left out where a page lists it."""
        if more and page.html:
            before, after = self.rest(more, place)
            return before, page, after
        return (self.ending(more),)

    def plan(self, digest: Digest, copy: Copy) -> list[Planned]:
        """Return what of a digest is set, and in which length, so that it fits its budget."""
        plan = budget.whole(digest, copy.filters)
        room = self.room - len(self.news(digest.news).html)
        return budget.shortened(plan, room=room, measure=self.measure, frame=self.frame, rest=self.counting)

    def measure(self, paper_id: int, canonical: str | None, form: Form) -> int:
        """Return how many bytes of HTML a card takes, with its number and its rule."""
        return self.card(paper_id, canonical, form).size + self.start

    def frame(self, topic: str) -> int:
        """Return how many bytes of HTML a section takes beside its cards, with its way from the top."""
        two, three = (len(unwired(self.anchors(((topic, 99),) * ways).html).encode()) for ways in (2, 3))
        pieces = self.opening(2, topic).html + self.ending(0).html
        return len(unwired(pieces).encode()) + three - two

    def measure_rest(self) -> int:
        """Return how many bytes of HTML the line takes that counts what was left out, with its address."""
        linked = sum(len(unwired(piece.html).encode()) for piece in self.set_rest(999, 99)) + LONGEST_URL
        return linked - len(unwired(self.set_ending(0).html).encode())

    def set_letterhead(
        self,
        edition: str,
        dated_at: datetime,
        has_address: bool,  # noqa: FBT001 - a key of the cache
    ) -> bytes:
        """Return the header of an edition's messages, with places for what each has of its own."""
        there = {name: slot(name) for name in ("to", "subject", "id", "way", "leave")}
        block = head(
            site=self.site,
            recipient=there["to"],
            subject=there["subject"],
            message_id=there["id"],
            dated_at=dated_at,
            headers=list_headers(
                self.site,
                there["way"],
                leave_address=there["leave"] if has_address else "",
                campaign=edition,
            ),
        ).replace(b"%", b"%%")
        for name, mark in there.items():
            block = block.replace(mark.encode(), f"%({name})b".encode())
        return block

    # ── pieces that many letters share ──────────────────────────────────────────────────────────

    def set_number(self, number: int, is_first: bool) -> Pair:  # noqa: FBT001 - a key of the cache
        """Return the beginning of a card, and before it the rule that parts it from the last."""
        html, text = self.cards.start()
        if not is_first:
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

    def set_anchors(self, topics: tuple[tuple[str, int], ...]) -> Pair:
        """Return the line of ways to the sections; one section needs none, nor does the text part."""
        if len(topics) < 2:
            return NOTHING
        ways = [
            self.html_parts["anchor"].fill(
                {
                    "name": pages.anchor_name(place),
                    "topic": escaped(pages.heading(topic)),
                    "count": str(count),
                }
            )
            for place, (topic, count) in enumerate(topics, start=1)
        ]
        line = between(self.html_parts, "between").join(ways)
        return Pair(wire(self.html_parts["anchors"].fill({"anchor": line})), b"")

    def set_note(self) -> Pair:
        """Return what the whole press has to say, where these templates have a place for it."""
        said = self.press.note
        if not said:
            return NOTHING
        html, text = self.html_parts.get("note"), self.text_parts.get("note")
        return Pair(
            wire(html.fill({"note": escaped(said)})) if html else b"",
            wire(text.fill({"note": wrapped(said)})) if text else b"",
        )

    def set_news(self, news: tuple[FollowUp, ...]) -> Pair:
        """Return what became of papers of earlier digests, where these templates have a place for it."""
        html, text = self.html_parts.get("news"), self.text_parts.get("news")
        items = pages.news_of(news, self.site)
        if not items:
            return NOTHING
        return Pair(
            wire(html.fill({"item": "".join(map(self.set_item, items))})) if html else b"",
            wire(text.fill({"item": "".join(map(self.say_item, items))})) if text else b"",
        )

    def set_item(self, item: NewsItem) -> str:
        """Return one piece of news in HTML."""
        values = {"href": escaped(item.href), "title": escaped(item.title), "says": escaped(item.says)}
        return self.html_parts["item"].fill(values)

    def say_item(self, item: NewsItem) -> str:
        """Return one piece of news in plain text."""
        values = {"href": item.href, "title": wrapped(item.title), "says": wrapped(item.says)}
        return self.text_parts["item"].fill(values)

    def offer(self, digest: Digest, copy: Copy) -> Pair:
        """Return the offer to narrow a topic, where these templates have a place for it."""
        html, text = self.html_parts.get("offer"), self.text_parts.get("offer")
        said, url = pages.offer(digest), pages.offer_url(copy.browser_url)
        return Pair(
            wire(html.fill({"offer": escaped(said), "offer_url": escaped(url)})) if html else b"",
            wire(text.fill({"offer": wrapped(said), "offer_url": url})) if text else b"",
        )

    def set_next_due(self, due_at: datetime, timezone: str, dated_at: datetime) -> Pair:
        """Return the line that promises the next digest."""
        said = words.moment_in_words(due_at, timezone, seen_from=dated_at)
        return Pair(
            wire(self.html_parts["next"].fill({"next_due": escaped(said)})),
            wire(self.text_parts["next"].fill({"next_due": said})),
        )

    def set_browser(self) -> tuple[list[bytes], list[bytes]]:
        """Return what stands around the address of the same digest on the web, in HTML and text."""
        parts = self.html_parts["browser"], self.text_parts["browser"]
        html, text = (part.fill({"browser_url": GAP}).split(GAP) for part in parts)
        return list(map(wire, html)), list(map(wire, text))

    def browser(self, page: Pair) -> Pair:
        """Return the link to the same digest on the web."""
        html, text = self.around_page
        return Pair(page.html.join(html), page.text.join(text))

    def sample(self, papers: Iterable[int]) -> Pair:
        """Return the line that says so where some of these papers are invented."""
        if self.samples.isdisjoint(papers):
            return NOTHING
        return Pair(wire(between(self.html_parts, "sample")), wire(between(self.text_parts, "sample")))

    def set_subject(self, cadence: str, lead: int, count: int) -> tuple[str, bytes, Pair]:
        """Return the subject, its header, and as a piece the page's title."""
        subject = words.subject(cadence, pages.title_of(self.press, lead), count)
        return subject, subject_line(subject).encode(), spelled(subject)

    def set_preheader(self, others: tuple[int, ...]) -> Pair:
        """Return what the inbox shows after the subject, where a second paper or more follow the first."""
        return spelled(words.preheader([pages.title_of(self.press, paper) for paper in others]))


# ── words as pieces ─────────────────────────────────────────────────────────────────────────────


def spelled(text: str) -> Pair:
    """Return a few words for both bodies; mostly there is nothing in them to escape."""
    shown = escaped(text)
    encoded = wire(text)
    return Pair(encoded if shown == text else wire(shown), encoded)


same = lru_cache(WORDS_KEPT)(spelled)
checked = lru_cache(WORDS_KEPT)(words.checked)


@lru_cache(WORDS_KEPT)
def headline(papers: int) -> Pair:
    """Return the headline."""
    return spelled(words.headline(papers))


@lru_cache(WORDS_KEPT)
def day(local: date) -> Pair:
    """Return the day of the edition."""
    return spelled(words.day_in_words(local))


@lru_cache(WORDS_KEPT)
def asked(topics: tuple[tuple[str, int], ...]) -> Pair:
    """Return why the reader gets this letter."""
    said = pages.asked(tuple(topic for topic, _ in topics))
    return Pair(wire(escaped(said)), wire(wrapped(said)))
