"""BibTeX ("bibtex"), through bibtexparser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from bibtexparser.entrypoint import parse_string
from bibtexparser.model import DuplicateBlockKeyBlock, Entry

from digest.dumps import fields
from digest.dumps.reading import Header, Items, Problem, Source, cut_at_the_end, excerpt
from digest.papers import Record

NAME = "bibtex"

TOGETHER = 100  #: entries parsed at a time
LONGEST = 256 * 1024  #: characters of what is parsed at a time
MOST_STRINGS = 200
STRING = re.compile(r"[ \t]*@string\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}\s*", re.IGNORECASE)
ENTRY = re.compile(r"^[ \t]*@[A-Za-z]{3,30}\s*[{(]", re.MULTILINE)
FIELD = re.compile(r"^[^\n]*\b(?:title|author)\s*=\s*[{\"\w]", re.IGNORECASE | re.MULTILINE)
EXPRESSION = re.compile(r"(?:\"[^\"]*\"|\w+)(?:\s*#\s*(?:\"[^\"]*\"|\w+))+")
TERM = re.compile(r"\"(?P<text>[^\"]*)\"|(?P<name>\w+)")
LONGEST_PREFACE = 20  #: lines of somebody's own words before the first entry
PROTECTED = re.compile(r"(?<![\\A-Za-z^_\"'`~=.}])\{([^{}\\]*)\}")


def recognises(head: str) -> bool:
    """Return whether entries stand in it, after comments perhaps."""
    first = ENTRY.search(head)
    if first is None or head.count("\n", 0, first.start()) > LONGEST_PREFACE:
        return False
    return head.lstrip()[:1] in ("@", "%") or FIELD.search(head, first.start()) is not None


def read(source: Source) -> tuple[Header, Items]:
    """Read the entries, some at a time: the parser's time and memory grow faster than the file."""
    return Header(), cut_at_the_end(records(source))


def records(source: Source) -> Items:
    """Yield every entry as a record; what is no entry is a problem."""
    position = 0
    strings: list[str] = []  #: abbreviations, which hold for the whole file
    for first_line, text, fault in chunks(source):
        if fault:
            yield Problem(line=first_line, reason=fault)
            continue
        library = parse_string("".join(strings) + text)
        shift = first_line - len(strings)
        known = {name.casefold(): str(one.value) for name, one in library.strings_dict.items()}
        blocks: list[Any] = [*library.entries, *library.failed_blocks]
        for block in sorted(blocks, key=lambda block: block.start_line or 0):
            line = (block.start_line or 0) + shift
            entry = block.ignore_error_block if isinstance(block, DuplicateBlockKeyBlock) else block
            if not isinstance(entry, Entry):  # of two with the same key, each is a paper
                yield failure(block, line)
                continue
            position += 1
            values = {
                name.casefold(): spelled_out(str(one.value), known) for name, one in entry.fields_dict.items()
            }
            yield record_of(values, position, line)
        strings += [line for line in text.splitlines(keepends=True) if STRING.match(line)]
        del strings[MOST_STRINGS:]


def spelled_out(value: str, strings: dict[str, str]) -> str:
    """Return a value that is put together of abbreviations and texts (`jgr # ", Part B"`) as one text."""
    if "#" not in value or not EXPRESSION.fullmatch(value):
        return value
    return "".join(
        term["text"] if term["name"] is None else strings.get(term["name"].casefold(), term["name"])
        for term in TERM.finditer(value)
    )


def failure(block: Any, line: int) -> Problem:
    """Return what the parser says of a block it could not read."""
    error = getattr(block, "error", "")
    reason = " ".join(str(getattr(error, "abort_reason", error)).split())[:200]
    return Problem(
        line=line,
        reason=reason or "not an entry",
        excerpt=excerpt(block.raw or ""),
        is_truncation="end of file" in reason,
    )


def chunks(source: Source) -> Iterator[tuple[int, str, str]]:
    """Yield (first line, text, fault) of some entries at a time, cut where one begins."""
    run: list[str] = []
    first, size, entries = 1, 0, 0
    for number, text, fault in source.lines():
        begins = ENTRY.match(text) is not None
        if run and ((begins and entries >= TOGETHER) or fault or size > LONGEST):
            yield first, "".join(run), "" if size <= LONGEST else "an entry is too long"
            run, size, entries = [], 0, 0
        if fault:
            yield number, "", fault
            continue
        first = first if run else number
        run.append(text[:LONGEST] + "\n")
        size += len(text)
        entries += begins
    if run:
        yield first, "".join(run), "" if size <= LONGEST else "an entry is too long"


def record_of(values: dict[str, str], position: int, line: int) -> Record:
    """Return one entry."""
    named = fields.text(values.get("author")).split(" and ")
    authors = tuple(filter(None, (unprotected(name) for name in named if name != "others")))
    is_arxiv = values.get("archiveprefix", values.get("eprinttype", "arxiv")).casefold() == "arxiv"
    urls = fields.urls(values.get("url"))
    return Record(
        title=unprotected(values.get("title", "")),
        abstract=fields.text(values.get("abstract", "")),
        ids=fields.ids_from(*urls)
        | fields.ids(
            [("doi", values.get("doi")), ("pmid", values.get("pmid"))]
            + ([("arxiv", values.get("eprint"))] if is_arxiv else [])
        ),
        authors=authors,
        n_authors=len(authors) if authors and named[-1] != "others" else None,
        published=published(values),
        categories=tuple(filter(None, map(str.strip, re.split("[,;]", values.get("keywords", ""))))),
        urls=urls,
        comment=fields.text(values.get("note", "")),
        journal=unprotected(
            values.get("journal") or values.get("journaltitle") or values.get("booktitle", "")
        ),
        position=position,
        line=line,
    )


def unprotected(text: str) -> str:
    """Return a text without the braces that only keep its capitals; TeX keeps its own."""
    for _ in range(3):
        text = PROTECTED.sub(r"\1", text)
    return fields.text(text)


def published(values: dict[str, str]) -> date | None:
    """Return the day, as far as it is printed."""
    if found := fields.day(values.get("date")):
        return found
    month = values.get("month", "").strip('{}" ')
    number = fields.MONTH.get(month[:3].capitalize(), month or 1)
    year = (values.get("year") or values.get("date", "")).strip("{} ")
    return fields.day_of(year, number, values.get("day") or 1) or fields.day_of(year, 1, 1)
