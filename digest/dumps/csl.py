"""CSL-JSON, as reference managers and DOI servers write it, and Crossref's works of the same make ("csl-json")."""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "csl-json"

DATES = ("issued", "published-online", "published-print", "published", "posted", "created")
OURS = {"DOI", "container-title", "issued", "page", "publisher", "is-referenced-by-count"}


def recognises(head: str) -> bool:
    """Return whether dates come in parts and names in two."""
    keys = objects.keys_in(head)
    return "title" in keys and ("date-parts" in keys or ("type" in keys and len(keys & OURS) >= 2))


def read(source: Source) -> tuple[Header, Items]:
    """Read the items."""
    return objects.read(source, record_of, at=("items",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one item."""
    found = dict(fields.mapping(found.get("message"))) or found
    authors = tuple(filter(None, map(name_of, fields.listed(found.get("author")))))
    urls = fields.urls(found.get("URL"))
    return Record(
        title=fields.unmarked(fields.text(found.get("title"))),
        abstract=fields.unmarked(found.get("abstract")).removeprefix("Abstract "),  # its heading
        ids=fields.ids_from(*urls)
        | fields.ids([("doi", found.get("DOI")), ("pmid", found.get("PMID")), ("pmcid", found.get("PMCID"))]),
        authors=authors,
        n_authors=len(authors) or None,
        published=next(filter(None, (fields.day_parts(found.get(name)) for name in DATES)), None),
        categories=fields.texts(found.get("subject")),
        urls=tuple(url for url in urls if "doi.org/" not in url),
        signals=fields.signals(citations=found.get("is-referenced-by-count")),
        journal=fields.text(found.get("container-title")),
        position=position,
        line=line,
    )


def name_of(author: Any) -> str:
    """Return a name, "Given Family"; a group has only the one."""
    one = fields.mapping(author)
    parts = (one.get("given"), one.get("non-dropping-particle"), one.get("family"), one.get("suffix"))
    return " ".join(filter(None, map(fields.text, parts))) or fields.text(
        one.get("literal") or one.get("name")
    )
