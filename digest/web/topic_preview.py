"""Show the papers that the chosen topics would have sent, before the visitor enters an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, zip_longest

from digest.app_context import AppContext
from digest.db import Session
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
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import example_words, filter_backtest, filter_parser
from digest.topics.filter_backtest import Backtest, PerDay
from digest.topics.filter_parser import Filter
from digest.topics.filter_registry import FilterRegistry
from digest.web import starter_topics
from digest.web.sign_up_form import SignUpForm
from digest.web.sign_up_suggestions import topic_of_liked

MAX_TITLES = 5
MAX_LATEST = 100  #: maximum number of latest matches examined to find titles that pages may show
MAX_EFFECTS = 12  #: maximum number of clauses of a filter whose effect is shown
MAX_NOTES = 6  #: maximum number of notes about mistakes in a filter
MAX_CACHED = 512  #: maximum number of previews in the cache
OLD_YEARS = 1  #: age in years from which the year of a paper is shown

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
    """A chosen topic that is not a starter topic, with the effect of each clause of its filter."""

    name: str
    filter: str
    effects: tuple[tuple[str, str], ...]  #: (clause, effect)
    notes: tuple[str, ...]
    is_liked: bool = False  #: whether the topic was made from papers that the visitor likes


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicPreview:
    """The papers that the chosen topics would have sent, and how many a day."""

    rate: str
    heading: str
    titles: tuple[PreviewTitle, ...]
    tried: tuple[TriedTopic, ...]


# ── the topics of a form ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenTopics:
    """The topics that a visitor chose in a form."""

    filters: Mapping[str, str]  #: the filters as the visitor wrote them, keyed by topic name
    tried: tuple[str, ...]  #: the names of the chosen topics that are not starter topics
    liked: str = ""  #: the name of the topic made from liked papers; empty if there is none


def chosen_topics(context: AppContext, session: Session, form: SignUpForm) -> ChosenTopics:
    """Return the topics of the form: starter topics, liked papers, a library, and the visitor's own filter."""
    chosen = dict(starter_topics.chosen_topics(form.interests))
    starters, liked = len(chosen), ""
    if found := topic_of_liked(context, session, form.liked):
        liked = add_topic(chosen, found.name, found.filter)
    for one in form.chosen_topics:
        add_topic(chosen, one.name, one.filter)
    if form.filter:
        add_topic(chosen, figures_in_words.cut_at_word(form.filter, 60), form.filter)
    return ChosenTopics(filters=chosen, tried=tuple(chosen)[starters:], liked=liked)


def add_topic(chosen: dict[str, str], name: str, text: str) -> str:
    """Add a topic and return its name, to which a number is added if the name is taken."""
    free = subscriber_topics.free_name(name, chosen)
    chosen[free] = text
    return free


# ── the preview ─────────────────────────────────────────────────────────────────────────────────


def preview_topics(
    context: AppContext, session: Session, chosen: ChosenTopics, requested: ReaderSettings
) -> TopicPreview:
    """Return a preview of these topics, cached until the catalog or the day changes.

    Raises BadFilter if a filter is invalid. Only one thread at a time computes a preview, so visitors who try
    many filters cannot use up all processors.
    """
    registry = FilterRegistry(session)
    filters = {name: registry.resolve_text(text) for name, text in chosen.filters.items()}
    names = tuple((name, chosen.filters[name], one.canonical) for name, one in filters.items())
    key = (
        queries.state(session),
        context.clock().date(),
        names,
        chosen.tried,
        chosen.liked,
        requested.columns["max_papers"],
    )
    return context.caches.get_or_make(
        "topic previews",
        key,
        lambda: make_preview(context, session, chosen, filters, requested),
        bound=MAX_CACHED,
    )


def make_preview(
    context: AppContext,
    session: Session,
    chosen: ChosenTopics,
    filters: Mapping[str, Filter],
    requested: ReaderSettings,
) -> TopicPreview:
    """Return the preview: the figures of the last month, and the titles of a digest sent now."""
    recent = starter_topics.recent_papers(context, session)
    found = filter_backtest.compare_filters(
        None, filter_parser.any_of(filters.values()) if filters else None, recent.index, recent.days
    )
    press, sample = sample_of(context, session, requested, filters)
    papers = public(context, [press.papers[press.rank_of_paper[number]] for number in first_papers(sample)])
    latest = public(context, [recent.index.papers[number] for number in found.gained[:MAX_LATEST]])
    most = requested.columns["max_papers"]
    return TopicPreview(
        rate=rate_sentence(found.after, most) if filters else trending_sentence(most),
        heading=preview_heading(is_new=bool(papers), is_today=sample.is_from_last_day)
        if papers or latest
        else "",
        titles=tuple(preview_title(context, paper) for paper in (papers or latest)[:MAX_TITLES]),
        tried=tuple(
            tried_topic(name, chosen, filters[name], recent.backtest(filters[name])) for name in chosen.tried
        ),
    )


def public(context: AppContext, papers: Sequence[Paper]) -> list[Paper]:
    """Return those papers that pages may show, with only their public fields."""
    copies = map(context.public_rules.public_copy, papers)
    return [paper for paper in copies if paper is not None]


