"""Try filters on the papers of recent days, and describe the results on the settings page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from digest import db
from digest.app_context import AppContext
from digest.errors import BadFilter
from digest.letters import figures_in_words
from digest.papers.display_text import display
from digest.topics import marked_text
from digest.topics.explanation import Explainer
from digest.topics.filter_parser import Filter
from digest.topics.filter_registry import FilterRegistry
from digest.topics.recent_papers import RecentPapers
from digest.web import starter_topics

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


def try_filters(context: AppContext, filters: Iterable[str]) -> Mapping[str, FilterTrial]:
    """Return the results of the valid filters, keyed by filter; empty if there are no recent papers."""
    found: dict[str, FilterTrial] = {}
    with db.read_session(context.engine) as session:
        recent, registry = starter_topics.recent_papers(context, session), FilterRegistry(session)
        for text in filters:
            if recent.days and text not in found:
                with suppress(BadFilter):  # a stored filter may use a paper or pack that has been removed
                    found[text] = make_trial(registry.resolve_text(text), recent)
    return found


def make_trial(filter_: Filter, recent: RecentPapers) -> FilterTrial:
    """Return what a filter matched, described in words."""
    result, explainer = recent.backtest(filter_), Explainer(recent.index)
    notes = (*filter_.warnings, *result.warnings, *result.clause_effects)
    return FilterTrial(
        per_day=result.per_day.median,
        rate=figures_in_words.papers_a_day(result.per_day.median, result.per_day.max),
        sentence=starter_topics.rate_sentence(result.per_day),
        titles=tuple(marked_title(explainer, filter_, number) for number in result.last),
        notes=tuple(dict.fromkeys(notes))[:MAX_NOTES],
    )


def marked_title(explainer: Explainer, filter_: Filter, number: int) -> Markup:
    """Return the title of a matching paper as HTML, with the matched words marked."""
    title = figures_in_words.cut_at_word(display(explainer.index.papers[number].title), MAX_TITLE_LENGTH)
    return marked_text.marked_html(title, "title", explainer.explain(filter_, number).words)
