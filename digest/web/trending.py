"""List today's trending papers for the front page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from digest import links
from digest.app_context import AppContext
from digest.db import Session
from digest.editions.compose import TRENDING_TOPIC, Digest, Section
from digest.letters import Personalization, cards, figures_in_words, press
from digest.letters.cards import Card
from digest.letters.reason_lines import trending_reason
from digest.papers import Paper, catalog
from digest.papers import trending as trending_scores
from digest.papers.trending import Ranked
from digest.site_profile import Site

MAX_SHOWN = 10
REACH_DAYS = (8, 36, 400)  #: periods to look back, in days; the first period with papers is used


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendingList:
    """One day's list of trending papers."""

    day: date
    heading: str
    checked: int
    ranked: tuple[Ranked, ...]
    cards: tuple[Card, ...]


def todays_list(context: AppContext, session: Session) -> TrendingList | None:
    """Return today's list, cached until the catalog or the day changes."""
    now = context.clock()
    return context.caches.get_or_make(
        "today", (catalog.state(session), now.date()), lambda: make_list(session, context.site, now)
    )


def make_list(session: Session, site: Site, now: datetime) -> TrendingList | None:
    """Return the trending papers as of the latest dump, best first; None if there are none."""
    as_of = catalog.observed_at(session, until=now)
    if as_of is None:
        return None
    papers = next(filter(None, (recent_papers(session, as_of, now, days=days) for days in REACH_DAYS)), [])
    if not papers:
        return None
    ranked = trending_scores.rank(papers, catalog.evidence(session, papers, as_of=as_of), as_of)[:MAX_SHOWN]
    shown = [
        cards.make_card(
            one.paper,
            page=links.paper_url(site, one.paper.id),
            why=trending_reason(one.reasons[:2]),
        )
        for one in ranked
    ]
    day = as_of.astimezone(UTC).date()
    return TrendingList(
        day=day, heading=list_heading(day, now), checked=len(papers), ranked=tuple(ranked), cards=tuple(shown)
    )


def recent_papers(session: Session, as_of: datetime, now: datetime, *, days: int) -> list[Paper]:
    """Return the papers first seen in the last days before the latest dump."""
    start = datetime.combine(as_of.astimezone(UTC).date(), time(), UTC) - timedelta(days=days)
    return catalog.papers(session, since=start, until=now, news_only=True)


def list_as_email(context: AppContext, session: Session) -> str | None:
    """Return the list as the HTML of a digest for a subscriber without topics."""
    found, now = todays_list(context, session), context.clock()
    if found is None:
        return None
    made = press.make_press(
        found.ranked, site=context.site, templates=context.templates, caches=context.caches, as_of=now
    )
    section = Section(
        topic=TRENDING_TOPIC, filter_id=None, papers=tuple(one.paper.id for one in found.ranked),
        more=found.checked - len(found.ranked),
    )  # fmt: skip
    copy = Personalization(
        recipient="you@example.org",
        edition=f"daily-{found.day}",
        day=found.day,
        dated_at=now,
        unsubscribe_url=context.site.url,
        manage_url=context.site.url,
    )
    digest = Digest(sections=(section,), checked=found.checked)
    return press.LetterAssembler(made, context.site).letter(digest, copy).html


def list_heading(day: date, now: datetime) -> str:
    """Return the day of the latest list in words, such as `Today, 20 November`."""
    _ = figures_in_words.TRANSLATIONS.gettext
    dated = figures_in_words.day_in_words(day).rpartition(" ")[0]
    match (now.astimezone(UTC).date() - day).days:
        case 0:
            return f"{_('Today')}, {dated}"
        case 1:
            return f"{_('Yesterday')}, {dated}"
        case _:
            return figures_in_words.day_in_words(day)
