"""Read BibTeX with bibtexparser ("bibtex")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from bibtexparser.entrypoint import parse_string
from bibtexparser.middlewares import RemoveEnclosingMiddleware
from bibtexparser.model import DuplicateBlockKeyBlock, Entry

from digest.dumps.formats import clean_values, field_parsing
from digest.dumps.formats.reader_interface import (
    DumpInput,
    Header,
    Items,
    RecordProblem,
    excerpt,
)
from digest.papers.paper_record import Record

NAME = "bibtex"

ENTRIES_PER_CHUNK = 100
CHUNK_LENGTH = 64 * 1024  #: when a chunk has more characters than this, the next entry begins a new chunk
#: maximum number of characters in a chunk; a longer chunk is reported as an entry that is too long
MAX_CHUNK_LENGTH = 256 * 1024
MAX_STRINGS = 200
STRING = re.compile(r"[ \t]*@string\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}\s*", re.IGNORECASE)
ENTRY = re.compile(r"^[ \t]*@[A-Za-z]{3,30}\s*[{(]", re.MULTILINE)
FIELD = re.compile(r"^[^\n]*\b(?:title|author)\s*=\s*[{\"\w]", re.IGNORECASE | re.MULTILINE)
EXPRESSION = re.compile(r"(?:\"[^\"]*\"|\w+)(?:\s*#\s*(?:\"[^\"]*\"|\w+))+")
TERM = re.compile(r"\"(?P<text>[^\"]*)\"|(?P<name>\w+)")
UNENCLOSE = RemoveEnclosingMiddleware(allow_inplace_modification=True)
VOLUMES = ("proceedings",)  #: types of entries that describe whole volumes, not papers
LONGEST_PREFACE = 20  #: maximum number of lines of other text before the first entry
PROTECTED = re.compile(r"(?<![\\A-Za-z^_\"'`~=.}])\{([^{}\\]*|\$[^$]*\$)\}")
ESCAPED = re.compile(r"\{\\([%&_#])\}|\\([%&_#])")


def recognises(head: str) -> bool:
    """Return whether the dump begins with an entry, possibly after comments."""
    first = ENTRY.search(head) if "@" in head else None
    if first is None or head.count("\n", 0, first.start()) > LONGEST_PREFACE:
        return False
    return head.lstrip()[:1] in ("@", "%") or FIELD.search(head, first.start()) is not None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the entries in chunks, because the parser's time and memory use grow faster than its input."""
    return Header(), records(source)


def records(source: DumpInput) -> Items:
    """Yield a record for every entry of a paper, and a problem for every block that cannot be parsed."""
    strings: list[str] = []  #: the lines with abbreviations (@string) in the chunks read so far
    for first_line, text, fault in entry_chunks(source):
        if fault:
            yield RecordProblem(line=first_line, reason=fault)
            continue
        library = parse_string("".join(strings) + text)
        shift = first_line - len(strings)
        known = {name.casefold(): str(one.value) for name, one in library.strings_dict.items()}
        blocks: list[Any] = [*library.entries, *library.failed_blocks]
        for block in sorted(blocks, key=lambda block: block.start_line or 0):
            line = (block.start_line or 0) + shift
            is_duplicate = isinstance(block, DuplicateBlockKeyBlock)
            entry = block.ignore_error_block if is_duplicate else block
            if not isinstance(entry, Entry):  # entries with the same key count as different papers
                yield block_problem(block, line)
                continue
            if entry.entry_type.casefold() in VOLUMES:
                continue
            if is_duplicate:  # the parser leaves the delimiters around a duplicate's values
                entry = UNENCLOSE.transform_entry(entry, library)
            values = {
                name.casefold(): unenclosed(expand_value(str(one.value), known, is_duplicate=is_duplicate))
                for name, one in entry.fields_dict.items()
            }
            yield source.note_fields(values, record_of(values, line))
        strings += [line for line in text.splitlines(keepends=True) if STRING.match(line)]
        del strings[MAX_STRINGS:]


def expand_value(value: str, strings: dict[str, str], *, is_duplicate: bool = False) -> str:
    """Return a value such as `jgr # ", Part B"` with its abbreviations expanded and its parts joined."""
    if is_duplicate and value.casefold() in strings:
        return strings[value.casefold()]
    if "#" not in value or not EXPRESSION.fullmatch(value):
        return value
    return "".join(
        term["text"] if term["name"] is None else strings.get(term["name"].casefold(), term["name"])
        for term in TERM.finditer(value)
    )


def block_problem(block: Any, line: int) -> RecordProblem:
    """Return the problem for a block that the parser rejected."""
    error = getattr(block, "error", "")
    reason = " ".join(str(getattr(error, "abort_reason", error)).split())[:200]
    return RecordProblem(
        line=line,
        reason=reason or "not an entry",
        excerpt=excerpt(block.raw or ""),
        is_truncation="end of file" in reason,
    )


def entry_chunks(source: DumpInput) -> Iterator[tuple[int, str, str]]:
    """Yield (first line, text, fault) for each chunk of entries; a chunk ends where an entry begins."""
    run: list[str] = []
    first, size, entries = 1, 0, 0
    for number, text, fault in source.lines():
        begins = ENTRY.match(text) is not None
        is_full = begins and (entries >= ENTRIES_PER_CHUNK or size > CHUNK_LENGTH)
        if run and (is_full or fault or size > MAX_CHUNK_LENGTH):
            yield first, "".join(run), "" if size <= MAX_CHUNK_LENGTH else "an entry is too long"
            run, size, entries = [], 0, 0
        if fault:
            yield number, "", fault
            continue
        first = first if run else number
        run.append(text[:MAX_CHUNK_LENGTH] + "\n")
        size += len(text)
        entries += begins
    if run:
        yield first, "".join(run), "" if size <= MAX_CHUNK_LENGTH else "an entry is too long"


def record_of(values: dict[str, str], line: int) -> Record:
    """Return the record for one entry."""
    is_arxiv = values.get("archiveprefix", values.get("eprinttype", "arxiv")).casefold() == "arxiv"
    eprints = [values.get("eprint"), values.get("volume", "").removeprefix("abs/")] if is_arxiv else []
    year, month = (values.get(name, "").strip('{}" ') for name in ("year", "month"))
    return clean_values.paper(
        title=without_braces(values.get("title", "")),
        abstract=ESCAPED.sub(r"\1\2", field_parsing.as_text(values.get("abstract"))),
        ids=[
            ("doi", values.get("doi")),
            ("pmid", values.get("pmid")),
            *(("arxiv", one) for one in eprints),
        ],
        addresses=[values.get("url")],
        authors=field_parsing.as_text(values.get("author")).split(" and "),
        published=[values.get("date"), f"{year} {month} {values.get('day', '')}", year],
        categories=re.split("[,;]", values.get("keywords", "")),
        urls=[values.get("url")],
        comment=values.get("note"),
        journal=without_braces(
            values.get("journal") or values.get("journaltitle") or values.get("booktitle", "")
        ),
        line=line,
    )


def without_braces(text: str) -> str:
    """Return `text` without the braces that protect capitals, but with the braces of TeX commands."""
    for _ in range(3):
        text = PROTECTED.sub(r"\1", text)
    return ESCAPED.sub(r"\1\2", field_parsing.as_text(text))


def unenclosed(text: str) -> str:
    """Return a text without the pair of braces that encloses the whole text, if there is one."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    depths = accumulate((char == "{") - (char == "}") for char in text[:-1])
    return text[1:-1] if all(depth > 0 for depth in depths) else text
