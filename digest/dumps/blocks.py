"""Pages copied as plain text, a blank line between title, abstract and meta lines ("blocks")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from digest.dumps import page
from digest.dumps.marks import Kind, Mark, marks, signed
from digest.dumps.page import Page
from digest.dumps.reading import Header, Items, Problem, Source, excerpt
from digest.papers import Organization, Record, id_in

NAME = "blocks"

LONGEST_TITLE = 350  #: a longer text is an abstract
LONGEST_ORGANIZATION = 120
LONGEST_NAME = 40  #: of who submitted a paper
MOST_LINES = 2_000  #: of one text
MOST_TEXT = 60_000  #: characters of an abstract: more is refused anyway
BARE_URL = re.compile(r"\s*(https?://\S+)\s*")


def recognises(head: str) -> bool:
    """Return whether this is a page with blank lines in it."""
    return page.is_page(head) and "\n\n" in head.replace("\r", "")


def read(source: Source) -> tuple[Header, Items]:
    """Read the page: a run of lines between blank ones is one text."""
    found = page.survey(source)
    return found.header, papers(paragraphs(page.numbered(source)), found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A run of prose lines."""

    line: int
    lines: tuple[str, ...]

    @property
    def joined(self) -> str:
        """Return the run as one line."""
        return " ".join(line.strip() for line in self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A line that could not be read."""

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An address on a line of its own."""

    url: str


Unit = Text | Mark | Link | Fault


def paragraphs(lines: Iterable[tuple[int, str, str]]) -> Iterator[Unit]:
    """Yield the marks, and the prose between blank lines and marks as one text each."""
    run: list[tuple[int, str]] = []
    for number, line, fault in lines:
        found = () if fault else tuple(meta(number, line))
        if line.strip() and not found:
            if len(run) < MOST_LINES:
                run.append((number, line.strip()))
            continue
        yield from texts(run)
        run = []
        if fault:
            yield Fault(line=number, reason=fault)
        yield from found
    yield from texts(run)


def meta(number: int, line: str) -> Iterator[Unit]:
    """Yield what a line says that is no prose: marks, an address, or a name with marks behind it."""
    if found := marks(line):
        yield from found
    elif address := link(line):
        yield address
    else:
        name, behind = signed(line)
        if behind:
            yield Text(line=number, lines=(name,))
            yield Mark(kind=Kind.DOT)
            yield from behind


def link(line: str) -> Link | None:
    """Return the address that is all there is on a line."""
    found = BARE_URL.fullmatch(line) if len(line) < 2000 else None
    return Link(url=found[1]) if found else None


def texts(run: list[tuple[int, str]]) -> Iterator[Text]:
    """Yield a run as one text, or as two where a title stands right above its abstract."""
    if not run:
        return
    lines = tuple(line for _, line in run)
    if len(run) > 1 and len(lines[0]) <= LONGEST_TITLE < len(" ".join(lines[1:])) and is_title(lines[0]):
        yield Text(line=run[0][0], lines=lines[:1])
        yield Text(line=run[1][0], lines=lines[1:])
    else:
        yield Text(line=run[0][0], lines=lines)


def is_title(line: str) -> bool:
    """Return whether a line that opens a long run could be a title and not the abstract's first line."""
    return not line.endswith((",", ";", "-")) and len(line.split()) <= 30 and not line[-1:].islower()


@dataclass(kw_only=True, slots=True)
class Draft:
    """A paper being put together from its units."""

    line: int
    title: str
    abstract: str | None = None
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    inferred: bool = False
    signals: dict[str, float] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)  #: beside those in the abstract
    is_summary: bool = False
    has_meta: bool = False
    fault: str = ""

    def record(self, position: int) -> Record | Problem:
        """Return the finished paper, or what was wrong with it."""
        if self.fault:
            return Problem(line=self.line, reason=self.fault, excerpt=excerpt(self.title))
        urls = dict.fromkeys((*self.urls, *page.urls_in(self.abstract or "")))
        return Record(
            title=self.title,
            abstract=self.abstract or "",
            ids=self.ids,
            n_authors=self.n_authors,
            organization=self.organization,
            published=self.published,
            published_inferred=self.inferred,
            urls=tuple(urls),
            signals=self.signals,
            is_summary=self.is_summary,
            position=position,
            line=self.line,
        )


def papers(units: Iterable[Unit], found: Page) -> Items:
    """Put papers together: title, abstract, then meta lines, of which any may be missing."""
    position, number = 0, 1
    told: set[int] = set()
    for draft in drafts(units, found):
        draft.title, number = page.unnumbered(page.unadorned(draft.title), number)
        record = draft.record(position + 1)
        if isinstance(record, Record) and record.abstract:
            if (key := hash((record.title, record.abstract))) in told:
                continue  # trending pages show every paper twice
            told.add(key)
        position += isinstance(record, Record)
        yield record


