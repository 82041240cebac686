"""Make the card of a paper: the displayed fields, as a value that every template can render."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from digest.letters import excerpts, figures_in_words
from digest.letters.excerpts import SKIPPED
from digest.letters.headers import one_line
from digest.letters.marked_text import TextRun
from digest.papers import Paper, byline, display, links_of

MAX_TITLE_LENGTH = 300
MAX_WHY_LENGTH = 240
MAX_SPOKEN_LENGTH = 40
ATTRIBUTE_UNSAFE = str.maketrans({'"': "'", "<": " ", ">": " ", "&": "+"})
URL_SAFE = "!#$&'()*+,/:;=?@[]~%"

Span: TypeAlias = tuple[int, int]  #: start and end in a text


class CardForm(StrEnum):
    """The lengths of a card: long digests use shorter cards to fit the size budget."""

    WHOLE = "whole"  #: the whole abstract, for readers who asked for it
    FULL = "full"  #: what the abstract says the paper did, in a sentence or two
    BRIEF = "brief"  #: the first of these sentences
    LINE = "line"  #: the title and the why line

    __hash__ = str.__hash__  # as fast as that of str: a form is a key in every cache of cards


@dataclass(frozen=True, slots=True)
class Link:
    """A link with its label."""

    label: str
    href: str
    about: str = ""  #: read after the label by screen readers, because "PDF" alone does not name the paper


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One paper, ready to be shown; every field but the title and its link may be empty."""

    meta: str
    href: str
    title: tuple[TextRun, ...]
    byline: str
    abstract: tuple[TextRun, ...]
    why: str
    links: tuple[Link, ...]  #: without the title's link
    leads_to: str = ""  #: the label of the title's link in plain text
    is_sample: bool = False  #: a made-up paper

    @property
    def text_links(self) -> tuple[Link, ...]:
        """Return the links of the plain-text card, the title's link first."""
        return (Link(self.leads_to or figures_in_words.TRANSLATIONS.gettext("Read"), self.href), *self.links)

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values, to be stored with a decision."""
        runs_of = {name: [run._asdict() for run in getattr(self, name)] for name in ("title", "abstract")}
        return asdict(self) | runs_of

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Card:
        """Return the card that `to_json` wrote."""
        runs_of = {name: tuple(TextRun(**run) for run in kept[name]) for name in ("title", "abstract")}
        return cls(**{**kept, **runs_of, "links": tuple(Link(**link) for link in kept["links"])})


def make_card(
    paper: Paper,
    *,
    page: str,
    why: Sequence[str] = (),
    words: Iterable[tuple[str, int, int]] = (),
    form: CardForm = CardForm.FULL,
) -> Card:
    """Make the card of `paper`; `page` is the URL of the paper's page on this site.

    `words` are the matched words as (field, start, end) in the displayed title and abstract. If the
    paper has no link, the title links to `page`, which says where to find the paper.
    """
    return with_match(bare_card(paper, page=page, form=form), paper, why=why, words=words, form=form)


def bare_card(paper: Paper, *, page: str, form: CardForm = CardForm.FULL) -> Card:
    """Make a card without the parts that depend on the filter."""
    found = links_of(paper)
    abstract, pdf, code = (safe_url(url) for url in (found.abstract, found.pdf, found.code))
    href, leads_to = title_link(abstract=abstract, pdf=pdf, page=page)
    short = form is CardForm.LINE
    return Card(
        meta="" if short else meta_line(paper),
        href=href,
        title=marked_runs(display_title(paper), ()),
        byline="" if short else one_line(byline(paper)),
        abstract=abstract_runs(paper, (), form),
        why="",
        links=()
        if short
        else link_line(
            pdf=pdf, code=code, page=page, about=attribute_title(display_title(paper)), besides=href
        ),
        leads_to=leads_to,
        is_sample=paper.is_sample,
    )


def with_match(
    card: Card, paper: Paper, *, why: Sequence[str], words: Iterable[tuple[str, int, int]], form: CardForm
) -> Card:
    """Add to a bare card the marks on the words that a filter matched, and the why line."""
    in_title, in_abstract = split_places(words)
    return replace(
        card,
        title=marked_runs(display_title(paper), in_title),
        abstract=abstract_runs(paper, in_abstract, form),
        why=why_line(why),
    )


def split_places(words: Iterable[tuple[str, int, int]]) -> tuple[list[Span], list[Span]]:
    """Return the spans that a filter matched, in the title and in the abstract."""
    in_title, in_abstract = [], []
    for field, start, end in words:
        if field == "title":
            in_title.append((start, end))
        elif field == "abstract":
            in_abstract.append((start, end))
    return in_title, in_abstract


def why_line(why: Sequence[str]) -> str:
    """Return the why line, cut to 240 characters."""
    return figures_in_words.cut_at_word(one_line(" · ".join(why)[: MAX_WHY_LENGTH * 8]), MAX_WHY_LENGTH)


def meta_line(paper: Paper) -> str:
    """Return the category and the date, if known: `cs.LG · 19 Nov 2026`."""
    known = [
        *(one_line(category) for category in paper.categories[:1]),
        *([figures_in_words.short_day(paper.published)] if paper.published else []),
    ]
    return " · ".join(filter(None, known))


def display_title(paper: Paper) -> str:
    """Return the title as readers see it."""
    return figures_in_words.cut_at_word(display(paper.title), MAX_TITLE_LENGTH)


class Excerpt(NamedTuple):
    """The part of an abstract that a card shows."""

    lead: str  #: stands for the text before it
    text: str
    marks: Sequence[Span]  #: in the text


def abstract_runs(paper: Paper, marks: Sequence[Span], form: CardForm) -> tuple[TextRun, ...]:
    """Return the part of an abstract that a card shows, as marked and unmarked runs."""
    lead, text, marks_in_text = excerpt(paper, marks, form)
    return (TextRun(lead), *marked_runs(text, marks_in_text)) if lead else marked_runs(text, marks_in_text)


def excerpt(paper: Paper, marks: Sequence[Span], form: CardForm) -> Excerpt:
    """Return the part of an abstract that a card of this form shows, with the marks in it."""
    lead, text = shown_parts(paper, form)
    start = display(paper.abstract).find(text.removesuffix("…"))
    in_excerpt = [(max(one, start) - start, other - start) for one, other in marks if other > start]
    return Excerpt(lead, text, in_excerpt)


def shown_abstract(paper: Paper, form: CardForm = CardForm.FULL) -> str:
    """Return the words of the abstract that a card of this form shows: the same for every reader."""
    return "".join(shown_parts(paper, form))


def shown_parts(paper: Paper, form: CardForm) -> tuple[str, str]:
    """Return what a card shows of an abstract, split into what stands for the text before it and the text."""
    if form is CardForm.LINE or not paper.abstract:
        return "", ""
    return excerpt_of(paper.abstract, summary_label(paper), form)


@lru_cache(maxsize=4096)  # the papers of a press in a form or two; called for every filter that matched
def excerpt_of(abstract: str, label: str, form: CardForm) -> tuple[str, str]:
    """Return the excerpt of a raw abstract as (lead, text); a machine's summary has its label as lead."""
    text, max_sentences = display(abstract), 1 if form is CardForm.BRIEF else 2
    if form is CardForm.WHOLE:
        return label, text
    if label:
        max_length = excerpts.MAX_EXCERPT_LENGTH - len(label)
        return label, excerpts.opening(text, max_sentences=max_sentences, max_length=max_length)
    shown = excerpts.excerpt(text, max_sentences=max_sentences)
    rest = shown.removeprefix(SKIPPED) if not text.startswith(SKIPPED) else shown
    return shown[: len(shown) - len(rest)], rest


