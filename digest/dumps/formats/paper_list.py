"""Read lists of papers in Markdown: bullets, linked headings and tables, as in the README files of repositories ("list").

A linked heading or list item is a paper; without a link it is a section. The header of a table names its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from digest import plurals
from digest.dumps.formats import list_entries, list_tables, page_layout
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem, excerpt
from digest.dumps.formats.rewindable_stream import HEAD_BYTES
from digest.papers.paper_record import Record, title_key

NAME = "list"

ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•▪◦]|\d{1,4}[.)])\s+(?P<text>\S.*)")
HEADING = re.compile(r"\s{0,3}(?P<level>#{1,6})\s+(?P<text>\S.*?)[\s#]*")
DELIMITER_ROW = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?)?\s*")
TABLE = re.compile(r"^[ \t]{0,9}\|?[ \t]{0,9}:?-+:?[ \t]{0,9}\|", re.MULTILINE)
#: A paragraph that begins with a title in bold, or the `<summary>` of a `<details>` element.
BLOCK_TITLE = re.compile(
    r" {0,3}(?:\*\*|__)[^*_\s][^*\n]{8,300}(?:\*\*|__).{0,2000}|<summary>.{8,3000}", re.IGNORECASE
)
LABELLED = re.compile(
    r"\W{0,6}(?:abstract|authors?|by|links?|papers?|pdf|codes?|arxiv|projects?|home ?page|page|venue|conference|journal|date|published"
    r"|keywords?|summary|tl;?dr|comments?|institutions?|affiliations?|url|doi|github|datasets?|demo|video|slides|web ?site|tasks?"
    r"|models?|notes?|categor(?:y|ies)|subjects?|blog|tweet)"
    r"(?: (?:link|links|url|urls|page|pages|name|names|code|codes|id|ids|date|post|list|of|by|in|on|paper|papers|available|here))?"
    r"\W{0,6}[:：]",
    re.IGNORECASE,
)
MIN_WORDS = 4  #: minimum number of spaces in an item that may be a paper
MAX_LINES = 60  #: maximum number of lines in an entry
MAX_LINE = 20_000  #: maximum number of characters in a line of an entry
LONG_PROSE = 240  #: characters
MIN_PAPERS = 3  #: a dump with fewer papers is not recognised as a list


def recognises(head: str) -> bool:
    """Return whether the dump begins with a table of papers, or a list of papers mostly without abstracts."""
    if not page_mark(head) or (page_layout.is_page(head) and not TABLE.search(head)):
        return False
    whole = head[: head.rfind("\n") + 1] if len(head) > HEAD_BYTES // 2 else head
    lines = ((number, line, "") for number, line in enumerate(whole.splitlines(), start=1))
    found = [one for one in papers_in(lines) if isinstance(one, ListPaper)]
    with_abstract = sum(bool(one.record.abstract) for one in found)
    marked = sum(one.is_marked for one in found)
    apart = sum(map(is_prose_apart, re.split(r"\n\s*\n", whole)))
    if 2 * apart > max(len(found), 4 * with_abstract):
        return False  # the abstracts stand below the items, without indentation
    return len(found) >= MIN_PAPERS and (2 * with_abstract < len(found) or 2 * marked > len(found))


def is_prose_apart(block: str) -> bool:
    """Return whether a block of lines is a long text that belongs to no item of a list."""
    return len(block) > LONG_PROSE and "](" not in block and block[:1].isalnum()


def page_mark(head: str) -> bool:
    """Return whether `head` has links, in Markdown or HTML, or a table in Markdown."""
    return "](" in head or "<a " in head or ("|" in head and TABLE.search(head) is not None)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the papers of the list as a stream."""
    captured = page_layout.capture_date(source.head)
    return Header(date=captured), records(source)


def records(source: DumpInput) -> Items:
    """Yield each paper once, even if several sections list it."""
    seen: set[int] = set()
    for found in papers_in(source.lines()):
        if isinstance(found, RecordProblem):
            yield found
            continue
        key = hash((title_key(found.record.title), found.record.ids.get("arxiv", "")))
        if key not in seen:
            seen.add(key)
            yield found.record


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPaper:
    """A paper in a list."""

    record: Record
    is_marked: bool = False  #: whether the entry is a table row or a `<summary>`


@dataclass(kw_only=True, slots=True)
class OpenEntry:
    """An item or a heading whose lines are being collected; a section has no lines."""

    line: int
    indent: int  #: number of spaces before the item; -1 for a heading
    lines: list[str] = field(default_factory=list)
    #: whether a blank line followed the entry, which then only an indented line continues
    is_closed: bool = False
    may_end: bool = False  #: whether the last line was blank

    def add(self, text: str) -> None:
        """Add a line."""
        if 0 < len(self.lines) < MAX_LINES:
            self.lines.append(text)

    def papers(self) -> Iterator[ListPaper]:
        """Yield the paper that the entry names, if any."""
        found = list_entries.paper_of("\n".join(self.lines), self.line)
        if found is not None:
            yield ListPaper(record=found, is_marked=self.lines[0].startswith("<"))


