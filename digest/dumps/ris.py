"""RIS, as reference managers export it ("ris")."""

from __future__ import annotations

import re
from datetime import date

from digest.dumps import fields, tagged
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "ris"

#: Some programs indent the tags, or put another number of blanks before the dash, of any kind. A dash without
#: a blank on either side is one of a text that was broken there: `AI-based`.
TAG = re.compile(r"\s{0,8}([A-Z][A-Z0-9])(?:\s{1,4}-|-(?=\s|$))[ \u00a0]?(.*)")
FIRST = re.compile(r"(?:(?:Provider|Database|Content):.*\n\s*|\d{1,6}\.\s*\n\s*)*TY(?:\s{1,4}-\s*|-\s+)\w")


def recognises(head: str) -> bool:
    """Return whether a type of reference stands first."""
    return FIRST.match(head.lstrip()) is not None


def read(source: Source) -> tuple[Header, Items]:
    """Read the references."""
    return Header(), tagged.records(source, record_of, begins="TY", ends="ER", tags=TAG)


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
    named = fields.MONTH.get(parts[1][:3].capitalize(), parts[1] or 1)
    exact = (
        fields.day_of(parts[0], named, parts[2] or 1) or fields.day(printed) or fields.spelled_day(printed)
    )
    return exact or fields.day_of(printed[:4], 1, 1)
