"""Try filters on the papers of recent days, and say how many papers a day they find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from digest import plurals
from digest.errors import BadFilter
from digest.letters import figures_in_words
from digest.papers.display_text import display
from digest.subscribers import recent_papers as topic_papers
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.recent_papers import RecentPapers
from digest.topics import explanation, filter_parser, marked_text
from digest.topics.filter_backtest import PerDay
from digest.topics.filter_parser import Filter
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web.visits import Visit

MAX_TITLE_LENGTH = 110
MAX_NOTES = 6  #: maximum number of notes, which are warnings and effects of clauses


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterTrial:
    """What a filter matched on recent days."""

    per_day: float  #: number of matching papers on a typical day
    rate: str  #: the number per day in short form, such as `about 4 papers a day`
    sentence: str  #: the number per day in full, such as `About 4 papers a day (based on 31 days so far)`
    titles: tuple[Markup, ...]  #: titles of the latest matches as HTML, with the matched words marked
    notes: tuple[str, ...]  #: warnings, and the effect of each clause of the filter


def recent_papers(visit: Visit) -> RecentPapers:
    """Return the papers of recent days, cached until the catalog or the day changes."""
    return topic_papers.recent_papers(visit.session, visit.context.caches, now=visit.now)


def try_filters(visit: Visit, filters: Iterable[str]) -> Mapping[str, FilterTrial]:
    """Return the results of the valid filters, keyed by filter; empty if there are no recent papers."""
    found: dict[str, FilterTrial] = {}
    recent, registry = recent_papers(visit), FilterRegistry(visit.session)
    for text in filters:
        if recent.days and text not in found:
            with suppress(BadFilter):  # a stored filter may use a paper or pack that has been removed
                found[text] = make_trial(registry.resolve_text(text), recent)
    return found


def make_trial(filter_: Filter, recent: RecentPapers) -> FilterTrial:
    """Return what a filter matched, described in words."""
    result, explainer = recent.backtest(filter_), explanation.Explainer(recent.index)
    notes = (*filter_.warnings, *result.warnings, *result.clause_effects)
    titles = []
    for number in result.last:
        title = figures_in_words.cut_at_word(display(recent.index.papers[number].title), MAX_TITLE_LENGTH)
        titles.append(marked_text.marked_html(title, "title", explainer.explain(filter_, number).words))
    return FilterTrial(
        per_day=result.per_day.median,
        rate=figures_in_words.papers_a_day(result.per_day.median, result.per_day.max),
        sentence=rate_sentence(result.per_day),
        titles=tuple(titles),
        notes=tuple(dict.fromkeys(notes))[:MAX_NOTES],
    )


def rate_sentence(per_day: PerDay) -> str:
    """Return a sentence such as `About 4 papers a day (based on 31 days so far)`."""
    usual = figures_in_words.papers_a_day(per_day.median, per_day.max)
    return f"{usual[0].upper()}{usual[1:]} (based on {plurals.count(per_day.days, 'day')} so far)"


def starter_rates(visit: Visit) -> list[tuple[str, str]]:
    """Return the starter topics, each with its papers a day, cached until the catalog or the day changes."""

    def make() -> list[tuple[str, str]]:
        recent = recent_papers(visit)
        rates = {
            name: recent.backtest(filter_parser.parse(text)).per_day for name, text in STARTER_TOPICS.items()
        }
        return [(name, rate_figure(per_day)) for name, per_day in rates.items()]

    return visit.cached("starter rates", make)


def rate_figure(per_day: PerDay) -> str:
    """Return papers a day as a short figure: `4`, or `<1` if fewer than half of the days have a paper."""
    if not per_day.median and per_day.max:
        return "<1"
    return f"{per_day.median:g}" if per_day.days else ""
