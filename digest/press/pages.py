"""A digest's page as a value: every word and card of it, before it is set in HTML or text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from digest import topics
from digest.composition import TRENDING, Digest, FollowUp
from digest.links import Site, paper_url
from digest.press.budget import Planned
from digest.rendering import Copy, words
from digest.rendering.cards import LONGEST_TITLE, Card, Form, card, title
from digest.rendering.headers import one_line
from digest.rendering.runs import plain

if TYPE_CHECKING:
    from digest.press.presses import Press


class Found(NamedTuple):
    """What a filter found in a paper."""

    why: tuple[str, ...]
    words: tuple[tuple[str, int, int], ...]  #: to mark: the field, the beginning, the end


@dataclass(frozen=True, slots=True)
class Numbered:
    """A card in its place; the number is what a reader replies with."""

    number: str
    card: Card


ANCHORS = 38  #: signs that fit on one line of the narrowest phone: the first paper stands below it


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A way from the top of the letter to one of its sections."""

    name: str
    topic: str
    count: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """The cards under one topic."""

    name: str
    topic: str
    underline: str
    cards: tuple[Numbered, ...]
    more: str  #: how many were left out, where no page lists them
    rest: str  #: the same, where one does
    rest_url: str


@dataclass(frozen=True, slots=True)
class NewsItem:
    """What became of a paper that the reader was sent before."""

    href: str
    title: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Everything a digest letter says."""

    subject: str
    preheader: str
    headline: str
    checked: str
    note: str
    is_sample: bool
    day: str
    next_due: str
    recipient: str
    asked: str
    manage_url: str
    unsubscribe_url: str
    browser_url: str
    anchors: tuple[Anchor, ...]
    sections: tuple[PageSection, ...]
    news: tuple[NewsItem, ...]
    offer: str
    offer_url: str


def cadence_of(edition: str, *, is_catch_up: bool) -> str:
    """Return what the subject goes by: the cadence, unless the reader was away."""
    return words.CATCH_UP if is_catch_up else edition.partition("-")[0]


def page(press: Press, site: Site, plan: Sequence[Planned], digest: Digest, copy: Copy) -> Page:
    """Return the page of a digest, planned to fit, for this copy."""
    sections = tuple(sections_of(press, site, plan, copy.browser_url))
    titles = [title_of(press, paper) for section in plan for paper in section.papers]
    cards = [one.card for section in sections for one in section.cards]
    line = words.checked(digest.checked, sum(reading(card) for card in cards))
    return Page(
        subject=words.subject(
            cadence_of(copy.edition, is_catch_up=digest.is_catch_up), titles[0], len(titles)
        ),
        preheader=words.preheader(titles[1:3]) if len(titles) > 1 else line,
        headline=headline(digest, len(titles)),
        checked=line,
        note=press.note,
        is_sample=any(card.is_sample for card in cards),
        day=words.day_in_words(copy.day),
        next_due=next_due(copy),
        recipient=copy.recipient,
        asked=asked(tuple(section.topic for section in plan)),
        manage_url=copy.manage_url,
        unsubscribe_url=copy.unsubscribe_url,
        browser_url=copy.browser_url,
        anchors=in_one_line(anchors([(section.topic, len(section.cards)) for section in sections])),
        sections=sections,
        news=news_of(digest.news, site),
        offer=offer(digest) if copy.browser_url else "",
        offer_url=offer_url(copy.browser_url) if digest.offer else "",
    )


def offer(digest: Digest) -> str:
    """Return what a full topic could be narrowed to; nothing if there is nothing to offer."""
    if digest.offer is None:
        return ""
    topic, _, clause, before, after = digest.offer
    return words.offer(heading(topic), one_line(clause), before, after)


def offer_url(browser_url: str) -> str:
    """Return the address of the page on which what was offered can be done."""
    return f"{browser_url}/narrow"


def headline(digest: Digest, papers: int) -> str:
    """Return the headline: how many papers there are, and of a catch-up, from among how many."""
    if digest.is_catch_up and digest.matched > papers:
        return words.caught_up(digest.matched, papers)
    return words.headline(papers)


def news_of(news: Sequence[FollowUp], site: Site) -> tuple[NewsItem, ...]:
    """Return what became of papers of earlier digests."""
    return tuple(
        NewsItem(
            paper_url(site, one.paper),
            words.cut(one_line(one.title), LONGEST_TITLE),
            words.became(one.kind, one_line(one.says)),
        )
        for one in news
    )


def sections_of(press: Press, site: Site, plan: Sequence[Planned], browser_url: str) -> list[PageSection]:
    """Return the sections, their cards numbered through the whole letter."""
    made: list[PageSection] = []
    numbers = count(1)
    for place, section in enumerate(plan, start=1):
        topic = heading(section.topic)
        cards = [
            Numbered(str(next(numbers)), card_of(press, site, paper, section.canonical, form))
            for paper, form in zip(section.papers, section.forms, strict=True)
        ]
        made.append(
            PageSection(
                name=anchor_name(place),
                topic=topic,
                underline=underline(topic),
                cards=tuple(cards),
                more=words.more(section.more) if section.more and not browser_url else "",
                rest=words.more(section.more) if section.more and browser_url else "",
                rest_url=rest_url(browser_url, place) if section.more and browser_url else "",
            )
        )
    return made


def reading(card: Card) -> int:
    """Return how many words of a card there are to read."""
    return len(plain(card.title).split()) + len(plain(card.abstract).split())


def rest_url(browser_url: str, place: int) -> str:
    """Return the address of the page that lists what a section had no room for."""
    return f"{browser_url}/{place}"


def anchor_name(place: int) -> str:
    """Return the name under which a section can be reached within the letter."""
    return f"t{place}"


def underline(topic: str) -> str:
    """Return the line that makes a heading of a topic in plain text."""
    return "-" * min(len(topic), words.MEASURE)


def title_of(press: Press, paper_id: int) -> str:
    """Return a paper's title as readers see it."""
    return title(press.papers[press.number[paper_id]])


