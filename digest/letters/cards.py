"""Make the card of a paper: the displayed fields, as a value that every template can render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from digest.letters import excerpts, figures_in_words, line_wrapping
from digest.letters.headers import break_addresses, one_line
from digest.letters.reason_lines import NO_REASON, PrintedText, ReasonLine, readable
from digest.letters.sentence_ends import sentence_ends
from digest.papers.bylines import byline
from digest.papers.display_text import display
from digest.papers.paper_record import Paper, links_of

MAX_TITLE_LENGTH = 300
MAX_BARE_TITLE = 80  #: maximum length of a title that stands alone
MAX_HREF = 200  #: a longer address is replaced by that of the paper's page on this site
MAX_CATEGORY_LENGTH = 40
READERS_LABELS = ("Save", "Less like this")  #: labels of the links whose URLs differ by reader
URL_SAFE = "!#$&'()*+,/:;=?@[]~%"


class CardForm(StrEnum):
    """The lengths of a card: long digests use shorter cards to fit the size budget."""

    WHOLE = "whole"  #: the whole abstract, for readers who chose whole abstracts
    CUT = "cut"  #: the same excerpt as in FULL, with a link to the whole abstract
    FULL = "full"  #: an excerpt: one or two sentences that say what the paper did
    BRIEF = "brief"  #: an excerpt of one sentence
    LINE = "line"  #: the title, the quiet line and the links
    TITLE = "title"  #: the title alone, cut; fifty of them fit any letter

    __hash__ = str.__hash__  # faster than the hash of Enum; forms are part of many cache keys


@dataclass(frozen=True, slots=True)
class Link:
    """A link on a card, with its label."""

    label: str
    href: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Card:
    """The content of a paper's card; all fields except `href` may be empty.

    A card is a key of the letters' cached parts, so it equals only itself.
    """

    meta: str
    href: str
    title: str
    abstract: str
    why: ReasonLine  #: the reason line, the only field that depends on the filter
    links: tuple[Link, ...]  #: the links below the abstract, without the title's link
    is_sample: bool = False  #: whether the paper is an invented sample

    @property
    def text_links(self) -> tuple[Link, ...]:
        """Return the links of the plain-text card, the title's link first.

        The links that differ from reader to reader are left out: the letter's footer explains them in one
        line instead.
        """
        return tuple([link for link in self.links if link.label not in READERS_LABELS])

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """Return the paragraphs of the abstract."""
        return tuple(filter(None, self.abstract.split("\n")))

    def to_json(self) -> dict[str, Any]:
        """Return the card as a JSON object, to be stored with a delivery."""
        return cast(dict[str, Any], msgspec.to_builtins(self))

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Card:
        """Return the card from a JSON object that `to_json` returned."""
        return msgspec.convert(kept, cls)


def make_card(
    paper: Paper,
    *,
    page: str,
    why: ReasonLine = NO_REASON,
    form: CardForm = CardForm.FULL,
    save_url: str = "",
    less_url: str = "",
    today: date | None = None,
) -> Card:
    """Make the card of `paper`; `page` is the URL of the paper's page on this site.

    If the paper has no link, the title links to `page`, which says where to find the paper.
    """
    found = links_of(paper)
    abstract, pdf, code = (short_url(url) for url in (found.abstract, found.pdf, found.code))
    href, leads_to = abstract or pdf or page, "Read" if abstract or pdf else "Details"
    if form is CardForm.TITLE:
        title = figures_in_words.cut_at_word(display_title(paper), MAX_BARE_TITLE)
        return Card(
            meta=quiet_day(paper, today),
            href=href,
            title=title,
            abstract="",
            why=NO_REASON,
            links=(),
            is_sample=paper.is_sample,
        )
    whole = (("Whole abstract", page),) if form is CardForm.CUT and paper.abstract else ()
    return Card(
        meta=quiet_line(paper, today),
        href=href,
        title=display_title(paper),
        abstract=shown_abstract(paper, form),
        why=why,
        links=link_line(
            (leads_to, href),
            *(("PDF", pdf), ("Code", code), *whole),
            *(readers_links(paper.id, save_url, less_url) or (("Cite", f"{page}#cite"),)),
        ),
        is_sample=paper.is_sample,
    )


def link_text(link: Link) -> str:
    """Return a link in plain text: on one line if it fits, else the URL on its own line."""
    line = f"{link.label}: {link.href}"
    return line if len(line) <= line_wrapping.LINE_WIDTH else f"{link.label}:\n{link.href}"


def printed_text(paper: Paper, form: CardForm) -> PrintedText:
    """Return the positions of the parts of a paper's title and abstract that a card of this form prints."""
    shown = shown_parts(paper, form)[1].removesuffix("…").replace("\n", " ")
    start = max(readable(paper.abstract).find(shown[1:]) - 1, 0)  # its first letter may be a capital
    return PrintedText(len(display_title(paper)), start, start + len(shown))


