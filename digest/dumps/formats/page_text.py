"""Read pages copied as plain text with blank lines between title, abstract and metadata ("blocks")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

from digest.dumps.formats import ai_summaries, field_parsing, page_layout
from digest.dumps.formats.page_layout import LONGEST_TITLE, PageHeader
from digest.dumps.formats.page_metadata import (
    MetadataKind,
    MetadataLine,
    labelled_address,
    labelled_authors,
    labelled_text,
    parse_metadata_line,
    split_name_and_metadata,
)
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem, excerpt
from digest.papers import Organization, Record, id_in

NAME = "blocks"

#: Minimum number of characters in an abstract that follows its title without a blank line.
MIN_ABSTRACT_BELOW_TITLE = 150
LONGEST_ORGANIZATION = 120
LONGEST_NAME = 40  #: maximum number of characters in a submitter's name
LONGEST_NAMES = 2_000
MAX_LINES = 2_000  #: maximum number of lines of one text
#: maximum number of characters collected for an abstract; a longer abstract is rejected later
MAX_TEXT = 60_000
BARE_URL = re.compile(r"\s*(?:\d{1,4}\.\s+)?(https?://\S+)\s*")


def recognises(head: str) -> bool:
    """Return whether the dump is a page with blank lines between its texts."""
    return "\n\n" in head.replace("\r", "") and (
        page_layout.is_page(head) or page_layout.alternates_title_and_abstract(head)
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the page, joining the lines between two blank lines into one text."""
    found = page_layout.read_page_header(source)
    units = text_blocks(page_layout.page_lines(source))
    return found.header, records_of(drafts_of_units(units, found), found)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextBlock:
    """Consecutive lines of prose."""

    line: int
    lines: tuple[str, ...]
    is_labelled: bool = False  #: whether the page labels the text as a title

    @property
    def one_line(self) -> str:
        """Return the text on one line."""
        return " ".join(line.strip() for line in self.lines)

    @property
    def has_title(self) -> bool:
        """Return whether the first line is a title directly above its abstract.

        The first line is a title if it looks like one, or if the next word would have fitted on it, because
        wrapped text would not break there.
        """
        title, *rest = self.lines
        below = sum(map(len, rest))
        if len(title) > LONGEST_TITLE or below < max(MIN_ABSTRACT_BELOW_TITLE, 2 * len(title)):
            return False
        spare = max(map(len, rest)) - len(title)
        is_cut = spare > len(rest[0].split(maxsplit=1)[0])
        return not title.endswith((",", ";", ":", "-")) and (is_cut or is_title(title))


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableLine:
    """A line that could not be read."""

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorLine:
    """A line with the names of the authors."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkLine:
    """A URL on a separate line."""

    url: str
    is_labelled: bool = False  #: whether a label such as `arXiv:` precedes the URL


PageUnit = TextBlock | MetadataLine | AuthorLine | LinkLine | UnreadableLine


def text_blocks(lines: Iterable[tuple[int, str, str]]) -> Iterator[PageUnit]:  # noqa: PLR0912  (a state machine over lines)
    """Yield each item of metadata, and a block for each group of prose lines between blank or metadata lines."""
    run: list[tuple[int, str]] = []
    for number, line, fault in lines:
        found = () if fault or not line else tuple(parse_meta_line(number, line))
        if run and any(
            isinstance(one, AuthorLine) or (isinstance(one, LinkLine) and one.is_labelled) for one in found
        ):
            found = ()  # the line is the last line of a wrapped text that contains a URL
        if line.strip() and not found:
            kind, text = labelled_text(line.strip())
            if text and run:
                yield text_block_of(run)
                run = []
            if kind == "title":
                yield TextBlock(line=number, lines=(text,), is_labelled=True)
            elif len(run) < MAX_LINES:
                run.append((number, text or line.strip()))
            continue
        if run:
            yield text_block_of(run)
            run = []
        if fault:
            yield UnreadableLine(line=number, reason=fault)
        yield from found
    if run:
        yield text_block_of(run)


def parse_meta_line(number: int, line: str) -> Iterator[PageUnit]:
    """Yield the units on a line that is not prose: metadata, a link, or a name followed by metadata."""
    if found := parse_metadata_line(line):
        yield from found
    elif address := parse_link(line):
        yield address
    elif address := parse_link(labelled_address(line)[1]):
        yield replace(address, is_labelled=True)
    elif named := labelled_authors(line):
        yield AuthorLine(names=named)
    else:
        name, behind = split_name_and_metadata(line)
        if behind:
            yield TextBlock(line=number, lines=(name,))
            yield MetadataLine(kind=MetadataKind.DOT)
            yield from behind


def parse_link(line: str) -> LinkLine | None:
    """Return the link if a line consists of a URL with an optional label, else None."""
    found = BARE_URL.fullmatch(line) if len(line) < 2000 else None
    return LinkLine(url=found[1]) if found else None


def text_block_of(run: list[tuple[int, str]]) -> TextBlock:
    """Return the text block that consists of these numbered lines."""
    return TextBlock(line=run[0][0], lines=tuple(line for _, line in run))


def is_title(line: str) -> bool:
    """Return whether a full line looks like a title rather than the first line of an abstract."""
    return len(line.split()) <= 30 and not line[-1:].islower()


@dataclass(kw_only=True, slots=True)
class PaperDraft:
    """A paper that is being assembled from its texts, metadata and links."""

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
    urls: list[str] = field(default_factory=list)  #: URLs in addition to those in the abstract
    has_meta: bool = False
    fault: str = ""

    def record(self, position: int, page: PageHeader) -> Record | RecordProblem:
        """Return the finished record, or a problem if the paper cannot be read."""
        if not self.fault and self.abstract is None and len(self.title) > LONGEST_TITLE:
            self.fault = "an abstract with no title above it"
        if self.fault:
            return RecordProblem(line=self.line, reason=self.fault, excerpt=excerpt(self.title))
        urls = dict.fromkeys((*self.urls, *page_layout.urls_in(self.abstract or "")))
        is_summary = page.is_trending and ai_summaries.is_summary(self.abstract or "")
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
            summary_by=page_layout.SUMMARY_BY if is_summary else "",
            position=position,
            line=self.line,
        )


def records_of(drafts: Iterable[PaperDraft], page: PageHeader) -> Items:
    """Yield each paper once; trending pages list every paper twice."""
    position, number = 0, 1
    seen: set[int] = set()
    for draft in drafts:
        draft.title, number = page_layout.without_number(
            page_layout.without_leading_sign(draft.title), number
        )
        record = draft.record(position + 1, page)
        if isinstance(record, Record):
            if (key := hash((record.title, record.ids.get("arxiv") or record.abstract))) in seen:
                continue
            seen.add(key)
            position += 1
        yield record


@dataclass(kw_only=True, slots=True)
class LoneFigures:
    """The unlabelled numbers of a page, which may be upvotes or comments.

    The position of the first upvotes on the page shows whether upvotes precede titles or follow papers.
    """

    unassigned: float | None = None  #: the last number whose meaning is not known yet
    is_captioned: bool = False
    come_first: bool | None = None
    votes_stand_first: bool | None = None  #: whether a number precedes the first title; None if not known yet

    def are_comments(
        self, line: MetadataLine, draft: PaperDraft | None, before: PageUnit | None, after: PageUnit | None
    ) -> bool:
        """Return whether a number directly after a date counts comments, not the next paper's upvotes."""
        behind_date = (
            isinstance(before, MetadataLine) and before.kind is MetadataKind.DATE and not self.is_captioned
        )
        is_due = draft is not None and line.kind is MetadataKind.COUNT and "comments" not in draft.signals
        is_first_of_two = after is None or (
            isinstance(after, MetadataLine) and after.kind is MetadataKind.COUNT
        )
        return behind_date and is_due and (not self.votes_stand_first or is_first_of_two)

    def take(self, line: MetadataLine, draft: PaperDraft | None) -> None:
        """Store upvotes in the current paper, or save a caption or number until its meaning is known."""
        if line.kind is MetadataKind.UPVOTE:
            self.is_captioned = True
            return
        are_upvotes = self.is_captioned or line.kind is MetadataKind.UPVOTES
        self.is_captioned = False
        if are_upvotes and self.come_first is None:
            self.come_first = draft is None
        if are_upvotes and draft is not None and not self.come_first and line.number is not None:
            draft.signals["upvotes"] = line.number
        else:
            self.unassigned = line.number

    def begin(self, draft: PaperDraft) -> PaperDraft:
        """Store the number that precedes the title as the upvotes of a new draft; return the draft."""
        if self.votes_stand_first is None:
            self.votes_stand_first = self.unassigned is not None
        if self.unassigned is not None:
            draft.signals["upvotes"] = self.unassigned
        self.unassigned = None
        return draft


