"""PubMed's text format, .nbib ("nbib")."""

from __future__ import annotations

import re
from datetime import date

from digest.dumps import fields, tagged
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "nbib"

WITH_KIND = re.compile(r"(\S+) \[(doi|pii|pmc)\]")
PRINTED = re.compile(r"(\d{4})(?: ([A-Z][a-z]{2}))?(?:[-/][A-Z][a-z]{2})?(?: (\d{1,2}))?")


def recognises(head: str) -> bool:
    """Return whether a PubMed id stands first."""
    return re.match(r"\s*PMID- ?\d", head) is not None


def read(source: Source) -> tuple[Header, Items]:
    """Read the citations."""
    return Header(), tagged.records(source, record_of, begins="PMID")


def record_of(entry: tagged.Entry, position: int) -> Record:
    """Return one citation."""
    authors = tuple(entry.all("FAU") or entry.all("AU") or entry.all("CN"))
    located = [WITH_KIND.match(value) for value in entry.all("LID", "AID")]
    return Record(
        title=fields.text(entry.one("TI", "BTI")),
        abstract=fields.text(entry.one("AB")),
        ids=fields.ids(
            [
                ("pmid", entry.one("PMID")),
                ("pmcid", entry.one("PMC")),
                *(("doi", found[1]) for found in located if found and found[2] == "doi"),
            ]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=day_in(entry.one("DEP")) or day_in(entry.one("DP")),
        categories=tuple(dict.fromkeys(value.lstrip("*") for value in entry.all("MH", "OT"))),
        journal=fields.text(entry.one("JT", "TA")),
        position=position,
        line=entry.line,
    )


def day_in(printed: str) -> date | None:
    """Return the day in `2002 Sep-Oct`, `2002 Sep 17` or `20020917`, as far as it is printed."""
    if len(printed) == 8 and printed.isdecimal():
        return fields.day_of(printed[:4], printed[4:6], printed[6:])
    found = PRINTED.match(printed)
    return fields.day_of(found[1], fields.MONTH.get(found[2] or "Jan", 1), found[3] or 1) if found else None