def summary_label(paper: Paper) -> str:
    """Return the words before a machine's summary, which name its maker; "" for the authors' abstract."""
    if not paper.summary_by:
        return ""
    return figures_in_words.TRANSLATIONS.gettext("AI summary, %s: ") % paper.summary_by


def marked_runs(text: str, spans: Iterable[Span]) -> tuple[TextRun, ...]:
    """Return `text` as marked and unmarked runs; spans beyond its end are ignored."""
    made: list[TextRun] = []
    reached = 0
    for start, end in clip_spans(spans, len(text)):
        if reached < start:
            made.append(TextRun(text[reached:start]))
        made.append(TextRun(text[start:end], is_marked=True))
        reached = end
    if reached < len(text):
        made.append(TextRun(text[reached:]))
    return tuple(made)


def clip_spans(spans: Iterable[Span], length: int) -> list[Span]:
    """Return the spans in order, without overlaps, cut at `length`."""
    made: list[Span] = []
    reached = 0
    for first, last in sorted(spans):
        start, end = max(first, reached), min(last, length)
        if start < end:
            made.append((start, end))
            reached = end
    return made


def safe_url(url: str | None) -> str | None:
    """Return an http(s) URL with unsafe characters quoted, or None for anything else."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return quote(url.strip(), safe=URL_SAFE)


def title_link(*, abstract: str | None, pdf: str | None, page: str) -> tuple[str, str]:
    """Return the URL and label of the title's link: abstract, else PDF, else the page on this site."""
    _ = figures_in_words.TRANSLATIONS.gettext
    offered = ((abstract, _("Read")), (pdf, _("PDF")))
    return next(((href, label) for href, label in offered if href), (page, _("Find it")))


def link_line(*, pdf: str | None, code: str | None, page: str, about: str, besides: str) -> tuple[Link, ...]:
    """Return the links that exist, except the title's link."""
    _ = figures_in_words.TRANSLATIONS.gettext
    offered = ((_("PDF"), pdf), (_("Code"), code), (_("Cite"), f"{page}#cite"))
    return tuple(Link(label, href, about) for label, href in offered if href and href != besides)


def attribute_title(title: str) -> str:
    """Return the beginning of a title for an HTML attribute, without characters that need escaping."""
    return ": " + figures_in_words.cut_at_word(one_line(title.translate(ATTRIBUTE_UNSAFE)), MAX_SPOKEN_LENGTH)
