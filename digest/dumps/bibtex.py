"""BibTeX ("bibtex"), through bibtexparser."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from bibtexparser.entrypoint import parse_string

from digest.dumps import fields
from digest.dumps.reading import Header, Items, Problem, Source, excerpt
from digest.errors import Unreadable
from digest.papers import Record

NAME = "bibtex"

WHOLE = 16 * 1024 * 1024
ENTRY = re.compile(r"^[ \t]*@(?:article|inproceedings|misc|incollection|book|phdthesis|techreport|online|"
                   r"unpublished|conference|proceedings|mastersthesis|preprint|string|comment|preamble)\s*[{(]",
                   re.IGNORECASE | re.MULTILINE)  # fmt: skip
PROTECTED = re.compile(r"(?<![\\A-Za-z^_\"'`~=.}])\{([^{}\\]*)\}")


def recognises(head: str) -> bool:
    """Return whether entries stand in it, after comments perhaps."""
    return ENTRY.search(head) is not None and head.lstrip()[:1] in ("@", "%")


def read(source: Source) -> tuple[Header, Items]:
    """Read the entries."""
    try:
        text = source.whole(WHOLE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"It is not UTF-8 (byte {error.start + 1}).") from error
    return Header(), records(text)


def records(text: str) -> Items:
    """Yield every entry as a record; what is no entry is a problem."""
    library = parse_string(text)
    blocks: list[Any] = sorted(
        [*library.entries, *library.failed_blocks], key=lambda block: block.start_line or 0
    )
    position = 0
    for block in blocks:
        line = (block.start_line or 0) + 1
        if not hasattr(block, "fields_dict"):
            reason = " ".join(str(getattr(block, "error", "not an entry")).split())[:200]
            yield Problem(line=line, reason=reason, excerpt=excerpt(block.raw or ""))
            continue
        position += 1
        values = {name.casefold(): str(one.value) for name, one in block.fields_dict.items()}
        yield record_of(values, position, line)


def record_of(values: dict[str, str], position: int, line: int) -> Record:
    """Return one entry."""
    authors = tuple(
        filter(None, (unprotected(name) for name in fields.text(values.get("author")).split(" and ")))
    )
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
        n_authors=len(authors) or None,
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