def drafts_of_units(units: Iterable[PageUnit], found: PageHeader) -> Iterator[PaperDraft]:  # noqa: PLR0912, PLR0915  (a state machine over units)
    """Assemble papers from titles, abstracts and metadata, of which only the title is required.

    A text that cannot belong to the current draft begins the next draft.
    """
    draft: PaperDraft | None = None
    votes = LoneFigures()
    is_glued: bool | None = None  #: whether each title is directly above its abstract, as the first title is
    for before, unit, after in with_neighbours(units):
        is_named = isinstance(before, MetadataLine) and before.kind is MetadataKind.SUBMITTER
        match unit:
            case TextBlock() if is_named and len(unit.one_line) <= LONGEST_NAME:
                pass
            case MetadataLine() if draft is not None and votes.are_comments(unit, draft, before, after):
                draft.signals["comments"] = unit.number or 0.0
            case MetadataLine(kind=MetadataKind.UPVOTE | MetadataKind.UPVOTES | MetadataKind.COUNT):
                votes.take(unit, draft)
            case MetadataLine():
                if draft is not None:
                    apply_metadata(draft, unit, found)
            case AuthorLine():
                if draft is not None and not draft.authors:
                    draft.authors = unit.names
            case LinkLine():
                if draft is not None:
                    votes.unassigned = take_link(draft, unit, votes.unassigned)
            case UnreadableLine():
                if draft is None or draft.abstract is not None:
                    if draft is not None:
                        yield draft
                    draft = PaperDraft(line=unit.line, title="")
                draft.fault = f"line {unit.line}: {unit.reason}"
                draft.abstract = draft.abstract or ""
            case TextBlock() if draft is None:
                is_glued = unit.has_title
                draft = votes.begin(begin_draft(unit, is_glued=is_glued))
            case TextBlock() if not (unit.is_labelled or (is_glued and unit.has_title)) and takes_text(
                draft, unit, after
            ):
                pass
            case _:
                finished, draft = next_draft(draft, unit, is_glued=bool(is_glued))
                votes.begin(draft)
                yield finished
    if draft is not None:
        if draft.abstract is None and not draft.has_meta:
            draft.fault = "the file ends before this paper's abstract"
        yield draft


