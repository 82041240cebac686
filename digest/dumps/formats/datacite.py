"""Read responses of DataCite's API, and DataCite metadata (Crosscite) from DOI servers ("datacite")."""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text, first_at, texts_at, values_at
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "datacite"

#: The types of dates, in order of preference for the date of a paper.
DATE_TYPES = ("Issued", "Submitted", "Available", "Created", "Copyrighted")
FIELDS = {"creators", "publicationYear", "descriptions", "doi"}


def recognises(head: str) -> bool:
    """Return whether the dump contains objects with the keys of DataCite's metadata."""
    keys = json_stream.keys_in(head)
    return "titles" in keys and bool(keys & FIELDS)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the `data` of a search, a single DOI, or a list of metadata objects."""
    return json_stream.read(source, record_of, list_names=("data",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one DOI; raise NotAPaper if the DOI has only a title."""
    found = dict(field_parsing.as_mapping(found.get("data"))) or found
    found = dict(field_parsing.as_mapping(found.get("attributes"))) or found
    url = as_text(found.get("url"))
    titles = [one for one in values_at(found, "titles") if first_at(one, "titleType") is None]
    record = clean_values.paper(
        title=first_at({"titles": titles}, "titles.title"),
        abstract=abstract_of(values_at(found, "descriptions")),
        ids=[("doi", found.get("doi") or found.get("id"))],
        addresses=[url],
        authors=map(name_of, values_at(found, "creators")),
        published=published(found),
        categories=texts_at(found, "subjects.subject"),
        urls=[] if "doi.org/" in url else [url],
        signals={
            "citations": found.get("citationCount"),
            "views": found.get("viewCount"),
            "downloads": found.get("downloadCount"),
        },
        journal=first_at(found, "container.title"),
        position=position,
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def abstract_of(descriptions: list[Any]) -> Any:
    """Return the description that is an abstract, or else the first description of an unknown type."""
    kinds = {first_at(one, "descriptionType"): one for one in reversed(descriptions)}
    return first_at(kinds.get("Abstract") or kinds.get(None), "description")


def name_of(creator: Any) -> str:
    """Return the name of a person as "Given Family", or the name of a group."""
    return " ".join(texts_at(creator, "givenName", "familyName")) or as_text(first_at(creator, "name"))


def published(found: dict[str, Any]) -> list[Any]:
    """Return the dates that may be the date of a paper, the best first: whole dates, partial ones, the year."""
    dates = {first_at(one, "dateType"): as_text(first_at(one, "date")) for one in values_at(found, "dates")}
    printed = [dates[kind] for kind in DATE_TYPES if kind in dates]
    whole = [value for value in printed if len(value) >= len("2026-11-16")]
    return [*whole, *printed, found.get("publicationYear")]
