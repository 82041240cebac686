"""Show the papers that the chosen topics would have sent, before the visitor enters an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count, zip_longest

from digest.letters import cards, figures_in_words
from digest.letters.press.load_templates import letters_of
from digest.letters.press.press_value import Press
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper
from digest.process.caches import Caches
from digest.publishing import visitor_sample, welcome_papers
from digest.publishing.visitor_sample import SampleDigest
from digest.site.links import paper_url
from digest.subscribers import subscriber_topics
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import example_topics, example_words, filter_backtest, filter_parser, plain_words
from digest.topics.filter_backtest import PerDay
from digest.topics.filter_parser import Filter
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web import topic_trials
from digest.web.sign_up_form import MAX_NAME, SignUpForm
from digest.web.visits import Visit

MAX_TITLES = 5
MAX_LATEST = 100  #: maximum number of latest matches examined to find titles that pages may show
MAX_CACHED = 512  #: maximum number of previews in the cache
OLD_DAYS = 366  #: age in days from which the year of a paper is shown

PER_MINUTE = 60  #: maximum number of previews per minute for one network
#: Maximum number of previews per minute for all visitors from unknown networks together.
PER_MINUTE_UNKNOWN = 300
UPLOAD_COST = 10  #: an uploaded library counts as this many previews
MAX_NETWORKS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewTitle:
    """The title of a paper that the topics would have sent."""

    title: str
    href: str
    year: str = ""  #: the year of publication if the paper is old, else empty


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedTopic:
    """A chosen topic that is not a starter topic."""

    name: str
    filter: str
    notes: tuple[str, ...]  #: mistakes in its filter, and the effect of each clause
    is_liked: bool = False  #: whether the topic was made from papers that the visitor likes


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicPreview:
    """The papers that the chosen topics would have sent, and how many a day."""

    rate: str
    heading: str
    titles: tuple[PreviewTitle, ...]
    tried: tuple[TriedTopic, ...]
    readings: str  #: how plain words are read, and what both readings find; empty for any other filter


# ── the topics of a form ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenTopics:
    """The topics that a visitor chose in a form."""

    filters: Mapping[str, str]  #: the filters as the visitor wrote them, keyed by topic name
    tried: tuple[str, ...]  #: the names of the chosen topics that are not starter topics
    liked: str = ""  #: the name of the topic made from liked papers; empty if there is none
    typed: str = ""  #: the visitor's own filter as typed


def chosen_topics(visit: Visit, form: SignUpForm) -> ChosenTopics:
    """Return the topics of the form: starter topics, liked papers, a library, and the visitor's own filter."""
    chosen = {name: STARTER_TOPICS[name] for name in form.interests}
    found = {paper.id: paper for paper in queries.papers(visit.session, ids=sorted(form.liked))}
    shown = [found[number] for number in form.liked if number in found]
    liked = [paper for paper in shown if visit.context.public_rules.public_copy(paper)]
    own = [(one.name, one.filter) for one in form.chosen_topics]
    if liked:
        example = example_topics.topic_like(liked)
        own.insert(0, (example.name[:MAX_NAME], example.filter))
    if form.filter:
        own.append((figures_in_words.cut_at_word(form.filter, 60), plain_words.as_filter(form.filter)))
    for name, text in own:
        chosen[subscriber_topics.free_name(name, chosen)] = text
    tried = tuple(chosen)[len(form.interests) :]
    return ChosenTopics(filters=chosen, tried=tried, liked=tried[0] if liked else "", typed=form.filter)


# ── the preview ─────────────────────────────────────────────────────────────────────────────────


def preview_topics(visit: Visit, chosen: ChosenTopics, requested: ReaderSettings) -> TopicPreview:
    """Return a preview of these topics, cached until the catalog or the day changes.

    Raises BadFilter if a filter is invalid. Only one thread at a time computes a preview, so visitors who try
    many filters cannot use up all processors.
    """
    registry = FilterRegistry(visit.session)
    filters = {name: registry.resolve_text(text) for name, text in chosen.filters.items()}
    names = tuple((name, chosen.filters[name], one.canonical) for name, one in filters.items())
    return visit.cached(
        "topic previews",
        lambda: make_preview(visit, chosen, filters, requested),
        names, chosen.tried, chosen.liked, chosen.typed, requested.columns["max_papers"],
        bound=MAX_CACHED,
    )  # fmt: skip


