"""Read CSL-JSON from reference managers and DOI servers, and Crossref's similar format ("csl-json")."""

from __future__ import annotations

import re
from typing import Any

from digest.dumps.formats import field_parsing, json_stream
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
    """Return the record for one item."""
    found = dict(field_parsing.as_mapping(found.get("message"))) or found
    authors = tuple(filter(None, map(name_of, field_parsing.as_list(found.get("author")))))
    urls = field_parsing.web_urls(found.get("URL"))
    record = Record(
        title=field_parsing.as_text(found.get("title")),
        abstract=field_parsing.as_prose(found.get("abstract")),
        ids=field_parsing.ids_in_urls(*urls)
        | field_parsing.normalised_ids(
            [("doi", found.get("DOI")), ("pmid", found.get("PMID")), ("pmcid", found.get("PMCID"))]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=next(
            filter(None, (field_parsing.parse_date_parts(found.get(name)) for name in DATES)), None
        ),
        categories=field_parsing.as_texts(found.get("subject")),
        urls=tuple(url for url in urls if "doi.org/" not in url),
        signals=field_parsing.known_signals(citations=found.get("is-referenced-by-count")),
        journal=field_parsing.as_text(found.get("container-title")),
        position=position,
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def name_of(author: Any) -> str:
    """Return the author's name as "Given Family", or the name of a group."""
    one = field_parsing.as_mapping(author)
    parts = (one.get("given"), one.get("non-dropping-particle"), one.get("family"), one.get("suffix"))
    return " ".join(filter(None, map(field_parsing.as_text, parts))) or field_parsing.as_text(
        one.get("literal") or one.get("name")
    )
