"""Make the card of a paper: the displayed fields, as a value that every template can render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from digest.letters import excerpts, figures_in_words, line_wrapping
from digest.letters.excerpts import SKIPPED
from digest.letters.headers import break_addresses, one_line
from digest.letters.reason_lines import NO_REASON, PrintedText, ReasonLine, readable
from digest.papers import Paper, byline, display, links_of

MAX_TITLE_LENGTH = 300
MAX_SPOKEN_LENGTH = 40
MAX_CATEGORY_LENGTH = 40
_ = figures_in_words.TRANSLATIONS.gettext
READERS_LABELS = (_("Save"), _("Less like this"))  #: labels of the links whose URLs differ by reader
ATTRIBUTE_UNSAFE = str.maketrans({'"': "'", "<": " ", ">": " ", "&": "+"})
URL_SAFE = "!#$&'()*+,/:;=?@[]~%"


class CardForm(StrEnum):
    """The lengths of a card: long digests use shorter cards to fit the size budget."""

    WHOLE = "whole"  #: the whole abstract, for readers who chose whole abstracts
    FULL = "full"  #: an excerpt: one or two sentences that say what the paper did
    BRIEF = "brief"  #: an excerpt of one sentence
    LINE = "line"  #: the category, the date, the title and the reason line

    __hash__ = str.__hash__  # faster than the hash of Enum; forms are part of many cache keys


@dataclass(frozen=True, slots=True)
class Link:
    """A link on a card, with its label."""

    label: str
    href: str
    #: text that screen readers read after the label, because "PDF" alone does not name the paper
    about: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Card:
    """The content of a paper's card; all fields except `meta` and `href` may be empty.

    A card is a key of the letters' cached parts, so it equals only itself.
    """

    meta: str
    href: str
    title: str
    byline: str
    abstract: str
    why: ReasonLine  #: the reason line, the only field that depends on the filter
    links: tuple[Link, ...]  #: the links below the abstract, without the title's link
    leads_to: str = ""  #: the label of the title's link in the plain-text card
    is_sample: bool = False  #: whether the paper is an invented sample

    @property
    def text_links(self) -> tuple[Link, ...]:
        """Return the links of the plain-text card, the title's link first.

        The links that differ from reader to reader are left out: the letter's footer explains them in one
        line instead.
        """
        shared = [link for link in self.links if link.label not in READERS_LABELS]
        return (Link(self.leads_to or _("Read"), self.href), *shared)

    def to_json(self) -> dict[str, Any]:
        """Return the card as a JSON object, to be stored with a delivery."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Card:
        """Return the card from a JSON object that `to_json` returned."""
        why, found = ReasonLine(*kept["why"]), tuple(Link(**link) for link in kept["links"])
        return cls(**{**kept, "why": why, "links": found})


def make_card(
    paper: Paper,
    *,
    page: str,
    why: ReasonLine = NO_REASON,
    form: CardForm = CardForm.FULL,
    save_url: str = "",
    less_url: str = "",
) -> Card:
    """Make the card of `paper`; `page` is the URL of the paper's page on this site.

    If the paper has no link, the title links to `page`, which says where to find the paper.
    """
    found = links_of(paper)
    abstract, pdf, code = (safe_url(url) for url in (found.abstract, found.pdf, found.code))
    href, leads_to = title_link(abstract=abstract, pdf=pdf, page=page)
    short = form is CardForm.LINE
    meta, written_by = meta_line(paper), break_addresses(one_line(byline(paper)))
    return Card(
        meta=meta or written_by or figures_in_words.listed_on(paper.first_seen_at),
        href=href,
        title=display_title(paper),
        byline="" if short or not meta else written_by,
        abstract=shown_abstract(paper, form),
        why=why,
        links=()
        if short
        else link_line(
            pdf=pdf,
            code=code,
            offered=readers_links(paper.id, save_url, less_url) or ((_("Cite"), f"{page}#cite"),),
            about=attribute_title(display_title(paper)),
            besides=href,
        ),
        leads_to=leads_to,
        is_sample=paper.is_sample,
    )


