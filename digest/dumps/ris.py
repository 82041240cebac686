"""RIS, as reference managers export it ("ris")."""

from __future__ import annotations

import re
from datetime import date

from digest.dumps import fields, tagged
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "ris"

FIRST = re.compile(r"(?:(?:Provider|Database|Content):.*\n\s*)*TY {1,2}- ?\w")


def recognises(head: str) -> bool:
    """Return whether a type of reference stands first."""
    return FIRST.match(head.lstrip()) is not None


def read(source: Source) -> tuple[Header, Items]:
    """Read the references."""
    return Header(), tagged.records(source, record_of, begins="TY", ends="ER")


def record_of(entry: tagged.Entry, position: int) -> Record:
    """Return one reference."""
    authors = tuple(
        ", ".join(part.strip() for part in name.split(",") if part.strip()) for name in entry.all("AU", "A1")
    )
    urls = fields.urls(*entry.all("UR", "L1", "L2"))
    return Record(
        title=fields.text(entry.one("TI", "T1", "CT")),
        abstract=fields.text(entry.one("AB", "N2")),
        ids=fields.ids_from(*urls) | fields.ids([("doi", entry.one("DO", "DI"))]),
        authors=authors,
        n_authors=len(authors) or None,
        published=day_in(entry.one("DA")) or day_in(entry.one("PY", "Y1")),
        categories=tuple(dict.fromkeys(entry.all("KW"))),
        urls=urls,
        journal=fields.text(entry.one("JO", "JF", "T2", "JA")),
        position=position,
        line=entry.line,
    )


def day_in(printed: str) -> date | None:
    """Return the day in `2020/05/01/`, of which month and day may be missing."""
    parts = [part.strip() for part in printed.split("/")] + ["", ""]
    return fields.day_of(parts[0], parts[1] or 1, parts[2] or 1) or fields.day(printed)
