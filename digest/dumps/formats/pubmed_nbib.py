"""Read PubMed's text format, .nbib ("nbib")."""

from __future__ import annotations

import re
from datetime import date

from digest.dumps.formats import field_parsing, tagged_lines
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "nbib"

ID_WITH_KIND = re.compile(r"(\S+) \[(doi|pii|pmc)\]")
PRINTED_DATE = re.compile(r"(\d{4})(?: ([A-Z][a-z]{2}))?(?:[-/][A-Z][a-z]{2})?(?: (\d{1,2}))?")


def recognises(head: str) -> bool:
    """Return whether the text begins with a PubMed id."""
    return re.match(r"\s*PMID- ?\d", head) is not None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the citations."""
    return Header(), tagged_lines.records(source, record_of, begins="PMID")


def record_of(entry: tagged_lines.TaggedRecord, position: int) -> Record:
    """Return the record for one citation."""
    authors = tuple(filter(None, entry.values_of("FAU") or entry.values_of("AU") or entry.values_of("CN")))
    located = [ID_WITH_KIND.match(value) for value in entry.values_of("LID", "AID")]
    return Record(
        title=field_parsing.as_text(entry.first_value("TI", "BTI")),
        abstract=field_parsing.as_text(entry.first_value("AB")),
        ids=field_parsing.normalised_ids(
            [
                ("pmid", entry.first_value("PMID")),
                ("pmcid", entry.first_value("PMC")),
                *(("doi", found[1]) for found in located if found and found[2] == "doi"),
            ]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=parse_printed_day(entry.first_value("DEP")) or parse_printed_day(entry.first_value("DP")),
        categories=tuple(dict.fromkeys(value.lstrip("*") for value in entry.values_of("MH", "OT"))),
        journal=field_parsing.as_text(entry.first_value("JT", "TA")),
        position=position,
        line=entry.line,
    )


def parse_printed_day(printed: str) -> date | None:
    """Return the date in `2002 Sep-Oct`, `2002 Sep 17` or `20020917`.

    A missing month counts as January, and a missing day as the first.
    """
    if len(printed) == 8 and printed.isdecimal():
        return field_parsing.make_date(printed[:4], printed[4:6], printed[6:])
    found = PRINTED_DATE.match(printed)
    return (
        field_parsing.make_date(found[1], field_parsing.MONTH.get(found[2] or "Jan", 1), found[3] or 1)
        if found
        else None
    )
