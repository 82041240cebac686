"""Read PubMed's text format, .nbib ("nbib")."""

from __future__ import annotations

import re

from digest.dumps.formats import clean_values, tagged_lines
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers.paper_record import Record

NAME = "nbib"

ID_WITH_KIND = re.compile(r"(\S+) \[(doi|pii|pmc)\]")


def recognises(head: str) -> bool:
    """Return whether the text begins with a PubMed id."""
    return re.match(r"\s*PMID- ?\d", head) is not None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the citations."""
    return Header(), tagged_lines.records(source, record_of, begins="PMID")


def record_of(entry: tagged_lines.TaggedRecord) -> Record:
    """Return the record for one citation."""
    located = [ID_WITH_KIND.match(value) for value in entry.values_of("LID", "AID")]
    return clean_values.paper(
        title=entry.first_value("TI", "BTI"),
        abstract=entry.first_value("AB"),
        ids=[
            ("pmid", entry.first_value("PMID")),
            ("pmcid", entry.first_value("PMC")),
            *(("doi", found[1]) for found in located if found and found[2] == "doi"),
        ],
        authors=entry.values_of("FAU") or entry.values_of("AU") or entry.values_of("CN"),
        published=[entry.first_value("DEP"), entry.first_value("DP")],
        categories=[value.lstrip("*") for value in entry.values_of("MH", "OT")],
        journal=entry.first_value("JT", "TA"),
        line=entry.line,
    )