def quiet_line(paper: Paper, today: date | None = None) -> str:
    """Return the people, the date and the category, each if known: `Ito, Lind + 4 · 19 Nov 2026 · cs.LG`."""
    known = [
        break_addresses(one_line(byline(paper))) if paper.authors or paper.organization else "",
        quiet_day(paper, today),
        *(one_line(category[:MAX_CATEGORY_LENGTH]) for category in paper.categories[:1]),
    ]
    return " · ".join(filter(None, known))


def quiet_day(paper: Paper, today: date | None) -> str:
    """Return the date of a paper, or else when it was first listed."""
    if paper.published:
        return figures_in_words.short_day(paper.published)
    return figures_in_words.listed_on(paper.first_seen_at, today)


def display_title(paper: Paper) -> str:
    """Return a paper's title as letters print it, cut to `MAX_TITLE_LENGTH` characters."""
    return figures_in_words.cut_at_word(display(paper.title), MAX_TITLE_LENGTH)


def shown_abstract(paper: Paper, form: CardForm = CardForm.FULL) -> str:
    """Return the part of the abstract that a card of this form shows; it is the same for every reader."""
    return "".join(shown_parts(paper, form))


def shown_parts(paper: Paper, form: CardForm) -> tuple[str, str]:
    """Return the shown part of an abstract as (lead, text); the lead is a label or empty."""
    if form in {CardForm.LINE, CardForm.TITLE} or not paper.abstract:
        return "", ""
    return excerpt_of(paper.abstract, summary_label(paper), form)


def summary_label(paper: Paper) -> str:
    """Return the label that names the author of an AI summary; "" for the authors' abstract."""
    return f"AI summary, {paper.summary_by}: " if paper.summary_by else ""


@lru_cache(maxsize=4096)  # holds each paper of a press in one or two forms
def excerpt_of(abstract: str, label: str, form: CardForm) -> tuple[str, str]:
    """Return the excerpt of a raw abstract as (lead, text); the lead of an AI summary is its label."""
    text, max_sentences = readable(abstract), 1 if form is CardForm.BRIEF else 2
    if form is CardForm.WHOLE:
        ends = [0, *sentence_ends(text)[2::3], len(text)]  # paragraphs of three sentences
        return label, "\n".join(part for start, end in pairwise(ends) if (part := text[start:end].strip()))
    if label:
        max_length = excerpts.MAX_EXCERPT_LENGTH - len(label)
        return label, excerpts.opening(text, max_sentences=max_sentences, max_length=max_length)
    return "", excerpts.excerpt(text, max_sentences=max_sentences)


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


def short_url(url: str | None) -> str | None:
    """Return a safe URL that is not too long for a letter, or None."""
    safe = safe_url(url)
    return safe if safe and len(safe) <= MAX_HREF else None


def readers_links(paper_id: int, save_url: str, less_url: str) -> tuple[tuple[str, str], ...]:
    """Return the labels and URLs of the links that differ by reader, or () if `save_url` is empty."""
    return (
        tuple(zip(READERS_LABELS, (f"{save_url}/{paper_id}", f"{less_url}/{paper_id}"), strict=True))
        if save_url
        else ()
    )


def link_line(*offered: tuple[str, str | None]) -> tuple[Link, ...]:
    """Return the links below a card's abstract, each URL once."""
    known = {url: label for label, url in reversed(offered) if url}
    return tuple([Link(label, url) for label, url in offered if url and known[url] == label])
