"""Read OpenAlex works ("openalex") and rebuild their abstracts from inverted indexes."""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text, first_at, texts_at, values_at
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "openalex"

MAX_ABSTRACT_WORDS = 20_000
IDS = {
    "openalex": ("id", "ids.openalex"),
    "doi": ("doi", "ids.doi"),
    "pmid": ("ids.pmid",),
    "pmcid": ("ids.pmcid",),
}


def recognises(head: str) -> bool:
    """Return whether the dump contains OpenAlex works."""
    keys = json_stream.keys_in(head)
    return "openalex.org/W" in head and bool(
        keys & {"authorships", "abstract_inverted_index", "publication_date"}
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the `results` of a search, the lines of a snapshot, or a single work."""
    return json_stream.read(source, record_of, list_names=("results",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one work."""
    return clean_values.paper(
        title=first_at(found, "title", "display_name"),
        abstract=abstract_in_order(found.get("abstract_inverted_index")),
        ids=[(scheme, first_at(found, *paths)) for scheme, paths in IDS.items()],
        addresses=values_at(found, "primary_location.landing_page_url"),
        authors=[
            as_text(first_at(one, "author.display_name", "raw_author_name"))
            for one in values_at(found, "authorships")
        ],
        organization=field_parsing.institutions(values_at(found, "authorships.institutions.display_name")),
        published=found.get("publication_date"),
        categories=texts_at(found, "primary_topic.display_name", "topics.display_name"),
        urls=values_at(found, "open_access.oa_url"),
        signals={"citations": found.get("cited_by_count")},
        journal=first_at(found, "primary_location.source.display_name"),
        position=position,
        line=line,
    )


def abstract_in_order(index: Any) -> str:
    """Return the abstract from an inverted index (word -> positions), ignoring missing positions."""
    places = [
        (place, word)
        for word, found in field_parsing.as_mapping(index).items()
        for place in field_parsing.as_list(found)
        if isinstance(place, int)
    ]
    return " ".join(word for _, word in sorted(places)[:MAX_ABSTRACT_WORDS])