@dataclass(kw_only=True, slots=True)
class Votes:
    """The figures of a page that stand alone: upvotes come in front of a title or behind its paper, as the first do."""

    waiting: float | None = None  #: a figure whose meaning comes later
    is_captioned: bool = False
    come_first: bool | None = None

    def take(self, mark: Mark, draft: Draft | None) -> None:
        """Take in a caption or a figure: the upvotes of the paper at hand, or something that has to wait."""
        if mark.kind is Kind.UPVOTE:
            self.is_captioned = True
            return
        are_upvotes = self.is_captioned or mark.kind is Kind.UPVOTES
        self.is_captioned = False
        if are_upvotes and self.come_first is None:
            self.come_first = draft is None
        if are_upvotes and draft is not None and not self.come_first and mark.number is not None:
            draft.signals["upvotes"] = mark.number
        else:
            self.waiting = mark.number

    def begin(self, draft: Draft) -> Draft:
        """Give a new draft the figure that stood before its title."""
        if self.waiting is not None:
            draft.signals["upvotes"] = self.waiting
        self.waiting = None
        return draft


def drafts(units: Iterable[Unit], found: Page) -> Iterator[Draft]:
    """Yield the drafts in order; a text that cannot belong to the draft at hand begins the next."""
    draft: Draft | None = None
    votes = Votes()
    before: Unit | None = None
    for unit, following in with_following(units):
        is_named, before = isinstance(before, Mark) and before.kind is Kind.SUBMITTER, unit
        match unit:
            case Text() if is_named and len(unit.joined) <= LONGEST_NAME:
                pass
            case Mark(kind=Kind.UPVOTE | Kind.UPVOTES | Kind.COUNT):
                votes.take(unit, draft)
            case Mark():
                if draft is not None:
                    apply(draft, unit, found)
            case Link():
                if draft is not None:
                    votes.waiting = follow(draft, unit.url, votes.waiting)
            case Fault():
                if draft is None or draft.abstract is not None:
                    if draft is not None:
                        yield draft
                    draft = Draft(line=unit.line, title="")
                draft.fault = f"line {unit.line}: {unit.reason}"
                draft.abstract = draft.abstract or ""
            case Text() if draft is None:
                draft = votes.begin(Draft(line=unit.line, title=unit.joined))
            case Text() if takes(draft, unit, following):
                pass
            case Text():
                finished, draft = next_draft(draft, unit)
                votes.begin(draft)
                yield finished
    if draft is not None:
        if draft.abstract is None and not draft.has_meta:
            draft.fault = "the file ends before this paper's abstract"
        yield draft


def follow(draft: Draft, url: str, count: float | None) -> float | None:
    """Take in an address: the paper's own, or that of its comments; return the figure still waiting."""
    if url.endswith("#community") and count is not None:
        draft.signals["comments"] = count
        return None
    if draft.abstract is None and (found := id_in(url)):
        draft.ids.setdefault(*found)
    return count


def with_following(units: Iterable[Unit]) -> Iterator[tuple[Unit, Unit | None]]:
    """Yield every unit with the one after it."""
    iterator = iter(units)
    unit = next(iterator, None)
    while unit is not None:
        following = next(iterator, None)
        yield unit, following
        unit = following


def apply(draft: Draft, mark: Mark, found: Page) -> None:
    """Write what a mark says into the draft."""
    match mark.kind:
        case Kind.AUTHORS if mark.number is not None:
            draft.n_authors, draft.has_meta = int(mark.number), True
        case Kind.DATE:
            draft.published, draft.inferred = page.paper_date(mark, found)
            if mark.number is not None:
                draft.signals["comments"] = mark.number
            draft.has_meta = True
        case Kind.COMMENTS | Kind.STARS if mark.number is not None:
            draft.signals[mark.kind.name.casefold()] = mark.number
        case Kind.DOT:
            draft.has_meta = True
        case _:
            pass


def takes(draft: Draft, text: Text, following: Unit | None) -> bool:
    """Give the text to the draft as its abstract or organisation; return whether it belonged there."""
    before_dot = isinstance(following, Mark) and following.kind is Kind.DOT
    if before_dot and not draft.has_meta and is_organization(text.joined):
        draft.organization = page.organization(text.joined)
        return True
    if draft.abstract is None and not draft.has_meta:
        draft.abstract = text.joined
        return True
    if (
        draft.abstract
        and not draft.has_meta
        and MOST_TEXT > len(draft.abstract) > LONGEST_TITLE < len(text.joined)
    ):
        draft.abstract += "\n" + text.joined  # an abstract of several paragraphs
        return True
    return False


def is_organization(text: str) -> bool:
    """Return whether a text before a lone dot is a name rather than a short abstract."""
    return len(text) <= LONGEST_ORGANIZATION and not (text.endswith(".") and text.count(" ") > 8)


def next_draft(draft: Draft, text: Text) -> tuple[Draft, Draft]:
    """Return the finished draft and the one this text begins.

    Where a long text comes when a title is due and the draft's abstract is as short as a title,
    the draft had none: that short text was already the next title.
    """
    short = draft.abstract is not None and len(draft.abstract) <= LONGEST_TITLE and not draft.has_meta
    if short and len(text.joined) > LONGEST_TITLE:
        begun = Draft(line=text.line, title=draft.abstract or "", abstract=text.joined)
        draft.abstract = None
        return draft, begun
    return draft, Draft(line=text.line, title=text.joined)