def link_text(link: Link) -> str:
    """Return a link in plain text: on one line if it fits, else the URL on its own line."""
    line = f"{link.label}: {link.href}"
    return line if len(line) <= line_wrapping.LINE_WIDTH else f"{link.label}:\n{link.href}"


def printed_text(paper: Paper, form: CardForm) -> PrintedText:
    """Return the positions of the parts of a paper's title and abstract that a card of this form prints."""
    shown = shown_parts(paper, form)[1].removesuffix("…")
    start = max(readable(paper.abstract).find(shown), 0)
    return PrintedText(len(display_title(paper)), start, start + len(shown))


def meta_line(paper: Paper) -> str:
    """Return the category and the date, each if known: `cs.LG · 19 Nov 2026`."""
    known = [
        *(one_line(category[:MAX_CATEGORY_LENGTH]) for category in paper.categories[:1]),
        *([figures_in_words.short_day(paper.published)] if paper.published else []),
    ]
    return " · ".join(filter(None, known))


def display_title(paper: Paper) -> str:
    """Return a paper's title as letters print it, cut to `MAX_TITLE_LENGTH` characters."""
    return figures_in_words.cut_at_word(display(paper.title), MAX_TITLE_LENGTH)


def shown_abstract(paper: Paper, form: CardForm = CardForm.FULL) -> str:
    """Return the part of the abstract that a card of this form shows; it is the same for every reader."""
    return "".join(shown_parts(paper, form))


def shown_parts(paper: Paper, form: CardForm) -> tuple[str, str]:
    """Return the shown part of an abstract as (lead, text); the lead is an ellipsis, a label or empty."""
    if form is CardForm.LINE or not paper.abstract:
        return "", ""
    return excerpt_of(paper.abstract, summary_label(paper), form)


@lru_cache(maxsize=4096)  # holds each paper of a press in one or two forms
def excerpt_of(abstract: str, label: str, form: CardForm) -> tuple[str, str]:
    """Return the excerpt of a raw abstract as (lead, text); the lead of an AI summary is its label."""
    text, max_sentences = readable(abstract), 1 if form is CardForm.BRIEF else 2
    if form is CardForm.WHOLE:
        return label, text
    if label:
        max_length = excerpts.MAX_EXCERPT_LENGTH - len(label)
        return label, excerpts.opening(text, max_sentences=max_sentences, max_length=max_length)
    shown = excerpts.excerpt(text, max_sentences=max_sentences)
    rest = shown.removeprefix(SKIPPED) if not text.startswith(SKIPPED) else shown
    return shown[: len(shown) - len(rest)], rest


def summary_label(paper: Paper) -> str:
    """Return the label that names the author of an AI summary; "" for the authors' abstract."""
    if not paper.summary_by:
        return ""
    return _("AI summary, %s: ") % paper.summary_by


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
    """Return the URL and label of the title's link.

    The link leads to the abstract, else to the PDF, else to the paper's page on this site.
    """
    offered = ((abstract, _("Read")), (pdf, _("PDF")))
    return next(((href, label) for href, label in offered if href), (page, _("Find it")))


def readers_links(paper_id: int, save_url: str, less_url: str) -> tuple[tuple[str, str], ...]:
    """Return the labels and URLs of the links that differ by reader, or () if `save_url` is empty."""
    return (
        tuple(zip(READERS_LABELS, (f"{save_url}/{paper_id}", f"{less_url}/{paper_id}"), strict=True))
        if save_url
        else ()
    )


def link_line(
    *, pdf: str | None, code: str | None, offered: tuple[tuple[str, str], ...], about: str, besides: str
) -> tuple[Link, ...]:
    """Return the links below a card's abstract, without the link that the title already has."""
    found = ((_("PDF"), pdf), (_("Code"), code), *offered)
    return tuple(Link(label, href, about) for label, href in found if href and href != besides)


def attribute_title(title: str) -> str:
    """Return the beginning of a title for an HTML attribute, without characters that need escaping."""
    return ": " + figures_in_words.cut_at_word(one_line(title.translate(ATTRIBUTE_UNSAFE)), MAX_SPOKEN_LENGTH)