def take_link(draft: PaperDraft, link: LinkLine, count: float | None) -> float | None:
    """Store a link to the paper or its comments; return `count`, or None if it counted the comments."""
    if link.url.endswith("#community") and count is not None:
        draft.signals["comments"] = count
        return None
    found = id_in(link.url)
    if found and (draft.abstract is None or link.is_labelled):
        draft.ids.setdefault(*found)
    elif link.is_labelled:
        draft.urls.append(link.url)
    return count


def with_neighbours(units: Iterable[PageUnit]) -> Iterator[tuple[PageUnit | None, PageUnit, PageUnit | None]]:
    """Yield (previous, current, next) for each unit, such as a text block, a link or an item of metadata."""
    iterator = iter(units)
    before, unit = None, next(iterator, None)
    while unit is not None:
        after = next(iterator, None)
        yield before, unit, after
        before, unit = unit, after


def apply_metadata(draft: PaperDraft, line: MetadataLine, found: PageHeader) -> None:
    """Store an item of metadata in the draft of the paper to which it belongs."""
    match line.kind:
        case MetadataKind.AUTHORS if line.number is not None:
            draft.n_authors, draft.has_meta = int(line.number), True
        case MetadataKind.DATE:
            draft.published, draft.inferred = page_layout.paper_date(line, found)
            if line.number is not None:
                draft.signals["comments"] = line.number
            draft.has_meta = True
        case MetadataKind.COMMENTS | MetadataKind.STARS if line.number is not None:
            draft.signals[line.kind.name.casefold()] = line.number
        case MetadataKind.DOT:
            draft.has_meta = True
        case _:
            pass


def takes_text(draft: PaperDraft, text: TextBlock, after: PageUnit | None) -> bool:
    """Store the text as the draft's authors, organisation or abstract; return whether it is one of these."""
    before_dot = isinstance(after, MetadataLine) and after.kind is MetadataKind.DOT
    before_abstract = (
        draft.abstract is None and isinstance(after, TextBlock) and len(after.one_line) > LONGEST_TITLE
    )
    may_name = (before_dot or before_abstract) and not draft.has_meta and len(text.one_line) <= LONGEST_NAMES
    if may_name and len(named := field_parsing.person_names(text.one_line)) > 1:
        draft.authors = named
        return True
    if before_dot and not draft.has_meta and is_organization(text.one_line):
        draft.organization = page_layout.organization(text.one_line)
        return True
    if draft.abstract is None and not draft.has_meta:
        draft.abstract = text.one_line
        return True
    if (
        draft.abstract
        and not draft.has_meta
        and MAX_TEXT > len(draft.abstract) > LONGEST_TITLE < len(text.one_line)
    ):
        draft.abstract += "\n" + text.one_line  # the text is a further paragraph of the abstract
        return True
    return False


def is_organization(text: str) -> bool:
    """Return whether `text`, which precedes a middle dot, names an organisation and is not a short abstract."""
    return len(text) <= LONGEST_ORGANIZATION and not (text.endswith(".") and text.count(" ") > 8)


def begin_draft(text: TextBlock, *, is_glued: bool) -> PaperDraft:
    """Return a draft that begins with this text: a title, or a title directly above its abstract."""
    if is_glued and text.has_title:
        return PaperDraft(line=text.line, title=text.lines[0], abstract=" ".join(text.lines[1:]))
    return PaperDraft(line=text.line, title=text.one_line)


def next_draft(draft: PaperDraft, text: TextBlock, *, is_glued: bool) -> tuple[PaperDraft, PaperDraft]:
    """Return the finished draft and the draft that begins with this text.

    If the text is as long as an abstract and the draft's abstract is as short as a title, the draft
    has no abstract: the short text was the next title.
    """
    short = draft.abstract is not None and len(draft.abstract) <= LONGEST_TITLE and not draft.has_meta
    if short and len(text.one_line) > LONGEST_TITLE:
        following = PaperDraft(line=text.line, title=draft.abstract or "", abstract=text.one_line)
        draft.abstract = None
        return draft, following
    return draft, begin_draft(text, is_glued=is_glued)