def papers_in(lines: Iterable[tuple[int, str, str]]) -> Iterator[ListPaper | RecordProblem]:  # noqa: PLR0912, PLR0915  (a state machine over lines)
    """Yield the papers of a list in order."""
    entry: OpenEntry | None = None
    columns: Sequence[str] | None = None
    above = ""
    bare: list[RecordProblem] = []  #: items without a link, which may be papers
    for number, text, fault in whole_rows(lines):
        if fault or len(text) > MAX_LINE:
            yield RecordProblem(line=number, reason=fault or f"the line has {len(text):,} characters")
            continue
        if columns is None and "|" in above and "-" in text and DELIMITER_ROW.fullmatch(text):
            yield from closed(entry, bare)
            entry, columns = None, list_tables.column_names(list_tables.cells_of(above))
        elif columns is not None and "|" in text:
            yield from row_papers(columns, text, number)
        elif (begun := beginning_of(text, number, entry)) is not None:
            yield from closed(entry, bare)
            entry, columns = begun, None
        elif not text.strip():
            columns = None
            if entry is not None:
                entry.is_closed, entry.may_end = entry.indent >= 0, True
                entry.add("")
        elif entry is not None and (not entry.is_closed or text[:1] in " \t"):
            entry.add(text)
        else:
            yield from closed(entry, bare)
            entry, columns = None, None
        above = text
    yield from closed(entry, bare)
    yield from remark_on(bare)


def closed(entry: OpenEntry | None, bare: list[RecordProblem]) -> Iterator[ListPaper]:
    """Yield the paper that an entry names, if any; add an item that may be a paper without a link to `bare`."""
    papers = list(entry.papers()) if entry else []
    text = entry.lines[0] if entry and entry.lines else ""
    if entry and not papers and entry.indent >= 0 and "](" not in text and text.count(" ") >= MIN_WORDS:
        bare.append(RecordProblem(line=entry.line, reason="", excerpt=excerpt(text), is_remark=True))
    yield from papers


def remark_on(bare: Sequence[RecordProblem]) -> Iterator[RecordProblem]:
    """Yield a remark that counts the items without a link."""
    if bare:
        reason = f"{plurals.count(len(bare), 'item')} without a link {'was' if len(bare) == 1 else 'were'} not read; the first is on line {bare[0].line}"
        yield replace(bare[0], reason=reason)


def whole_rows(lines: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the lines; the lines of a row of a table that a tool wrapped are joined."""
    row: tuple[int, str] | None = None
    for number, text, fault in lines:
        is_rest = (
            row is not None and bool(text.strip()) and text.lstrip()[0] != "|" and len(row[1]) < MAX_LINE
        )
        if row is not None and is_rest:
            row = (row[0], f"{row[1].rstrip()} {text.strip()}")
        elif row is not None:
            yield *row, ""
            row = None
        if not is_rest and text.lstrip()[:1] == "|" and text.rstrip()[-1] != "|":
            row = (number, text)
        elif not is_rest:
            yield number, text, fault
        elif row is not None and row[1][-1] == "|":
            yield *row, ""
            row = None
    if row is not None:
        yield *row, ""


def beginning_of(text: str, number: int, entry: OpenEntry | None) -> OpenEntry | None:
    """Return the entry that begins on a line; None if none does, as for a bullet about the entry above it."""
    if heading := HEADING.fullmatch(text):
        is_linked = bool(list_entries.links_in(list_entries.as_markdown(heading["text"])))
        return OpenEntry(line=number, indent=-1, lines=[heading["text"]] if is_linked else [])
    if BLOCK_TITLE.fullmatch(text) and not LABELLED.match(text) and (entry is None or entry.may_end):
        return OpenEntry(line=number, indent=-1, lines=[text])
    item = ITEM.fullmatch(text)
    if item is None:
        return None
    indent = len(item["indent"].expandtabs(4))
    if entry is not None and entry.lines and indent > entry.indent and is_detail(item["text"]):
        return None
    return OpenEntry(line=number, indent=indent, lines=[item["text"]])


def is_detail(text: str) -> bool:
    """Return whether a bullet below an entry continues it: it has a label, or does not name a paper."""
    return LABELLED.match(text) is not None or list_entries.paper_of(text, 0) is None


def row_papers(columns: Sequence[str], text: str, number: int) -> Iterator[ListPaper]:
    """Yield the paper in a row of a table of papers, or of another table whose row links to a paper."""
    cells = list_tables.cells_of(text)
    if list_tables.has_paper_columns(columns):
        found = list_tables.paper_in_row(columns, cells, number)
    else:
        linked = (cell for cell in cells if any(link.leads_to_paper for link in list_entries.links_in(cell)))
        found = list_entries.paper_of(next(linked, ""), number)
    if found is not None:
        yield ListPaper(record=found, is_marked=True)
