"""Describe a digest letter as a value: every text and card in it, before it is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from digest import topics
from digest.editions.compose import TRENDING_TOPIC, Digest, FollowUp
from digest.letters import Personalization, figures_in_words
from digest.letters.cards import (
    MAX_TITLE_LENGTH,
    Card,
    CardForm,
    display_title,
    make_card,
    printed_text,
)
from digest.letters.headers import break_addresses, one_line
from digest.letters.press.size_budget import SectionPlan
from digest.letters.reason_lines import PrintedText, ReasonLine, topic_reason, trending_reason
from digest.links import paper_url
from digest.site_profile import Site

if TYPE_CHECKING:
    from digest.letters.press.press_value import Press


@dataclass(frozen=True, slots=True)
class NumberedCard:
    """A card with its number in the letter."""

    number: str
    card: Card


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A link from the top of the letter to a section."""

    name: str
    topic: str
    count: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """The cards under one topic."""

    name: str
    topic: str
    underline: str
    cards: tuple[NumberedCard, ...]
    more: str  #: the number of papers left out, as text, if no page lists them
    rest: str  #: the label of the link to the page that lists them
    rest_url: str


@dataclass(frozen=True, slots=True)
class FollowUpItem:
    """An update to a paper that was sent to the reader before."""

    href: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DigestPage:
    """The content of a digest letter."""

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
    news: tuple[FollowUpItem, ...]
    offer: str
    offer_url: str


def cadence_of(edition: str, *, is_catch_up: bool) -> str:
    """Return the cadence for the subject, or `CATCH_UP` if the reader was away."""
    return figures_in_words.CATCH_UP if is_catch_up else edition.partition("-")[0]


def make_page(
    press: Press, site: Site, plan: Sequence[SectionPlan], digest: Digest, copy: Personalization
) -> DigestPage:
    """Make the page of a digest for one reader; `plan` already fits the size budget."""
    sections = tuple(sections_of(press, site, plan, copy.browser_url))
    titles = [title_of(press, paper) for section in plan for paper in section.papers]
    cards = [one.card for section in sections for one in section.cards]
    line = figures_in_words.checked_line(digest.checked, sum(count_words(card) for card in cards))
    return DigestPage(
        subject=figures_in_words.subject(
            cadence_of(copy.edition, is_catch_up=digest.is_catch_up), titles[0], len(titles)
        ),
        preheader=figures_in_words.preheader(titles[1:3]) if len(titles) > 1 else line,
        headline=headline(digest, len(titles)),
        checked=line,
        note=press.note,
        is_sample=any(card.is_sample for card in cards),
        day=figures_in_words.weekday_and_day(copy.day),
        next_due=next_due(copy),
        recipient=copy.recipient,
        asked=subscription_reason(tuple(section.topic for section in plan)),
        manage_url=copy.manage_url,
        unsubscribe_url=copy.unsubscribe_url,
        browser_url=copy.browser_url,
        anchors=anchors([(section.topic, len(section.cards)) for section in sections]),
        sections=sections,
        news=followup_items(digest.news, site),
        offer=suggestion_text(digest) if copy.browser_url else "",
        offer_url=suggestion_url(copy.browser_url) if digest.offer else "",
    )


def suggestion_text(digest: Digest) -> str:
    """Return the suggestion to narrow a topic, or nothing if there is none."""
    if digest.offer is None:
        return ""
    topic, _, clause, before, after = digest.offer
    return figures_in_words.narrowing_sentence(heading(topic), one_line(clause), before, after)


def suggestion_url(browser_url: str) -> str:
    """Return the URL of the page where the reader can accept the suggestion."""
    return f"{browser_url}/narrow"


def headline(digest: Digest, papers: int) -> str:
    """Return the headline: the number of papers, and in a catch-up the number of matches."""
    if digest.is_catch_up and digest.matched > papers:
        return figures_in_words.catch_up_headline(digest.matched, papers)
    return figures_in_words.headline(papers)