def card_of(press: Press, site: Site, paper_id: int, canonical: str | None, form: Form) -> Card:
    """Return the card of one paper as the filter found it."""
    number = press.number[paper_id]
    why, words = found(press, number, canonical)
    return card(press.papers[number], page=paper_url(site, paper_id), why=why, words=words, form=form)


def found(press: Press, number: int, canonical: str | None) -> Found:
    """Return why a paper is shown, with the figure that speaks loudest for it, and the words to mark."""
    figure = press.reasons[number][:1]
    if canonical is None:
        return Found(figure or (words.FIRST_SEEN,), ())
    why, places = press.pages.find(topics.parse(canonical), number) or ((), ())
    return Found((*why, *figure) or (words.FIRST_SEEN,), places)


def heading(topic: str) -> str:
    """Return a topic's name as the letter shows it."""
    return one_line(topic)


def anchors(topics: Sequence[tuple[str, int]]) -> tuple[Anchor, ...]:
    """Return the ways to the sections; one section needs none."""
    if len(topics) < 2:
        return ()
    return tuple(
        Anchor(name=anchor_name(place), topic=heading(topic), count=str(papers))
        for place, (topic, papers) in enumerate(topics, start=1)
    )


def in_one_line(ways: tuple[Anchor, ...]) -> tuple[Anchor, ...]:
    """Return those that fit beside each other on a phone, and behind them one way to all others."""
    if fits(ways):
        return ways
    for shown in range(len(ways) - 1, 0, -1):
        if fits(some := (*ways[:shown], others(ways, shown))):
            return some
    room = ANCHORS - columns((replace(ways[0], topic=""), others(ways, 1)))
    return replace(ways[0], topic=words.cut(ways[0].topic, room)), others(ways, 1)


def others(ways: tuple[Anchor, ...], shown: int) -> Anchor:
    """Return the way to the first section that has none of its own."""
    return Anchor(name=ways[shown].name, topic=words.other_topics(len(ways) - shown), count="")


def fits(ways: tuple[Anchor, ...]) -> bool:
    """Return whether these ways fit on one line of a phone."""
    return columns(ways) <= ANCHORS


def columns(ways: tuple[Anchor, ...]) -> int:
    """Return how much room a line of ways takes."""
    return words.columns(" · ".join(f"{way.topic} {way.count}".rstrip() for way in ways))


def next_due(copy: Copy) -> str:
    """Return when the next digest comes, in the reader's own days and hours."""
    if copy.next_due_at is None:
        return ""
    return words.moment_in_words(copy.next_due_at, copy.timezone, seen_from=copy.dated_at)


def asked(topics: tuple[str, ...]) -> str:
    """Return what the reader asked for."""
    return words.asked([heading(topic) for topic in topics if topic != TRENDING])
