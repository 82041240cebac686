"""List the trending papers of a day, on all topics or on one starter topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property

from digest.editions.compose import TRENDING_TOPIC, Digest, Section
from digest.letters import cards, figures_in_words
from digest.letters.cards import Card
from digest.letters.letter_rendering import Personalization
from digest.letters.press.load_templates import letters_of
from digest.letters.press.press_value import make_press
from digest.letters.reason_lines import trending_reason
from digest.papers import trending as trending_scores
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper
from digest.papers.trending import Ranked
from digest.site import links
from digest.site.site_profile import Site
from digest.topics.filter_parser import Filter
from digest.topics.paper_index import PaperIndex
from digest.web.visits import Visit

MAX_SHOWN = 10  #: maximum number of papers on the front page and in the feed
PAGE_SIZE = 30  #: maximum number of papers on one page of a day's list
MAX_LISTS = 96  #: maximum number of cached pages of the lists of days and topics; each takes up to 150 KB
MAX_RANKINGS = 2  #: maximum number of cached rankings; each has an index of tens of megabytes
#: Numbers of days before the latest dump; the shortest period that has papers is ranked.
REACH_DAYS = (8, 36, 400)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendingList:
    """The trending papers of one day, or one page of them."""

    day: date
    heading: str
    checked: int  #: number of papers from which the list was chosen
    listed: int  #: number of papers on all pages of the list
    page: int = 1  #: number of this page
    skipped: int = 0  #: number of papers on the pages before this one
    ranked: tuple[Ranked, ...]
    cards: tuple[Card, ...]

    @property
    def following(self) -> int:
        """Return the number of papers on the next page, or 0 if this is the last page."""
        return max(0, min(PAGE_SIZE, self.listed - self.skipped - len(self.cards)))


@dataclass(frozen=True, kw_only=True)
class DayRanking:
    """All papers, ranked by what was known at the latest dump of a day."""

    day: date  #: the day of the dump, in UTC
    ranked: tuple[Ranked, ...]  #: best first

    @cached_property
    def index(self) -> PaperIndex:
        """Return an index of the papers, in which a paper's number is its rank."""
        return PaperIndex([one.paper for one in self.ranked])


def todays_list(visit: Visit) -> TrendingList | None:
    """Return the latest list, cached until the catalog or day changes; None if there are no papers."""

    def make() -> TrendingList | None:
        found = day_ranking(visit, visit.now)
        return make_list(visit.site, found, heading=list_heading(found.day, visit.now)) if found else None

    return visit.cached("today", make)


def list_of_day(visit: Visit, day: date, filter: Filter | None = None, page: int = 1) -> TrendingList | None:
    """Return one page of the list as it was at the end of a UTC day.

    Returns None if there was no dump on that day, or if the list does not have this page. With a filter, the
    list contains only papers that match the filter.
    """

    def make() -> TrendingList | None:
        found = day_ranking(visit, min(visit.now, datetime.combine(day, time.max, UTC)))
        if found is None or found.day != day:
            return None
        heading = list_heading(day, visit.now)
        made = make_list(visit.site, found, heading=heading, filter=filter, page=page, page_size=PAGE_SIZE)
        return made if made.cards or page == 1 else None

    return visit.cached("list of a day", make, day, filter, page, bound=MAX_LISTS)


def make_list(
    site: Site,
    found: DayRanking,
    *,
    heading: str,
    filter: Filter | None = None,
    page: int = 1,
    page_size: int = MAX_SHOWN,
) -> TrendingList:
    """Return one page of a ranking, by default the best papers; with a filter, only papers that match it."""
    matches = found.index.matches(filter) if filter else -1
    listed = [one for rank, one in enumerate(found.ranked) if matches >> rank & 1]
    skipped = (page - 1) * page_size
    chosen = listed[skipped : skipped + page_size]
    shown = [
        cards.make_card(
            one.paper,
            page=links.paper_url(site, one.paper.id),
            why=trending_reason(one.reasons[:2]),
        )
        for one in chosen
    ]
    return TrendingList(
        day=found.day,
        heading=heading,
        checked=len(found.ranked),
        listed=len(listed),
        page=page,
        skipped=skipped,
        ranked=tuple(chosen),
        cards=tuple(shown),
    )


def day_ranking(visit: Visit, now: datetime) -> DayRanking | None:
    """Return the public papers, ranked as of the latest dump before `now`; None if there are no papers."""
    as_of = queries.observed_at(visit.session, until=now)
    if as_of is None:
        return None

    def make() -> DayRanking | None:
        found = (recent_papers(visit, as_of, now, days=days) for days in REACH_DAYS)
        papers = next((papers for papers in found if papers), [])
        ranked = trending_scores.rank(papers, queries.evidence(visit.session, papers, as_of=as_of), as_of)
        return DayRanking(day=as_of.astimezone(UTC).date(), ranked=tuple(ranked)) if ranked else None

    return visit.cached("ranking of a day", make, as_of, now.date(), bound=MAX_RANKINGS)


def recent_papers(visit: Visit, as_of: datetime, now: datetime, *, days: int) -> list[Paper]:
    """Return the papers first seen within `days` days before the latest dump, with only public fields."""
    start = datetime.combine(as_of.astimezone(UTC).date(), time(), UTC) - timedelta(days=days)
    found = queries.papers(visit.session, since=start, until=now, news_only=True)
    return visit.context.public_rules.public_copies(found)


def list_as_email(visit: Visit) -> str | None:
    """Return today's list as the HTML of a digest without topics, or None if there are no papers."""
    found, context = todays_list(visit), visit.context
    if found is None:
        return None
    made = make_press(found.ranked, as_of=visit.now)
    section = Section(
        topic=TRENDING_TOPIC, filter_id=None, papers=tuple(one.paper.id for one in found.ranked),
        more=found.checked - len(found.ranked),
    )  # fmt: skip
    copy = Personalization(
        recipient="you@example.org",
        edition=f"daily-{found.day}",
        day=found.day,
        dated_at=visit.now,
        unsubscribe_url=visit.site.url,
        manage_url=visit.site.url,
    )
    digest = Digest(sections=(section,), checked=found.checked)
    return letters_of(made, visit.site, context.templates, context.caches).letter(digest, copy).html


def list_heading(day: date, now: datetime) -> str:
    """Return the day of a list in words, such as `Today, 20 November`."""
    dated = figures_in_words.day_in_words(day).rpartition(" ")[0]
    match (now.astimezone(UTC).date() - day).days:
        case 0:
            return f"{'Today'}, {dated}"
        case 1:
            return f"{'Yesterday'}, {dated}"
        case _:
            return figures_in_words.day_in_words(day)