def followup_items(news: Sequence[FollowUp], site: Site) -> tuple[FollowUpItem, ...]:
    """Return the updates to papers of earlier digests."""
    return tuple(
        FollowUpItem(
            paper_url(site, one.paper),
            figures_in_words.cut_at_word(one_line(one.title), MAX_TITLE_LENGTH),
            figures_in_words.followup_text(one.kind, one_line(one.detail)),
        )
        for one in news
    )


def sections_of(press: Press, site: Site, plan: Sequence[SectionPlan], browser_url: str) -> list[PageSection]:
    """Return the sections, with cards numbered through the whole letter."""
    made: list[PageSection] = []
    numbers = count(1)
    for place, section in enumerate(plan, start=1):
        topic = heading(section.topic)
        cards = [
            NumberedCard(str(next(numbers)), card_of_paper(press, site, paper, section.canonical, form))
            for paper, form in zip(section.papers, section.forms, strict=True)
        ]
        made.append(
            PageSection(
                name=anchor_name(place),
                topic=topic,
                underline=underline(topic),
                cards=tuple(cards),
                more=figures_in_words.more_matched(section.more) if section.more and not browser_url else "",
                rest=figures_in_words.see_more_matches(section.more) if section.more and browser_url else "",
                rest_url=overflow_url(browser_url, place) if section.more and browser_url else "",
            )
        )
    return made


def count_words(card: Card) -> int:
    """Return the number of words in a card."""
    return len(card.title.split()) + len(card.abstract.split())


def overflow_url(browser_url: str, place: int) -> str:
    """Return the URL of the page that lists the papers a section left out."""
    return f"{browser_url}/{place}"


def anchor_name(place: int) -> str:
    """Return the name of a section's anchor."""
    return f"t{place}"


def underline(topic: str) -> str:
    """Return the line under a topic's heading in plain text."""
    return "-" * min(len(topic), figures_in_words.LINE_WIDTH)


def title_of(press: Press, paper_id: int) -> str:
    """Return a paper's title as readers see it."""
    return display_title(press.papers[press.rank_of_paper[paper_id]])


def card_of_paper(press: Press, site: Site, paper_id: int, canonical: str | None, form: CardForm) -> Card:
    """Return the card of one paper, with the reason why a filter chose it."""
    number = press.rank_of_paper[paper_id]
    paper = press.papers[number]
    why = reason_of(press, number, canonical, printed_text(paper, form))
    return make_card(paper, page=paper_url(site, paper_id), why=why, form=form)


def reason_of(press: Press, number: int, canonical: str | None, printed: PrintedText) -> ReasonLine:
    """Return the reason line of a paper: the words that the filter matched, and the strongest figure."""
    figure = press.reasons[number][:1]
    found = press.explainer.find(topics.parse(canonical), number) if canonical else None
    return topic_reason(press.papers[number], found, figure, printed) if found else trending_reason(figure)


def heading(topic: str) -> str:
    """Return a topic's name as the letter shows it."""
    return break_addresses(one_line(topic))


def anchors(topics: Sequence[tuple[str, int]]) -> tuple[Anchor, ...]:
    """Return the links to the sections; a single section needs no link."""
    if len(topics) < 2:
        return ()
    return tuple(
        Anchor(name=anchor_name(place), topic=heading(topic), count=str(papers))
        for place, (topic, papers) in enumerate(topics, start=1)
    )


def next_due(copy: Personalization) -> str:
    """Return the time of the next digest in the reader's time zone, in words."""
    if copy.next_due_at is None:
        return ""
    return figures_in_words.moment_in_words(copy.next_due_at, copy.timezone, seen_from=copy.dated_at)


def subscription_reason(topics: tuple[str, ...]) -> str:
    """Return the sentence that gives the reason why the reader gets this digest."""
    return figures_in_words.subscription_reason(
        [heading(topic) for topic in topics if topic != TRENDING_TOPIC]
    )
