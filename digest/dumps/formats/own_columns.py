"""Convert the columns of an operator's own JSON ("json") or CSV ("csv") to records.

`title` is required; the other columns are optional. A list is a JSON list or a text separated by `;`. The
output of `digest papers --json`, in which `ids` and `signals` are objects, can be read too. Common
alternative column names are accepted (`summary`, `arxiv_id`, `date`, `url`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from digest.dumps.formats import field_parsing, json_stream
from digest.papers import Announcement, Organization, Record

COLUMN_ALIASES = {
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
SIGNAL_ALIASES = {
    "upvotes": ("upvotes", "votes", "likes"),
    "comments": ("comments", "num_comments", "numcomments"),
    "stars": ("stars", "github_stars", "githubstars"),
    "citations": ("citations", "citation_count", "citationcount", "cited_by_count"),
    "downloads": ("downloads", "download_count"),
    "likes": ("likes",),  # also used as upvotes if there are no upvotes
    "views": ("views", "view_count"),
    "models": ("models", "num_models"),
    "datasets": ("datasets", "num_datasets"),
}
REQUIRED_COLUMNS = {"title", "paper_title"}
INDICATIVE_COLUMNS = (
    {name for names in (*COLUMN_ALIASES.values(), *SIGNAL_ALIASES.values()) for name in names}
    - REQUIRED_COLUMNS
    - {"name"}
)


def has_paper_columns(keys: frozenset[str] | set[str]) -> bool:
    """Return whether these keys include a title and another known column."""
    folded = {key.strip().casefold() for key in keys}
    return bool(folded & REQUIRED_COLUMNS) and bool(folded & INDICATIVE_COLUMNS)


def record_of(found: Mapping[str, Any], position: int, line: int) -> Record:
    """Return the record for one object or row; raise ValueError if it contains several papers."""
    if isinstance(found.get("title"), list | dict) and len(found["title"]) > 1:
        raise ValueError("it has several titles; write one object per paper")
    row = {key.strip().casefold(): value for key, value in with_nested_paper(found).items()}
    authors = author_names(column_value(row, "authors"))
    abstract, comment = (
        abstract_text(column_value(row, "abstract")),
        field_parsing.as_text(column_value(row, "comment")),
    )
    urls = field_parsing.web_urls(
        *(url for name in COLUMN_ALIASES["urls"] for url in text_list(row.get(name)))
    )
    nested = field_parsing.as_mapping(row.get("signals"))
    figures = {name: nested.get(name, first_present(row, names)) for name, names in SIGNAL_ALIASES.items()}
    return Record(
        title=field_parsing.as_text(column_value(row, "title")),
        abstract=abstract,
        ids=field_parsing.ids_in_urls(*urls)
        | field_parsing.normalised_ids(
            [
                *field_parsing.as_mapping(row.get("ids")).items(),
                ("arxiv", column_value(row, "arxiv")),
                ("doi", column_value(row, "doi")),
                ("pmid", column_value(row, "pmid")),
            ]
        ),
        authors=authors,
        n_authors=field_parsing.parse_count(column_value(row, "n_authors")) or len(authors) or None,
        organization=organization(column_value(row, "organization")),
        published=parse_day(column_value(row, "published")),
        published_inferred=row.get("published_inferred") is True,
        categories=text_list(column_value(row, "categories")),
        urls=urls,
        signals=field_parsing.known_signals(**figures),
        announcement=announcement(column_value(row, "announcement"), comment, abstract),
        comment=comment,
        journal=field_parsing.as_text(column_value(row, "journal")),
        position=position,
        line=line,
    )


def with_nested_paper(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with a title: if it has none, add the fields of a nested object that has one."""
    if json_stream.has_title(found):
        return found
    return {**found, **dict(*json_stream.objects_with_title(found.values())[:1])}


def author_names(value: Any) -> tuple[str, ...]:
    """Return the authors from a list or from names separated by `;` or, if unambiguous, by commas."""
    return (
        field_parsing.person_names(value) if isinstance(value, str) and ";" not in value else ()
    ) or text_list(value)


def abstract_text(value: Any) -> str:
    """Return an abstract without markup."""
    return (
        field_parsing.without_markup(value)
        if isinstance(value, str) and "</" in value
        else field_parsing.as_prose(value)
    )


def parse_day(value: Any) -> date | None:
    """Return a date in any known spelling; a year alone means its first day."""
    year = field_parsing.parse_number(value)
    if year is not None and year < 10_000:
        return field_parsing.make_date(year, 1, 1)
    return (
        field_parsing.parse_day(value)
        or field_parsing.parse_spelled_day(value)
        or field_parsing.parse_timestamp(value)
    )


def column_value(row: Mapping[str, Any], column: str) -> Any:
    """Return the first non-empty value of a column under any of its names."""
    return first_present(row, COLUMN_ALIASES[column])


def first_present(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first value that is not empty, or None."""
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)


def text_list(value: Any) -> tuple[str, ...]:
    """Return the texts in a list or in a text separated by `;`; an object in a list is read as its name."""
    if isinstance(value, str):
        value = value.split(";")
    return field_parsing.as_texts(
        [one.get("name") if isinstance(one, dict) else one for one in field_parsing.as_list(value)]
    )


def announcement(value: Any, comment: str, abstract: str) -> Announcement:
    """Return the kind of announcement; "withdrawn" in the text takes precedence, and the default is new."""
    if field_parsing.is_withdrawn(comment, abstract):
        return Announcement.WITHDRAWN
    word = field_parsing.as_text(value).casefold()
    return Announcement(word) if word in tuple(Announcement) else Announcement.NEW


def organization(value: Any) -> Organization | None:
    """Return the organisation, given as a name or as an object with a handle and a name."""
    if name := field_parsing.as_text(value):
        return Organization(handle=name, name=name)
    one = field_parsing.as_mapping(value)
    handle = field_parsing.as_text(one.get("handle"))
    return (
        Organization(handle=handle, name=field_parsing.as_text(one.get("name")) or handle) if handle else None
    )
