"""arXiv's metadata snapshot, one JSON object a line, as Kaggle hands it out ("kaggle").

A paper's date is that of its first version; `update_date` is when its record last changed.
"""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Announcement, Record

NAME = "kaggle"


def recognises(head: str) -> bool:
    """Return whether these are arXiv's own records."""
    return {"authors_parsed", "categories", "versions", "title"} <= objects.keys_in(head)


def read(source: Source) -> tuple[Header, Items]:
    """Read the snapshot line by line."""
    return objects.read(source, record_of)


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one line as a record."""
    authors = tuple(map(name_of, fields.listed(found.get("authors_parsed"))))
    authors = authors or fields.names(found.get("authors"))
    abstract, comment = fields.prose(found.get("abstract")), fields.text(found.get("comments"))
    withdrawn = "withdrawn" in comment + abstract[:200] and fields.is_withdrawn(comment, abstract)
    return Record(
        title=fields.text(found.get("title")),
        abstract=abstract,
        ids=fields.ids((("arxiv", found.get("id")), ("doi", first_doi(found.get("doi"))))),
        authors=authors,
        n_authors=len(authors) or None,
        published=first_version(found.get("versions")),
        categories=tuple(fields.text(found.get("categories")).split()),
        announcement=Announcement.WITHDRAWN if withdrawn else Announcement.NEW,
        comment=comment,
        journal=fields.text(found.get("journal-ref")),
        position=position,
        line=line,
    )


def name_of(parsed: Any) -> str:
    """Return `["Lind", "Per", "Jr"]` as "Per Lind Jr"."""
    try:  # there are ten times as many names as papers
        return " ".join(" ".join((parsed[1], parsed[0], parsed[2])).split())
    except (TypeError, LookupError):
        pass
    last, first, suffix = (*parsed[:3], "", "", "")[:3]
    return " ".join(" ".join([part for part in (first, last, suffix) if isinstance(part, str)]).split())


def first_version(versions: Any) -> Any:
    """Return the day of the first version."""
    if not (isinstance(versions, list) and versions and isinstance(versions[0], dict)):
        return None
    return fields.spelled_day(versions[0].get("created"))


def first_doi(value: Any) -> Any:
    """Return the first of several DOIs written into one field."""
    return value.split()[0] if isinstance(value, str) and value.strip() else None
