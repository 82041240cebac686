"""Pages copied as plain text, a blank line between title, abstract and meta lines ("blocks")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

from digest.dumps import fields, page
from digest.dumps.marks import Kind, Mark, addressed, authors, labelled, marks, signed
from digest.dumps.page import LONGEST_TITLE, Page
from digest.dumps.reading import Header, Items, Problem, Source, excerpt
from digest.papers import Organization, Record, id_in

NAME = "blocks"

LEAST_BELOW = 150  #: characters under a title that stands right above its abstract
LONGEST_ORGANIZATION = 120
LONGEST_NAME = 40  #: of who submitted a paper
LONGEST_NAMES = 2_000
MOST_LINES = 2_000  #: of one text
MOST_TEXT = 60_000  #: characters of an abstract: more is refused anyway
BARE_URL = re.compile(r"\s*(?:\d{1,4}\.\s+)?(https?://\S+)\s*")


def recognises(head: str) -> bool:
    """Return whether this is a page with blank lines in it."""
    return "\n\n" in head.replace("\r", "") and (page.is_page(head) or page.alternates(head))


def read(source: Source) -> tuple[Header, Items]:
    """Read the page: a run of lines between blank ones is one text."""
    found = page.survey(source)
    return found.header, papers(paragraphs(page.numbered(source)), found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A run of prose lines."""

    line: int
    lines: tuple[str, ...]
    is_labelled: bool = False  #: it says that it is a title

    @property
    def joined(self) -> str:
        """Return the run as one line."""
        return " ".join(line.strip() for line in self.lines)

    @property
    def has_title(self) -> bool:
        """Return whether the first line is a title above its abstract: who wraps a text would have gone on in it."""
        title, *rest = self.lines
        below = sum(map(len, rest))
        if len(title) > LONGEST_TITLE or below < max(LEAST_BELOW, 2 * len(title)):
            return False
        room = max(map(len, rest)) - len(title)
        is_cut = room > len(rest[0].split(maxsplit=1)[0])
        return not title.endswith((",", ";", ":", "-")) and (is_cut or is_title(title))


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A line that could not be read."""

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """A line that names the authors."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An address on a line of its own."""

    url: str
    is_labelled: bool = False  #: it says what it leads to


Unit = Text | Mark | Names | Link | Fault


def paragraphs(lines: Iterable[tuple[int, str, str]]) -> Iterator[Unit]:
    """Yield the marks, and the prose between blank lines and marks as one text each."""
    run: list[tuple[int, str]] = []
    for number, line, fault in lines:
        found = () if fault else tuple(meta(number, line))
        if run and any(
            isinstance(one, Names) or (isinstance(one, Link) and one.is_labelled) for one in found
        ):
            found = ()  # the end of a text that was wrapped, with its address
        if line.strip() and not found:
            kind, text = labelled(line.strip())
            if text and run:
                yield text_of(run)
                run = []
            if kind == "title":
                yield Text(line=number, lines=(text,), is_labelled=True)
            elif len(run) < MOST_LINES:
                run.append((number, text or line.strip()))
            continue
        if run:
            yield text_of(run)
            run = []
        if fault:
            yield Fault(line=number, reason=fault)
        yield from found
    if run:
        yield text_of(run)


def meta(number: int, line: str) -> Iterator[Unit]:
    """Yield what a line says that is no prose: marks, an address, or a name with marks behind it."""
    if found := marks(line):
        yield from found
    elif address := link(line):
        yield address
    elif address := link(addressed(line)[1]):
        yield replace(address, is_labelled=True)
    elif named := authors(line):
        yield Names(names=named)
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


def text_of(run: list[tuple[int, str]]) -> Text:
    """Return a run of lines as one text."""
    return Text(line=run[0][0], lines=tuple(line for _, line in run))


def is_title(line: str) -> bool:
    """Return whether a line that fills its width could be a title and not the abstract's first line."""
    return len(line.split()) <= 30 and not line[-1:].islower()


