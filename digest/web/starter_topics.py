"""Choose among the starter topics, and count the recent matches of a filter."""

from __future__ import annotations

from collections.abc import Iterable

from digest.app_context import AppContext
from digest.db import Session
from digest.letters import figures_in_words
from digest.topics import filter_parser
from digest.topics import recent_papers as topic_papers
from digest.topics.filter_backtest import PerDay
from digest.topics.recent_papers import RecentPapers
from digest.topics.starter_filters import STARTER_TOPICS


def recent_papers(context: AppContext, session: Session) -> RecentPapers:
    """Return the papers of recent days, cached until the catalog or the day changes."""
    return topic_papers.recent_papers(session, context.caches, now=context.clock())


def topics_with_rates(recent: RecentPapers) -> list[tuple[str, str]]:
    """Return the starter topics, each with its number of papers a day."""
    return [
        (name, rate_figure(recent.backtest(filter_parser.parse(text)).per_day))
        for name, text in STARTER_TOPICS.items()
    ]


def rate_figure(per_day: PerDay) -> str:
    """Return papers a day as a short figure: `4`, or `<1` if fewer than half of the days have a paper."""
    if not per_day.median and per_day.max:
        return "<1"
    return f"{per_day.median:g}" if per_day.days else ""


def chosen_topics(names: Iterable[object]) -> dict[str, str]:
    """Return {name: filter} for the starter topics among `names`."""
    chosen = set(names)
    return {name: text for name, text in STARTER_TOPICS.items() if name in chosen}


def rate_sentence(per_day: PerDay) -> str:
    """Return a sentence such as `About 4 papers a day (based on 31 days so far)`."""
    ngettext = figures_in_words.TRANSLATIONS.ngettext
    usual = figures_in_words.papers_a_day(per_day.median, per_day.max)
    days = ngettext("based on %d day so far", "based on %d days so far", per_day.days) % per_day.days
    return f"{usual[0].upper()}{usual[1:]} ({days})"
