"""Today's trending papers, as the first page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import catalog, links, press, ranking
from digest.composition import TRENDING, Digest, Section
from digest.house import House
from digest.links import Site
from digest.model import DumpRow
from digest.papers import Paper
from digest.ranking import Ranked
from digest.rendering import Copy, cards, words
from digest.rendering.cards import Card

SHOWN = 10
FRESH = timedelta(days=2)
REACHES = (8, 36, 400)  #: days looked back for news: the shortest that has any


@dataclass(frozen=True, kw_only=True, slots=True)
class Trending:
    """The list, and the day it is of."""

    day: date
    heading: str
    checked: int
    ranked: tuple[Ranked, ...]
    cards: tuple[Card, ...]


def state_of(session: Session) -> tuple[object, ...]:
    """Return what changes whenever the catalog does, cheaply."""
    return tuple(session.execute(select(func.max(DumpRow.id), func.count(), func.max(DumpRow.read_at))).one())


def today(of: House, session: Session) -> Trending | None:
    """Return the list, from memory until the catalog or the day changes."""
    now = of.clock()
    return of.memory.once("today", (state_of(session), now.date()), lambda: trending(session, of.site, now))


def best(of: House, session: Session, count: int) -> dict[int, Card]:
    """Return the first few cards by paper, while the list is fresh."""
    found = today(of, session)
    if found is None or of.clock().astimezone(UTC).date() - found.day > FRESH:
        return {}
    return {one.paper.id: card for one, card in list(zip(found.ranked, found.cards, strict=True))[:count]}


def trending(session: Session, site: Site, now: datetime) -> Trending | None:
    """Return the papers that trend as of the latest dump, best first; None while there are none."""
    as_of = catalog.observed_at(session, until=now)
    if as_of is None:
        return None
    papers = next(filter(None, (news(session, as_of, now, days=days) for days in REACHES)), [])
    if not papers:
        return None
    ranked = ranking.rank(papers, catalog.evidence(session, papers, as_of=as_of), as_of)[:SHOWN]
    shown = [
        cards.card(one.paper, page=links.paper_url(site, one.paper.id), why=one.reasons[:2]) for one in ranked
    ]
    day = as_of.astimezone(UTC).date()
    return Trending(
        day=day, heading=heading(day, now), checked=len(papers), ranked=tuple(ranked), cards=tuple(shown)
    )


def news(session: Session, as_of: datetime, now: datetime, *, days: int) -> list[Paper]:
    """Return the papers first seen in the days up to the latest dump."""
    start = datetime.combine(as_of.astimezone(UTC).date(), time(), UTC) - timedelta(days=days)
    return catalog.papers(session, since=start, until=now, news_only=True)


def as_email(of: House, session: Session) -> str | None:
    """Return the list as the HTML of the mail that a subscriber without topics gets."""
    found, now = today(of, session), of.clock()
    if found is None:
        return None
    made = press.make(found.ranked, site=of.site, templates=of.templates, as_of=now)
    section = Section(
        topic=TRENDING, filter_id=None, papers=tuple(one.paper.id for one in found.ranked),
        more=found.checked - len(found.ranked),
    )  # fmt: skip
    copy = Copy(
        recipient="you@example.org",
        edition=f"daily-{found.day}",
        day=found.day,
        dated_at=now,
        unsubscribe_url=of.site.url,
        manage_url=of.site.url,
    )
    return press.digest_letter(made, of.site, Digest(sections=(section,), checked=found.checked), copy).html


def heading(day: date, now: datetime) -> str:
    """Return `Today, 20 November`, or the day of the latest list in the same words."""
    _ = words.SPEECH.gettext
    dated = words.day_in_words(day).rpartition(" ")[0]
    match (now.astimezone(UTC).date() - day).days:
        case 0:
            return f"{_('Today')}, {dated}"
        case 1:
            return f"{_('Yesterday')}, {dated}"
        case _:
            return words.day_in_words(day)
