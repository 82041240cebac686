"""Setting letters: whatever stands in many of them is filled, escaped and encoded once.

A letter is joined from pieces of quoted-printable, which may be put one after the other in any
order (rendering.mime). What differs from copy to copy are a few slots; cards are kept by paper
and filter, since many readers hold the same filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec.structs import replace

from digest import links
from digest.composition import Digest, FollowUp
from digest.links import Site
from digest.press import budget, pages
from digest.press.budget import Planned
from digest.press.cards import between
from digest.press.pages import NewsItem, Page
from digest.press.presses import Press
from digest.press.sections import GAP, Pair, Sections
from digest.rendering import Copy, Letter, list_headers, words
from digest.rendering.headers import head, one_line, subject_line
from digest.rendering.mime import boundary, enveloped, unwired, wire
from digest.rendering.stencils import Slot, Stencil, escaped, slot
from digest.rendering.words import wrapped

WORDS_KEPT = 4096
#: Bytes that hardly any title line, and hardly any section around its cards, takes; far fewer than fit are
#: not even measured.
LONGEST_LINE, LONGEST_FRAME = 2000, 1500
VALUES = 3000  #: bytes set aside for what differs from copy to copy


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
    return pages.page(press, site, setter(press, site).plan(digest, copy.filters), digest, copy)


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
    kept = {one.papers[0]: one for one in made.plan(digest, filters)}
    left = [(section, kept[section.papers[0]]) for section in digest.sections if section.papers[0] in kept]
    sections = [section._replace(papers=one.papers, more=one.more) for section, one in left]
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
        self.sections = Sections(press, site)
        self.html = Shell(press.html)
        self.text = Shell(press.text)
        self.html_parts = press.html.parts()
        self.text_parts = press.text.parts()
        literals = (piece for piece in press.html.pieces if isinstance(piece, str))
        self.room = budget.HTML_BYTES - VALUES - sum(len(piece.encode()) for piece in literals)
        self.samples = frozenset(paper.id for paper in press.papers if paper.is_sample)
        self.note = self.set_note()
        self.around_page = self.set_browser()
        self.letterhead = lru_cache(WORDS_KEPT)(self.set_letterhead)
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
        html, text, papers, octets, reading = self.sections.tell(plan, page)
        news = self.news(digest.news) if digest.news else NOTHING
        if octets + len(news.html) > self.room:  # decoded it is shorter: a cheap first question
            plan = self.plan(digest, copy.filters)
            html, text, papers, octets, reading = self.sections.tell(plan, page)
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

    def plan(self, digest: Digest, filters: Mapping[int, str]) -> list[Planned]:
        """Return what of a digest is set, and in which length, so that it fits its budget."""
        return budget.shortened(
            budget.whole(digest, filters),
            room=self.room - len(self.news(digest.news).html),
            measure=self.sections.measure,
            frame=self.frame,
            rest=self.sections.counting,
        )

    def frame(self, topic: str) -> int:
        """Return how many bytes of HTML a section takes beside its cards, with its way from the top."""
        two, three = (pages.anchors(((topic, 99),) * ways) for ways in (2, 3))
        return self.sections.frame(topic) + len(self.line(three).encode()) - len(self.line(two).encode())

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

    def set_anchors(self, topics: tuple[tuple[str, int], ...]) -> Pair:
        """Return the line of ways to the sections; one section needs none, nor does the text part."""
        ways = pages.in_one_line(pages.anchors(topics))
        return Pair(wire(self.line(ways)), b"") if ways else NOTHING

    def line(self, ways: Sequence[pages.Anchor]) -> str:
        """Return the HTML of these ways."""
        set_ways = [
            self.html_parts["anchor"].fill(
                {"name": way.name, "topic": escaped(way.topic), "count": way.count}
            )
            for way in ways
        ]
        return self.html_parts["anchors"].fill({"anchor": between(self.html_parts, "between").join(set_ways)})

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
