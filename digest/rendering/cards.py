"""Cards: what a reader is shown of one paper, as a value that every template can set."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from digest.papers import Paper, byline, display, links_of
from digest.rendering import words
from digest.rendering.headers import one_line
from digest.rendering.runs import Run

LONGEST_ABSTRACT = 360
LONGEST_TITLE = 300
ELLIPSIS = " … "
LONGEST_WHY = 240
LONGEST_SPOKEN = 40
UNSPOKEN = str.maketrans({'"': "'", "<": " ", ">": " ", "&": "+"})
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]?(?=\s|$)|[。！？]")
#: What may stand before a full stop without ending a sentence.
ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|et al|vs|cf|Fig|Eq|Sec|resp|approx|etc|w\.r\.t|a\.k\.a))\.$"
)
URL_SAFE = "!#$&'()*+,/:;=?@[]~%"

Span: TypeAlias = tuple[int, int]  #: where a stretch of text begins and ends


class Form(StrEnum):
    """How much of a paper a card shows; a long digest must fit its budget."""

    FULL = "full"  #: the abstract to a sentence end
    BRIEF = "brief"  #: its first two sentences
    LINE = "line"  #: the title and why

    __hash__ = str.__hash__  # as fast as text: a form is a key in every cache of cards


@dataclass(frozen=True, slots=True)
class Link:
    """A labelled way to somewhere else."""

    label: str
    href: str
    about: str = ""  #: what a screen reader says after the label: "PDF" alone is no answer to "where to?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One paper, ready to be set: every field may be empty but the title and its link."""

    meta: str
    href: str
    title: tuple[Run, ...]
    byline: str
    abstract: tuple[Run, ...]
    why: str
    links: tuple[Link, ...]  #: beside the title's own: nothing is linked twice
    leads_to: str = ""  #: what the title's link is called in a text, where titles are no links
    is_sample: bool = False  #: the paper is invented

    @property
    def ways(self) -> tuple[Link, ...]:
        """Return the links of a text: the title's own first."""
        return (Link(self.leads_to or words.SPEECH.gettext("Read"), self.href), *self.links)

    def to_json(self) -> dict[str, Any]:
        """Return the card as a decision can keep it."""
        runs_of = {name: [run._asdict() for run in getattr(self, name)] for name in ("title", "abstract")}
        return asdict(self) | runs_of

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Card:
        """Return the card that `to_json` wrote."""
        runs_of = {name: tuple(Run(**run) for run in kept[name]) for name in ("title", "abstract")}
        return cls(**{**kept, **runs_of, "links": tuple(Link(**link) for link in kept["links"])})


def card(
    paper: Paper,
    *,
    page: str,
    why: Sequence[str] = (),
    words: Iterable[tuple[str, int, int]] = (),
    form: Form = Form.FULL,
) -> Card:
    """Return the card of `paper`, whose own page on our site is `page`.

    `words` are (field, start, end) in the displayed title and abstract. A paper without a link of
    its own is read on our page, which says where to find it.
    """
    return told(bare(paper, page=page, form=form), paper, why=why, words=words, form=form)


def bare(paper: Paper, *, page: str, form: Form = Form.FULL) -> Card:
    """Return what of a card does not depend on who looks at it."""
    found = links_of(paper)
    abstract, pdf, code = (safe_url(url) for url in (found.abstract, found.pdf, found.code))
    href, leads_to = first_way(abstract=abstract, pdf=pdf, page=page)
    short = form is Form.LINE
    return Card(
        meta="" if short else meta(paper),
        href=href,
        title=runs(title(paper), ()),
        byline="" if short else one_line(byline(paper)),
        abstract=abstract_runs(paper, (), form),
        why="",
        links=()
        if short
        else labelled(pdf=pdf, code=code, page=page, about=spoken(title(paper)), besides=href),
        leads_to=leads_to,
        is_sample=paper.is_sample,
    )


def told(
    card: Card, paper: Paper, *, why: Sequence[str], words: Iterable[tuple[str, int, int]], form: Form
) -> Card:
    """Return a bare card with what a filter found in the paper marked, and why it is shown."""
    in_title, in_abstract = places(words)
    return replace(
        card,
        title=runs(title(paper), in_title),
        abstract=abstract_runs(paper, in_abstract, form),
        why=because(why),
    )


def places(words: Iterable[tuple[str, int, int]]) -> tuple[list[Span], list[Span]]:
    """Return where in a title, and where in an abstract, stands what a filter found."""
    in_title, in_abstract = [], []
    for field, start, end in words:
        if field == "title":
            in_title.append((start, end))
        elif field == "abstract":
            in_abstract.append((start, end))
    return in_title, in_abstract


def because(why: Sequence[str]) -> str:
    """Return the why line, of a reasonable length."""
    return words.cut(one_line(" · ".join(why)[: LONGEST_WHY * 8]), LONGEST_WHY)


def meta(paper: Paper) -> str:
    """Return `cs.LG · 19 Nov 2026`, as far as it is known."""
    known = [
        *(one_line(category) for category in paper.categories[:1]),
        *([words.short_day(paper.published)] if paper.published else []),
    ]
    return " · ".join(filter(None, known))


def title(paper: Paper) -> str:
    """Return the title as readers see it."""
    return words.cut(display(paper.title), LONGEST_TITLE)


