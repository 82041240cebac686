"""Read CSL-JSON from reference managers and DOI servers, and Crossref's similar format ("csl-json")."""

from __future__ import annotations

import re
from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text, first_at, texts_at, values_at
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "csl-json"

DATES = ("issued", "published-online", "published-print", "published", "posted", "created")
TITLE_LIST = re.compile(r'"title"\s*:\s*\[')
CSL_KEYS = {"DOI", "container-title", "issued", "page", "publisher", "is-referenced-by-count"}


def recognises(head: str) -> bool:
    """Return whether the dump contains objects with the keys of CSL-JSON."""
    keys = json_stream.keys_in(head)
    is_crossref = "DOI" in keys and TITLE_LIST.search(head) is not None
    return "title" in keys and (
        "date-parts" in keys or is_crossref or ("type" in keys and len(keys & CSL_KEYS) >= 2)
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the items of a list, or the `items` of a response."""
    return json_stream.read(source, record_of, list_names=("items",))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one item; raise NotAPaper if it has only a title."""
    found = dict(field_parsing.as_mapping(found.get("message"))) or found
    url = as_text(found.get("URL"))
    record = clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=[("doi", found.get("DOI")), ("pmid", found.get("PMID")), ("pmcid", found.get("PMCID"))],
        addresses=[url],
        authors=map(name_of, values_at(found, "author")),
        published=[found.get(name) for name in DATES],
        categories=texts_at(found, "subject"),
        urls=[] if "doi.org/" in url else [url],
        signals={"citations": found.get("is-referenced-by-count")},
        journal=found.get("container-title"),
        position=position,
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def name_of(author: Any) -> str:
    """Return the author's name as "Given Family", or the name of a group."""
    parts = texts_at(author, "given", "non-dropping-particle", "family", "suffix")
    return " ".join(parts) or as_text(first_at(author, "literal", "name"))
