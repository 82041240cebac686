"""Read RIS, which reference managers export ("ris")."""

from __future__ import annotations

import re

from digest.dumps.formats import clean_values, tagged_lines
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers.paper_record import Record

NAME = "ris"

#: Some programs indent the tags or use a different number of spaces before the dash. A dash without a space
#: on either side belongs to wrapped text, as in `AI-based`.
TAG = re.compile(r"\s{0,8}([A-Z][A-Z0-9])(?:\s{1,4}-|-(?=\s|$))[ \u00a0]?(.*)")
FIRST_TAG = re.compile(r"^\ufeff?\s{0,8}TY(?:\s{1,4}-\s*|-\s+)\w", re.MULTILINE)
LIKELY_TAG = re.compile(r"TY[\s-]")  #: matches wherever FIRST_TAG may match, but is much faster to search for
SECOND_TAG = re.compile(r"\s{0,8}[A-Z][A-Z0-9](?:\s{1,4}-|-(?=\s|$))")
LONGEST_PREFACE = 50  #: maximum number of lines of other text before the first reference


def recognises(head: str) -> bool:
    """Return whether the text begins with a reference type, possibly after a preface."""
    first = FIRST_TAG.search(head) if LIKELY_TAG.search(head) else None
    if first is None or head.count("\n", 0, first.start()) > LONGEST_PREFACE:
        return False
    below = next((line for line in head[first.end() :].splitlines()[1:] if line.strip()), "")
    return not head[: first.start()].strip() or SECOND_TAG.match(below) is not None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the references."""
    return Header(), tagged_lines.records(source, record_of, begins="TY", ends="ER", tags=TAG)


def record_of(entry: tagged_lines.TaggedRecord) -> Record:
    """Return the record for one reference."""
    authors = tuple(
        ", ".join(part.strip() for part in name.split(",") if part.strip())
        for name in entry.values_of("AU", "A1")
    )
    urls = entry.values_of("UR", "L1", "L2")
    days = [entry.first_value("DA"), entry.first_value("PY", "Y1")]
    return clean_values.paper(
        title=entry.first_value("TI", "T1", "CT"),
        abstract=entry.first_value("AB", "N2"),
        ids=[("doi", entry.first_value("DO", "DI"))],
        addresses=urls,
        authors=authors,
        published=[*days, *(day[:4] for day in days)],
        categories=entry.values_of("KW"),
        urls=urls,
        journal=entry.first_value("JO", "JF", "T2", "JA"),
        line=entry.line,
    )