def first_papers(sample: SampleDigest) -> list[int]:
    """Return the papers of a sample: the first paper of each section, then the second of each, and so on."""
    rounds = zip_longest(*(section.papers for section in sample.digest.sections))
    return [paper for some in rounds for paper in some if paper is not None]


def sample_of(
    context: AppContext, session: Session, requested: ReaderSettings, filters: Mapping[str, Filter]
) -> tuple[Press, SampleDigest]:
    """Return the press of recent papers, and the digest of it that these topics would get now."""
    press = welcome_papers.welcome_press(
        session,
        site=context.site,
        templates=context.templates,
        caches=context.caches,
        now=context.clock(),
    )
    sample = visitor_sample.sample_digest(
        session, press, requested, filters, caches=context.caches, now=context.clock()
    )
    return press, sample


def sample_as_email(context: AppContext, session: Session, requested: ReaderSettings) -> str | None:
    """Return the letter that these topics would get now as HTML; None if no paper matches."""
    registry = FilterRegistry(session)
    filters = {name: registry.resolve_text(text) for name, text in (requested.topics or {}).items()}
    press, sample = visitor_sample.public_sample(
        *sample_of(context, session, requested, filters), context.public_rules
    )
    if not sample.digest.sections:
        return None
    letters = letters_of(press, context.site, context.templates, context.caches)
    return visitor_sample.sample_letter(letters, sample, requested, now=context.clock()).html


def preview_title(context: AppContext, paper: Paper) -> PreviewTitle:
    """Return a paper's title and link, and its year if the paper is old."""
    card = cards.make_card(paper, page=paper_url(context.site, paper.id))
    return PreviewTitle(title=card.title, href=card.href, year=old_year(paper, context.clock()))


def old_year(paper: Paper, now: datetime) -> str:
    """Return the year of a paper published more than a year ago, else an empty string."""
    born = paper.published
    is_old = born is not None and (now.date() - born).days > 366 * OLD_YEARS
    return f"{born.year}" if born and is_old else ""


def tried_topic(name: str, chosen: ChosenTopics, filter_: Filter, found: Backtest) -> TriedTopic:
    """Return a topic with the effect of each clause of its filter, and with notes about mistakes in it."""
    effects = [(clause.removeprefix("AND "), effect_in_words(effect)) for clause, effect in found.clauses]
    notes = [note for note in (*filter_.warnings, *found.warnings) if not note.startswith("Based on")]
    return TriedTopic(
        name=name,
        filter=example_words.without_words(chosen.filters[name]),
        effects=tuple(effects[:MAX_EFFECTS]),
        notes=tuple(notes[:MAX_NOTES]),
        is_liked=name == chosen.liked,
    )


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def effect_in_words(effect: float) -> str:
    """Return a clause's effect such as `leaves out 11 papers a day`; `effect` is papers a day."""
    _, ngettext = figures_in_words.TRANSLATIONS.gettext, figures_in_words.TRANSLATIONS.ngettext
    if not effect:
        return _("changes nothing")
    a_day, a_week = abs(effect), max(1, round(abs(effect) * 7))
    if a_day >= 1:
        whole = int(a_day + 0.5)
        often = ngettext("%d paper a day", "%d papers a day", whole) % whole
    else:
        often = ngettext("%d paper a week", "%d papers a week", a_week) % a_week
    return (_("adds %s") if effect > 0 else _("leaves out %s")) % often


def rate_sentence(per_day: PerDay, max_papers: int) -> str:
    """Return a sentence such as `About 6 papers a day (11 on the busiest of 31 days)`."""
    _ = figures_in_words.TRANSLATIONS.gettext
    usual, _bracket, basis = starter_topics.rate_sentence(per_day).partition(" (")
    if per_day.days > 1:
        basis = _("%(most)d on the busiest of %(days)d days)") % {"most": per_day.max, "days": per_day.days}
    if per_day.median > max_papers:
        usual = _("%(usual)s; you get the best %(most)d") % {"usual": usual, "most": max_papers}
    return f"{usual} ({basis}"


def trending_sentence(max_papers: int) -> str:
    """Return the sentence shown for a digest without topics."""
    return figures_in_words.TRANSLATIONS.gettext("The %d most trending papers of the day") % max_papers


def preview_heading(*, is_new: bool, is_today: bool) -> str:
    """Return the heading shown above the titles."""
    _ = figures_in_words.TRANSLATIONS.gettext
    if not is_new:
        return _("Nothing new this week. The latest matches:")
    return _("You would get these now:") if is_today else _("You would get these from the past week:")


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def is_allowed(caches: Caches, network: str | None, now: datetime, *, cost: int = 1) -> bool:
    """Count a preview request; return False if its network has used up its previews for this minute."""
    minute = int(now.timestamp()) // 60
    counted = caches.get_or_make("preview counts", (network, minute), count, bound=MAX_NETWORKS)
    used = max(next(counted) for _ in range(cost))
    return used < (PER_MINUTE if network else PER_MINUTE_UNKNOWN)