class Abstract(NamedTuple):
    """An abstract as readers see it, and how much of it a card shows."""

    text: str
    shown: str  #: its beginning
    opening: str  #: its first sentence


class Excerpt(NamedTuple):
    """What a card shows of an abstract."""

    lead: str  #: its first sentence, if what follows stands further on
    text: str
    marks: Sequence[Span]  #: in the text


def abstract_runs(paper: Paper, marks: Sequence[Span], form: Form) -> tuple[Run, ...]:
    """Return what a card shows of an abstract as marked and unmarked runs."""
    lead, text, there = excerpt(paper, marks, form)
    return (Run(lead), *runs(text, there)) if lead else runs(text, there)


def excerpt(paper: Paper, marks: Sequence[Span], form: Form) -> Excerpt:
    """Return the beginning of the abstract, to a sentence end.

    If what matched comes only later, the sentence that has it follows, as far as there is room: a
    reader sees why the paper is here.
    """
    text, shown, opening = abstract_of(paper.abstract, form)
    first = min(marks)[0] if marks else 0
    if first < len(shown) or not marks or form is Form.LINE:
        return Excerpt("", shown, marks)
    start, end = sentence_around(text, first, LONGEST_ABSTRACT - len(opening) - len(ELLIPSIS))
    there = [(max(one, start) - start, other - start) for one, other in marks if other > start]
    return Excerpt(opening + ELLIPSIS, text[start:end], there)


@lru_cache(maxsize=4096)  # asked again for every filter that chose a paper
def abstract_of(abstract: str, form: Form) -> Abstract:
    """Return how much of an abstract a card of that form shows."""
    text = display(abstract)
    if form is Form.LINE:
        return Abstract(text, "", "")
    shown = to_sentence_end(text, LONGEST_ABSTRACT)
    if form is Form.BRIEF:
        shown = first_sentences(shown, 2)
    return Abstract(text, shown, first_sentences(shown, 1))


def sentence_around(text: str, place: int, room: int) -> tuple[int, int]:
    """Return where the sentence at `place` begins and ends; of a long one, what stands around `place`."""
    ends = sentence_ends(text)
    behind = bisect_right(ends, place)
    start = ends[behind - 1] if behind else 0
    end = ends[behind] if behind < len(ends) else len(text)
    start += len(text[start:end]) - len(text[start:end].lstrip())
    if end - start > room:
        start = max(start, text.rfind(" ", 0, max(start + 1, place - room // 3)) + 1)
        end = text.rfind(" ", 0, min(end, start + room) + 1) if start + room < end else end
    return start, max(end, start)


def to_sentence_end(text: str, room: int) -> str:
    """Return as many whole sentences as fit; one that does not fit is cut at a word."""
    if len(text) <= room:
        return text
    ends = [end for end in sentence_ends(text[: room + 1]) if room // 4 < end <= room]
    return text[: ends[-1]] if ends else words.cut(text, room)


def first_sentences(text: str, count: int) -> str:
    """Return the first `count` sentences, if there are more."""
    ends = sentence_ends(text)
    return text[: ends[count - 1]] if len(ends) > count else text


@lru_cache(maxsize=4096)  # asked again for every filter that chose a paper
def sentence_ends(text: str) -> tuple[int, ...]:
    """Return where sentences end; a full stop after an initial or `et al` ends none."""
    found = (match.end() for match in SENTENCE_END.finditer(text))
    return tuple([end for end in found if not ABBREVIATION.search(text[max(0, end - 12) : end])])


def runs(text: str, spans: Iterable[Span]) -> tuple[Run, ...]:
    """Return `text` as marked and unmarked runs; what lies behind its end is left out."""
    made: list[Run] = []
    reached = 0
    for start, end in clipped(spans, len(text)):
        if reached < start:
            made.append(Run(text[reached:start]))
        made.append(Run(text[start:end], is_marked=True))
        reached = end
    if reached < len(text):
        made.append(Run(text[reached:]))
    return tuple(made)


def clipped(spans: Iterable[Span], room: int) -> list[Span]:
    """Return stretches of a text in order, without what of them lies in another or behind its end."""
    made: list[Span] = []
    reached = 0
    for first, last in sorted(spans):
        start, end = max(first, reached), min(last, room)
        if start < end:
            made.append((start, end))
            reached = end
    return made


def safe_url(url: str | None) -> str | None:
    """Return an http(s) address in the characters a link may have, or None for anything else."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return quote(url.strip(), safe=URL_SAFE)


def first_way(*, abstract: str | None, pdf: str | None, page: str) -> tuple[str, str]:
    """Return where the title leads, and what that is called; without a link of its own, to our page."""
    _ = words.SPEECH.gettext
    offered = ((abstract, _("Read")), (pdf, _("PDF")))
    return next(((href, label) for href, label in offered if href), (page, _("Find it")))


def labelled(*, pdf: str | None, code: str | None, page: str, about: str, besides: str) -> tuple[Link, ...]:
    """Return the links line: what is missing vanishes, and what the title links to is not said again."""
    _ = words.SPEECH.gettext
    offered = ((_("PDF"), pdf), (_("Code"), code), (_("Cite"), f"{page}#cite"))
    return tuple(Link(label, href, about) for label, href in offered if href and href != besides)


def spoken(title: str) -> str:
    """Return the beginning of a title for an attribute: short, and without what would need escaping there."""
    return ": " + words.cut(one_line(title.translate(UNSPOKEN)), LONGEST_SPOKEN)
