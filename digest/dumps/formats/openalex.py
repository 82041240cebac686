"""Read OpenAlex works ("openalex") and rebuild their abstracts from inverted indexes."""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import field_parsing, json_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "openalex"

MAX_ABSTRACT_WORDS = 20_000


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
    known = field_parsing.as_mapping(found.get("ids"))
    authors = tuple(filter(None, map(name_of, field_parsing.as_list(found.get("authorships")))))
    topics = (found.get("primary_topic"), *field_parsing.as_list(found.get("topics")))
    location = field_parsing.as_mapping(found.get("primary_location"))
    return Record(
        title=field_parsing.as_text(found.get("title") or found.get("display_name")),
        abstract=abstract_in_order(found.get("abstract_inverted_index")),
        ids=field_parsing.ids_in_urls(location.get("landing_page_url"))
        | field_parsing.normalised_ids(
            [
                ("openalex", found.get("id") or known.get("openalex")),
                ("doi", found.get("doi") or known.get("doi")),
                ("pmid", known.get("pmid")),
                ("pmcid", known.get("pmcid")),
            ]
        ),
        authors=authors,
        organization=field_parsing.institutions(
            one.get("display_name")
            for authorship in field_parsing.as_list(found.get("authorships"))
            for one in map(
                field_parsing.as_mapping,
                field_parsing.as_list(field_parsing.as_mapping(authorship).get("institutions")),
            )
        ),
        n_authors=len(authors) or None,
        published=field_parsing.parse_day(found.get("publication_date")),
        categories=field_parsing.as_texts(
            [field_parsing.as_mapping(topic).get("display_name") for topic in topics]
        ),
        urls=field_parsing.web_urls(field_parsing.as_mapping(found.get("open_access")).get("oa_url")),
        signals=field_parsing.known_signals(citations=found.get("cited_by_count")),
        journal=field_parsing.as_text(field_parsing.as_mapping(location.get("source")).get("display_name")),
        position=position,
        line=line,
    )


def name_of(authorship: Any) -> str:
    """Return the author's name in an authorship."""
    one = field_parsing.as_mapping(authorship)
    return field_parsing.as_text(
        field_parsing.as_mapping(one.get("author")).get("display_name")
    ) or field_parsing.as_text(one.get("raw_author_name"))


def abstract_in_order(index: Any) -> str:
    """Return the abstract from an inverted index (word -> positions), ignoring missing positions."""
    places = [
        (place, word)
        for word, found in field_parsing.as_mapping(index).items()
        for place in field_parsing.as_list(found)
        if isinstance(place, int)
    ]
    return " ".join(word for _, word in sorted(places)[:MAX_ABSTRACT_WORDS])
