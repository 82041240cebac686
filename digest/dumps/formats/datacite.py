"""Read responses of DataCite's API, and DataCite metadata (Crosscite) from DOI servers ("datacite")."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from digest.dumps.formats import field_parsing, json_stream
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
    authors = tuple(filter(None, map(name_of, objects_in(found.get("creators")))))
    urls = field_parsing.web_urls(found.get("url"))
    titles = [one for one in objects_in(found.get("titles")) if not one.get("titleType")]
    record = Record(
        title=first_text(titles, "title"),
        abstract=abstract_of(objects_in(found.get("descriptions"))),
        ids=field_parsing.ids_in_urls(*urls)
        | field_parsing.normalised_ids([("doi", found.get("doi") or found.get("id"))]),
        authors=authors,
        n_authors=len(authors) or None,
        published=published(found),
        categories=field_parsing.as_texts([one.get("subject") for one in objects_in(found.get("subjects"))]),
        urls=tuple(url for url in urls if "doi.org/" not in url),
        signals=field_parsing.known_signals(
            citations=found.get("citationCount"),
            views=found.get("viewCount"),
            downloads=found.get("downloadCount"),
        ),
        journal=field_parsing.as_text(field_parsing.as_mapping(found.get("container")).get("title")),
        position=position,
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; treat a single object as a list of one."""
    values = [value] if isinstance(value, dict) else field_parsing.as_list(value)
    return [one for one in values if isinstance(one, dict)]


def first_text(found: list[Mapping[str, Any]], name: str) -> str:
    """Return the first non-empty text under this key in the objects, or an empty string."""
    return next(filter(None, (field_parsing.as_text(one.get(name)) for one in found)), "")


def abstract_of(descriptions: list[Mapping[str, Any]]) -> str:
    """Return the description that is an abstract, or else the first description of an unknown type."""
    typed = [one for one in descriptions if one.get("descriptionType") == "Abstract"]
    untyped = [one for one in descriptions if not one.get("descriptionType")]
    return first_text([*typed, *untyped], "description")


def name_of(creator: Mapping[str, Any]) -> str:
    """Return the name of a person as "Given Family", or the name of a group."""
    parts = map(field_parsing.as_text, (creator.get("givenName"), creator.get("familyName")))
    return " ".join(filter(None, parts)) or field_parsing.as_text(creator.get("name"))


def published(found: Mapping[str, Any]) -> date | None:
    """Return the preferred complete date, else a partial date, else the first day of the publication year."""
    dates = {one.get("dateType"): one.get("date") for one in objects_in(found.get("dates"))}
    printed = [value for kind in DATE_TYPES if isinstance(value := dates.get(kind), str)]
    whole = [
        day
        for value in printed
        if len(value) >= len("2026-11-16") and (day := field_parsing.parse_day(value))
    ]
    partial = [day for value in printed if (day := field_parsing.parse_day(value))]
    return next(iter([*whole, *partial]), None) or field_parsing.make_date(found.get("publicationYear"), 1, 1)
