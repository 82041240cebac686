"""Read arXiv's metadata snapshot from Kaggle, one JSON object per line ("kaggle").

A paper's date is the date of its first version; `update_date` is the date of the record's last change.
"""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "kaggle"


def recognises(head: str) -> bool:
    """Return whether the dump contains records of arXiv's snapshot."""
    return {"authors_parsed", "categories", "versions", "title"} <= json_stream.keys_in(head)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the snapshot line by line."""
    return json_stream.read(source, record_of)


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one line."""
    authors = tuple(filter(None, map(name_of, field_parsing.as_list(found.get("authors_parsed")))))
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=(("arxiv", found.get("id")), ("doi", first_doi(found.get("doi")))),
        authors=authors or field_parsing.split_names(found.get("authors")),
        published=first_version(found.get("versions")),
        categories=field_parsing.as_text(found.get("categories")).split(),
        comment=found.get("comments"),
        journal=found.get("journal-ref"),
        position=position,
        line=line,
    )


def name_of(parsed: Any) -> str:
    """Return the author's name in `["Lind", "Per", "Jr"]` as "Per Lind Jr"."""
    try:  # a fast path for most names; a snapshot has ten times as many names as papers
        return " ".join(" ".join((parsed[1], parsed[0], parsed[2])).split())
    except (TypeError, LookupError):
        pass
    last, first, suffix = (*field_parsing.as_list(parsed)[:3], "", "", "")[:3]
    return " ".join(" ".join([part for part in (first, last, suffix) if isinstance(part, str)]).split())


def first_version(versions: Any) -> Any:
    """Return the date of the first of a paper's versions, or None if it is unknown."""
    if not (isinstance(versions, list) and versions and isinstance(versions[0], dict)):
        return None
    return versions[0].get("created")


def first_doi(value: Any) -> Any:
    """Return the first DOI of a field that may contain several DOIs, or None."""
    return value.split()[0] if isinstance(value, str) and value.strip() else None