@dataclass(kw_only=True, slots=True)
class Draft:
    """A paper being put together from its units."""

    line: int
    title: str
    abstract: str | None = None
    authors: tuple[str, ...] = ()
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
        if not self.fault and self.abstract is None and len(self.title) > LONGEST_TITLE:
            self.fault = "a text as long as an abstract, and no title above it"
        if self.fault:
            return Problem(line=self.line, reason=self.fault, excerpt=excerpt(self.title))
        urls = dict.fromkeys((*self.urls, *page.urls_in(self.abstract or "")))
        return Record(
            title=self.title,
            abstract=self.abstract or "",
            ids=self.ids,
            authors=self.authors,
            n_authors=self.n_authors or len(self.authors) or None,
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
        draft.is_summary = found.is_trending and len(draft.abstract or "") < page.SHORT
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
    led: bool | None = None  #: whether one stood in front of the first title

    def are_comments(self, mark: Mark, draft: Draft | None, before: Unit | None, after: Unit | None) -> bool:
        """Return whether a figure right behind a date is what comes there, and not what comes before a title."""
        behind_date = isinstance(before, Mark) and before.kind is Kind.DATE and not self.is_captioned
        is_due = draft is not None and mark.kind is Kind.COUNT and "comments" not in draft.signals
        is_first_of_two = after is None or (isinstance(after, Mark) and after.kind is Kind.COUNT)
        return behind_date and is_due and (not self.led or is_first_of_two)

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
        if self.led is None:
            self.led = self.waiting is not None
        if self.waiting is not None:
            draft.signals["upvotes"] = self.waiting
        self.waiting = None
        return draft


def drafts(units: Iterable[Unit], found: Page) -> Iterator[Draft]:
    """Yield the drafts in order; a text that cannot belong to the draft at hand begins the next."""
    draft: Draft | None = None
    votes = Votes()
    is_glued: bool | None = None  #: whether titles stand right above their abstracts, as the first does
    for before, unit, after in with_neighbours(units):
        is_named = isinstance(before, Mark) and before.kind is Kind.SUBMITTER
        match unit:
            case Text() if is_named and len(unit.joined) <= LONGEST_NAME:
                pass
            case Mark() if draft is not None and votes.are_comments(unit, draft, before, after):
                draft.signals["comments"] = unit.number or 0.0
            case Mark(kind=Kind.UPVOTE | Kind.UPVOTES | Kind.COUNT):
                votes.take(unit, draft)
            case Mark():
                if draft is not None:
                    apply(draft, unit, found)
            case Names():
                if draft is not None and not draft.authors:
                    draft.authors = unit.names
            case Link():
                if draft is not None:
                    votes.waiting = follow(draft, unit, votes.waiting)
            case Fault():
                if draft is None or draft.abstract is not None:
                    if draft is not None:
                        yield draft
                    draft = Draft(line=unit.line, title="")
                draft.fault = f"line {unit.line}: {unit.reason}"
                draft.abstract = draft.abstract or ""
            case Text() if draft is None:
                is_glued = unit.has_title
                draft = votes.begin(begun(unit, is_glued=is_glued))
            case Text() if not (unit.is_labelled or (is_glued and unit.has_title)) and takes(
                draft, unit, after
            ):
                pass
            case Text():
                finished, draft = next_draft(draft, unit, is_glued=bool(is_glued))
                votes.begin(draft)
                yield finished
    if draft is not None:
        if draft.abstract is None and not draft.has_meta:
            draft.fault = "the file ends before this paper's abstract"
        yield draft


def follow(draft: Draft, link: Link, count: float | None) -> float | None:
    """Take in an address: the paper's own, or that of its comments; return the figure still waiting."""
    if link.url.endswith("#community") and count is not None:
        draft.signals["comments"] = count
        return None
    found = id_in(link.url)
    if found and (draft.abstract is None or link.is_labelled):
        draft.ids.setdefault(*found)
    elif link.is_labelled:
        draft.urls.append(link.url)
    return count


def with_neighbours(units: Iterable[Unit]) -> Iterator[tuple[Unit | None, Unit, Unit | None]]:
    """Yield every unit between the one before and the one after it."""
    iterator = iter(units)
    before, unit = None, next(iterator, None)
    while unit is not None:
        after = next(iterator, None)
        yield before, unit, after
        before, unit = unit, after


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


def takes(draft: Draft, text: Text, after: Unit | None) -> bool:
    """Give the text to the draft as its authors, organisation or abstract; return whether it belonged there."""
    before_dot = isinstance(after, Mark) and after.kind is Kind.DOT
    before_abstract = draft.abstract is None and isinstance(after, Text) and len(after.joined) > LONGEST_TITLE
    may_name = (before_dot or before_abstract) and not draft.has_meta and len(text.joined) <= LONGEST_NAMES
    if may_name and len(named := fields.people(text.joined)) > 1:
        draft.authors = named
        return True
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


def begun(text: Text, *, is_glued: bool) -> Draft:
    """Return the draft that a text begins: with its title, or with its title and what stands right below it."""
    if is_glued and text.has_title:
        return Draft(line=text.line, title=text.lines[0], abstract=" ".join(text.lines[1:]))
    return Draft(line=text.line, title=text.joined)


def next_draft(draft: Draft, text: Text, *, is_glued: bool) -> tuple[Draft, Draft]:
    """Return the finished draft and the one this text begins.

    Where a long text comes when a title is due and the draft's abstract is as short as a title,
    the draft had none: that short text was already the next title.
    """
    short = draft.abstract is not None and len(draft.abstract) <= LONGEST_TITLE and not draft.has_meta
    if short and len(text.joined) > LONGEST_TITLE:
        following = Draft(line=text.line, title=draft.abstract or "", abstract=text.joined)
        draft.abstract = None
        return draft, following
    return draft, begun(text, is_glued=is_glued)
