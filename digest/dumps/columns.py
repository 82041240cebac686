"""Our own columns, as JSON ("json") or as CSV with a header line ("csv"): bring your own papers.

`title` is needed; the others may be missing. Lists are JSON lists, or separated by `;`. What
`digest papers --json` prints can be read back, with its `ids` and `signals` in objects of their own, and so
can what others call by a likely name (`summary`, `arxiv_id`, `date`, `url`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from digest.dumps import fields, objects
from digest.papers import Announcement, Organization, Record

LIKELY = {
    "title": ("title", "paper_title", "name"),
    "abstract": ("abstract", "summary", "description"),
    "arxiv": ("arxiv", "arxiv_id", "arxivid", "paper_arxiv_id"),
    "doi": ("doi",),
    "pmid": ("pmid", "pubmed_id"),
    "authors": ("authors", "author", "creators"),
    "n_authors": ("n_authors", "num_authors", "author_count"),
    "organization": ("organization", "organisation"),
    "published": (
        "published",
        "publication_date",
        "published_date",
        "publishedat",
        "published_at",
        "date_published",
        "date",
        "created",
        "year",
    ),
    "categories": ("categories", "category", "subjects", "tags", "keywords"),
    "journal": ("journal", "journal_ref", "journal-ref", "venue"),
    "comment": ("comment", "note"),
    "announcement": ("announcement", "announce_type"),
    "urls": ("urls", "url", "link", "links", "url_abs", "paper_url", "pdf_url", "repo_url", "github"),
}
SIGNALS = {
    "upvotes": ("upvotes", "votes", "likes"),
    "comments": ("comments", "num_comments", "numcomments"),
    "stars": ("stars", "github_stars", "githubstars"),
    "citations": ("citations", "citation_count", "citationcount", "cited_by_count"),
    "downloads": ("downloads", "download_count"),
    "likes": ("likes",),  # and upvotes, where there are none: both are read from it
    "views": ("views", "view_count"),
    "models": ("models", "num_models"),
    "datasets": ("datasets", "num_datasets"),
}
NEEDED = {"title", "paper_title"}
TELLING = {name for names in (*LIKELY.values(), *SIGNALS.values()) for name in names} - NEEDED - {"name"}


def is_ours(keys: frozenset[str] | set[str]) -> bool:
    """Return whether names like these are columns of papers."""
    folded = {key.strip().casefold() for key in keys}
    return bool(folded & NEEDED) and bool(folded & TELLING)


def record_of(found: Mapping[str, Any], position: int, line: int) -> Record:
    """Return one object or row as a record."""
    if isinstance(found.get("title"), list | dict) and len(found["title"]) > 1:
        raise ValueError("there are several titles in it; write an object for every paper")
    row = {key.strip().casefold(): value for key, value in with_inner(found).items()}
    authors = people(first(row, "authors"))
    abstract, comment = described(first(row, "abstract")), fields.text(first(row, "comment"))
    urls = fields.urls(*(url for name in LIKELY["urls"] for url in several(row.get(name))))
    told = fields.mapping(row.get("signals"))
    figures = {name: told.get(name, first_of(row, names)) for name, names in SIGNALS.items()}
    return Record(
        title=fields.text(first(row, "title")),
        abstract=abstract,
        ids=fields.ids_from(*urls)
        | fields.ids(
            [
                *fields.mapping(row.get("ids")).items(),
                ("arxiv", first(row, "arxiv")),
                ("doi", first(row, "doi")),
                ("pmid", first(row, "pmid")),
            ]
        ),
        authors=authors,
        n_authors=fields.count(first(row, "n_authors")) or len(authors) or None,
        organization=organization(first(row, "organization")),
        published=day_in(first(row, "published")),
        published_inferred=row.get("published_inferred") is True,
        categories=several(first(row, "categories")),
        urls=urls,
        signals=fields.signals(**figures),
        announcement=announcement(first(row, "announcement"), comment, abstract),
        comment=comment,
        journal=fields.text(first(row, "journal")),
        position=position,
        line=line,
    )


def with_inner(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with the fields of the one in it that bears the title, if it bears none itself."""
    if objects.has_title(found):
        return found
    return {**found, **dict(*objects.titled(found.values())[:1])}


def people(value: Any) -> tuple[str, ...]:
    """Return the authors: a list, or a line of names parted by `;` or, where that is clear, by commas."""
    return (fields.people(value) if isinstance(value, str) and ";" not in value else ()) or several(value)


def described(value: Any) -> str:
    """Return an abstract, without its markup if it has any."""
    return fields.unmarked(value) if isinstance(value, str) and "</" in value else fields.prose(value)


def day_in(value: Any) -> date | None:
    """Return a day however it is written; a year alone is its first day."""
    year = fields.number(value)
    if year is not None and year < 10_000:
        return fields.day_of(year, 1, 1)
    return fields.day(value) or fields.spelled_day(value) or fields.moment(value)


def first(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column under the first of its likely names that has one."""
    return first_of(row, LIKELY[column])


def first_of(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first value that is there."""
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)


def several(value: Any) -> tuple[str, ...]:
    """Return a list, or a text separated by `;`, as texts; of objects, their names."""
    if isinstance(value, str):
        value = value.split(";")
    return fields.texts([one.get("name") if isinstance(one, dict) else one for one in fields.listed(value)])


def announcement(value: Any, comment: str, abstract: str) -> Announcement:
    """Return how a paper is presented: in a word of ours, taken back where its authors say so, else new."""
    if fields.is_withdrawn(comment, abstract):
        return Announcement.WITHDRAWN
    said = fields.text(value).casefold()
    return Announcement(said) if said in tuple(Announcement) else Announcement.NEW


def organization(value: Any) -> Organization | None:
    """Return who stands behind a paper: an object with handle and name, or a name."""
    if name := fields.text(value):
        return Organization(handle=name, name=name)
    one = fields.mapping(value)
    handle = fields.text(one.get("handle"))
    return Organization(handle=handle, name=fields.text(one.get("name")) or handle) if handle else None