def make_preview(
    visit: Visit, chosen: ChosenTopics, filters: Mapping[str, Filter], requested: ReaderSettings
) -> TopicPreview:
    """Return the preview: the figures of the last month, and the titles of a digest sent now."""
    recent, public = topic_trials.recent_papers(visit), visit.context.public_rules.public_copies
    found = filter_backtest.compare_filters(
        None, filter_parser.any_of(filters.values()) if filters else None, recent.index, recent.days
    )
    press, sample = sample_of(visit, requested, filters)
    rounds = zip_longest(*(section.papers for section in sample.digest.sections))
    in_turn = [number for some in rounds for number in some if number is not None]
    papers = public(press.papers[press.rank_of_paper[number]] for number in in_turn)
    latest = public(recent.index.papers[number] for number in found.gained[:MAX_LATEST])
    most = requested.columns["max_papers"]
    tried = []
    for name in chosen.tried:
        notes = topic_trials.make_trial(filters[name], recent).notes
        tried.append(
            TriedTopic(
                name=name,
                filter=example_words.without_words(chosen.filters[name]),
                notes=tuple(note for note in notes if not note.startswith("Based on")),
                is_liked=name == chosen.liked,
            )
        )
    return TopicPreview(
        rate=rate_sentence(found.after, most) if filters else f"The {most} most trending papers of the day",
        heading=preview_heading(is_new=bool(papers), is_today=sample.is_from_last_day)
        if papers or latest
        else "",
        titles=tuple(preview_title(visit, paper) for paper in (papers or latest)[:MAX_TITLES]),
        tried=tuple(tried),
        readings=plain_words.both_readings(chosen.typed, recent.index),
    )


def sample_of(
    visit: Visit, requested: ReaderSettings, filters: Mapping[str, Filter]
) -> tuple[Press, SampleDigest]:
    """Return the press of recent papers, and the digest of it that these topics would get now."""
    recent = welcome_papers.of_recent_papers(visit.context.publication(visit.session, visit.now))
    return recent.press, visitor_sample.sample_digest(recent, requested, filters)


def sample_as_email(visit: Visit, requested: ReaderSettings) -> str | None:
    """Return the letter that these topics would get now as HTML; None if no paper matches."""
    context, registry = visit.context, FilterRegistry(visit.session)
    filters = {name: registry.resolve_text(text) for name, text in (requested.topics or {}).items()}
    press, sample = visitor_sample.public_sample(*sample_of(visit, requested, filters), context.public_rules)
    if not sample.digest.sections:
        return None
    letters = letters_of(press, visit.site, context.templates, context.caches)
    return visitor_sample.sample_letter(letters, sample, requested, now=visit.now).html


def preview_title(visit: Visit, paper: Paper) -> PreviewTitle:
    """Return a paper's title and link, and its year if it was published more than a year ago."""
    card, born = cards.make_card(paper, page=paper_url(visit.site, paper.id)), paper.published
    is_old = born is not None and (visit.now.date() - born).days > OLD_DAYS
    return PreviewTitle(title=card.title, href=card.href, year=f"{born.year}" if born and is_old else "")


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def rate_sentence(per_day: PerDay, max_papers: int) -> str:
    """Return a sentence such as `About 6 papers a day (11 on the busiest of 31 days)`."""
    usual, _bracket, basis = topic_trials.rate_sentence(per_day).partition(" (")
    if per_day.days > 1:
        basis = f"{per_day.max} on the busiest of {per_day.days} days)"
    if per_day.median > max_papers:
        usual = f"{usual}; you get the best {max_papers}"
    return f"{usual} ({basis}"


def preview_heading(*, is_new: bool, is_today: bool) -> str:
    """Return the heading shown above the titles."""
    if not is_new:
        return "Nothing new this week. The latest matches:"
    return "You would get these now:" if is_today else "You would get these from the past week:"


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def is_allowed(caches: Caches, network: str | None, now: datetime, *, cost: int = 1) -> bool:
    """Count a preview request; return False if its network has used up its previews for this minute."""
    minute = int(now.timestamp()) // 60
    counted = caches.get_or_make("preview counts", (network, minute), count, bound=MAX_NETWORKS)
    used = max(next(counted) for _ in range(cost))
    return used < (PER_MINUTE if network else PER_MINUTE_UNKNOWN)
