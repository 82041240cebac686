"""bioRxiv's and medRxiv's API: `details` and `pubs` ("biorxiv")."""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Announcement, Record

NAME = "biorxiv"


def recognises(head: str) -> bool:
    """Return whether this is an answer of that API."""
    keys = objects.keys_in(head)
    return {"collection", "messages"} <= keys or {"doi", "author_corresponding"} <= keys


def read(source: Source) -> tuple[Header, Items]:
    """Read the collection."""
    return objects.read(source, record_of, at=("collection",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one row; each version of a preprint is a row of its own, and a later one is no news.

    What was published since (`pubs`) has names of its own.
    """
    found = {name.removeprefix("preprint_"): value for name, value in found.items()}
    authors = tuple(filter(None, map(str.strip, fields.text(found.get("authors")).split(";"))))
    doi = fields.text(found.get("doi") or found.get("biorxiv_doi"))
    server = fields.text(found.get("server")) or "bioRxiv"
    return Record(
        title=fields.unmarked(found.get("title")),
        abstract=fields.unmarked(found.get("abstract")),
        ids=fields.ids([("doi", doi)]),
        authors=authors,
        n_authors=len(authors) or None,
        published=fields.day(found.get("date")),
        categories=tuple(filter(None, [fields.text(found.get("category"))])),
        urls=fields.urls(f"https://www.{server.casefold()}.org/content/{doi}") if doi.isprintable() else (),
        announcement=announcement(found),
        position=position,
        line=line,
    )


def announcement(found: dict[str, Any]) -> Announcement:
    """Return whether this row is a first version, a later one, or a withdrawal."""
    if "withdrawn" in fields.text(found.get("type")).casefold():
        return Announcement.WITHDRAWN
    later = (fields.number(found.get("version")) or 1) > 1
    return Announcement.REPLACED if later else Announcement.NEW
