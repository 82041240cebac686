"""OpenAlex works ("openalex"); their abstracts come as an index of words, put back in order here."""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "openalex"

LONGEST = 20_000  #: words of an abstract


def recognises(head: str) -> bool:
    """Return whether these are OpenAlex works."""
    keys = objects.keys_in(head)
    return "openalex.org/W" in head and bool(
        keys & {"authorships", "abstract_inverted_index", "publication_date"}
    )


def read(source: Source) -> tuple[Header, Items]:
    """Read a search's `results`, a snapshot's lines, or a single work."""
    return objects.read(source, record_of, at=("results",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one work."""
    known = fields.mapping(found.get("ids"))
    authors = tuple(filter(None, map(name_of, fields.listed(found.get("authorships")))))
    topics = (found.get("primary_topic"), *fields.listed(found.get("topics")))
    location = fields.mapping(found.get("primary_location"))
    return Record(
        title=fields.unmarked(found.get("title") or found.get("display_name")),
        abstract=in_order(found.get("abstract_inverted_index")),
        ids=fields.ids_from(location.get("landing_page_url"))
        | fields.ids(
            [
                ("openalex", found.get("id") or known.get("openalex")),
                ("doi", found.get("doi") or known.get("doi")),
                ("pmid", known.get("pmid")),
                ("pmcid", known.get("pmcid")),
            ]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=fields.day(found.get("publication_date")),
        categories=fields.texts([fields.mapping(topic).get("display_name") for topic in topics]),
        urls=fields.urls(fields.mapping(found.get("open_access")).get("oa_url")),
        signals=fields.signals(citations=found.get("cited_by_count")),
        journal=fields.text(fields.mapping(location.get("source")).get("display_name")),
        position=position,
        line=line,
    )


def name_of(authorship: Any) -> str:
    """Return an author's name."""
    one = fields.mapping(authorship)
    return fields.text(fields.mapping(one.get("author")).get("display_name")) or fields.text(
        one.get("raw_author_name")
    )


def in_order(index: Any) -> str:
    """Return the abstract of which `index` tells the places of every word; gaps close up."""
    places = [
        (place, word)
        for word, found in fields.mapping(index).items()
        for place in fields.listed(found)
        if isinstance(place, int)
    ]
    return " ".join(word for _, word in sorted(places)[:LONGEST])
