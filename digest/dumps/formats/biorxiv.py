"""Read responses of the bioRxiv and medRxiv API: `details` and `pubs` ("biorxiv")."""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Announcement, Record

NAME = "biorxiv"


def recognises(head: str) -> bool:
    """Return whether the dump is a response from the bioRxiv or medRxiv API."""
    keys = json_stream.keys_in(head)
    return {"collection", "messages"} <= keys or {"doi", "author_corresponding"} <= keys


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the rows of the `collection`."""
    return json_stream.read(source, record_of, list_names=("collection",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one row.

    Each version of a preprint has its own row; a row of a later version is marked as a replacement. The rows
    of `pubs`, which lists preprints later published in journals, have different field names.
    """
    found = {name.removeprefix("preprint_"): value for name, value in found.items()}
    doi = as_text(found.get("doi") or found.get("biorxiv_doi"))
    server = as_text(found.get("server")) or "bioRxiv"
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=[("doi", doi)],
        authors=map(str.strip, as_text(found.get("authors")).split(";")),
        published=found.get("date"),
        categories=[as_text(found.get("category"))],
        urls=[f"https://www.{server.casefold()}.org/content/{doi}"] if doi.isprintable() else (),
        announcement=announcement(found),
        position=position,
        line=line,
    )


def announcement(found: dict[str, Any]) -> Announcement:
    """Return whether a row announces a first version, a later version or a withdrawal."""
    if "withdrawn" in as_text(found.get("type")).casefold():
        return Announcement.WITHDRAWN
    later = (field_parsing.parse_number(found.get("version")) or 1) > 1
    return Announcement.REPLACED if later else Announcement.NEW
