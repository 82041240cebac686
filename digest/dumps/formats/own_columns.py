"""Convert the columns of an operator's own JSON ("json") or CSV ("csv") to records.

`title` is required; the other columns are optional. A list is a JSON list or a string separated by `;`. The
output of `digest papers --json`, in which `ids` and `signals` are objects, is also accepted. Common
alternative column names are accepted (`summary`, `arxiv_id`, `date`, `url`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_papers, json_stream
from digest.papers.paper_record import Announcement, Organization, Record

#: The accepted names of each column, in lower case, without spaces, hyphens or underscores.
COLUMN_ALIASES = {
    "title": ("title", "papertitle", "name"),
    "abstract": ("abstract", "summary", "description", "abstractnote", "abstracttext", "contenttext"),
    "arxiv": ("arxiv", "arxivid", "paperarxivid"),
    "doi": ("doi",),
    "pmid": ("pmid", "pubmedid"),
    "authors": ("authors", "author", "creators", "authornames", "authorstring"),
    "n_authors": ("nauthors", "numauthors", "authorcount"),
    "organization": ("organization", "organisation"),
    "published": (
        "published", "publicationdate", "pubdate", "publisheddate", "publishedat", "datepublished", "date", "created", "pdate",
        "cdate", "firstpublicationdate", "year", "publicationyear", "pubyear",
    ),
    "categories": ("categories", "category", "subjects", "tags", "keywords"),
    "journal": ("journal", "journalref", "venue", "pub", "publicationtitle", "sourcetitle", "proceedingstitle", "booktitle"),
    "comment": ("comment", "note"),
    "announcement": ("announcement", "announcetype"),
    "urls": ("urls", "url", "link", "links", "urlabs", "paperurl", "pdfurl", "repourl", "github"),
}  # fmt: skip
SIGNAL_ALIASES = {
    "upvotes": ("upvotes", "votes", "likes"),
    "comments": ("comments", "numcomments"),
    "stars": ("stars", "githubstars"),
    "citations": ("citations", "citationcount", "citedbycount"),
    "downloads": ("downloads", "downloadcount"),
    "likes": ("likes",),  # also used as upvotes if there are no upvotes
    "views": ("views", "viewcount"),
    "models": ("models", "nummodels"),
    "datasets": ("datasets", "numdatasets"),
}
#: Further columns whose addresses belong to the paper.
ADDRESS_COLUMNS = (
    "paper", "paperlink", "absurl", "arxivurl", "arxivlink", "doiurl", "doilink", "pdf", "pdflink", "code", "codeurl",
    "codelink", "repo", "repolink", "githuburl", "githublink", "project", "projecturl", "projectpage", "projectlink",
    "homepage", "website", "openreview", "openreviewurl", "huggingface",
)  # fmt: skip
URL_COLUMNS = {name: place for place, name in enumerate((*COLUMN_ALIASES["urls"], *ADDRESS_COLUMNS))}
#: Parts of column names; addresses in columns with these names do not belong to the paper.
OTHER_ADDRESSES = ("cit", "refer", "relat", "similar", "author", "user", "license", "venue")
TEXT_KEYS = ("name", "url", "text", "full_name", "fullName", "display_name", "literal", "tag")
ID_COLUMNS = ("id", "paperid", "identifier", "eprint")
ID_SCHEMES = ("arxiv", "doi", "pmid")
ID_OBJECTS = ("ids", "externalids", "identifiers")
BARE_ARXIV = re.compile(
    r"(?:arxiv:)?(?:\d\d(?:0[1-9]|1[0-2])\.\d{4,5}|[a-z-]+(?:\.[A-Za-z-]+)?/\d{7})(?:v\d+)?", re.IGNORECASE
)
ADDRESS = re.compile(r"https?://[^\s;,|<>\"]+")
#: Objects that contain further fields of the paper.
INNER_OBJECTS = frozenset(
    (
        "details", "detail", "metadata", "meta", "content", "paper", "attributes", "fields", "info", "data", "article",
        "record", "item", "entry", "document", "doc", "properties", "stats", "statistics", "metrics", "counts",
    )
)  # fmt: skip
REQUIRED_COLUMNS = {"title", "papertitle"}
KNOWN_NAMES = {name for names in (*COLUMN_ALIASES.values(), *SIGNAL_ALIASES.values()) for name in names}
INDICATIVE_COLUMNS = KNOWN_NAMES - REQUIRED_COLUMNS - {"name"}


def has_paper_columns(keys: frozenset[str] | set[str]) -> bool:
    """Return whether these keys include a title and another known column."""
    folded = {field_parsing.folded_name(key.strip()) for key in keys}
    return bool(folded & REQUIRED_COLUMNS) and bool(folded & INDICATIVE_COLUMNS)


def record_of(found: Mapping[str, Any], line: int) -> Record:
    """Return the record for one object or row.

    Raises ValueError if `found` contains several papers, and NotAPaper if its only known column is a title.
    """
    row = row_of(found)
    if isinstance(row.get("title"), list | dict) and len(row["title"]) > 1:
        raise ValueError("the object has several titles; write one object per paper")
    figures = field_parsing.as_mapping(row.get("signals"))
    urls = urls_of(row)
    ids = ids_of(row, urls)
    if not (ids or row.keys() & INDICATIVE_COLUMNS):
        raise json_stream.NotAPaper(json_stream.ONLY_A_TITLE)
    return clean_values.paper(
        title=column_value(row, "title"),
        abstract=column_value(row, "abstract"),
        ids=ids.items(),
        authors=author_names(column_value(row, "authors")),
        n_authors=field_parsing.parse_count(column_value(row, "n_authors")),
        organization=organization(column_value(row, "organization")),
        published=column_value(row, "published"),
        published_inferred=row.get("publishedinferred") is True,
        categories=text_list(column_value(row, "categories")),
        urls=urls,
        signals={
            name: figures.get(name, first_present(row, names)) for name, names in SIGNAL_ALIASES.items()
        },
        announcement=announcement(column_value(row, "announcement")),
        comment=column_value(row, "comment"),
        journal=column_value(row, "journal"),
        line=line,
    )


def row_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return {name: value} of an object, with missing fields filled from its inner objects."""
    row = folded_fields(found)
    inner = [one for one in found.values() if isinstance(one, dict)]
    if inner and not json_papers.has_title(found):
        named: dict[str, Any] = next(iter(json_papers.objects_with_title(inner)), {})
        inner += [one for one in named.values() if isinstance(one, dict)]
        row |= folded_fields(named)
    for name, value in list(row.items()) if inner else ():
        if isinstance(value, dict) and is_part_of_paper(name, value):
            fill(row, folded_fields(value))
    return row


def folded_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return {name: value} of an object, with folded names and unwrapped values."""
    return {
        field_parsing.folded_name(key): value["value"]
        if isinstance(value, dict) and "value" in value
        else value
        for key, value in found.items()
    }


def is_part_of_paper(name: str, inner: Mapping[str, Any]) -> bool:
    """Return whether an inner object contains fields of the paper, not of its venue or another paper."""
    return name in INNER_OBJECTS or (
        isinstance(inner.get("abstract"), str) and not json_papers.has_title(inner)
    )


def fill(row: dict[str, Any], inner: Mapping[str, Any]) -> None:
    """Add to a row each field of an inner object that the row lacks."""
    for names in (*COLUMN_ALIASES.values(), *SIGNAL_ALIASES.values()):
        if first_present(row, names) is None and (value := first_present(inner, names)) is not None:
            row[names[0]] = value


def ids_of(row: Mapping[str, Any], urls: tuple[str, ...]) -> dict[str, str]:
    """Return the ids in the id columns and, for the other schemes, the ids in addresses."""
    named = [pair for name in ID_OBJECTS for pair in field_parsing.as_mapping(row.get(name)).items()]
    bare = [one.strip() for name in ID_COLUMNS for one in all_values(row.get(name)) if isinstance(one, str)]
    given = field_parsing.normalised_ids(
        [
            *named,
            *((scheme, one) for scheme in ID_SCHEMES for one in all_values(column_value(row, scheme))),
            *(("arxiv", one) for one in bare if BARE_ARXIV.fullmatch(one)),
            *(("doi", one) for one in bare if one.startswith("10.")),
        ]
    )
    return field_parsing.ids_in_urls(*urls, *other_addresses(row)) | given


def all_values(value: Any) -> list[Any]:
    """Return `value` if it is a list, otherwise a list that contains only `value`."""
    return value if isinstance(value, list) else [value]


def other_addresses(row: Mapping[str, Any]) -> list[str]:
    """Return the addresses in unknown columns that may contain an address of the paper."""
    inner = [pair for value in row.values() if isinstance(value, dict) for pair in value.items()]
    texts = [
        value
        for name, value in (*row.items(), *inner)
        if isinstance(value, str)
        and value[:4] == "http"
        and name not in URL_COLUMNS
        and not any(part in name for part in OTHER_ADDRESSES)
    ]
    return [url for text in texts for url in ADDRESS.findall(text[: field_parsing.MAX_URL])]


def urls_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the addresses in the address columns."""
    names = sorted(row.keys() & URL_COLUMNS.keys(), key=URL_COLUMNS.__getitem__)
    known = [url for name in names for url in text_list(row[name])]
    if isinstance(forum := row.get("forum"), str) and ("invitation" in row or "invitations" in row):
        known.append(f"https://openreview.net/forum?id={forum}")
    return field_parsing.web_urls(*(part for url in known for part in (url.split() or [url])))


def author_names(value: Any) -> tuple[str, ...]:
    """Return the authors in a list, or in a string with `;`, `|` or (if unambiguous) commas between them."""
    if (
        isinstance(value, str)
        and not {";", "\n"} & set(value)
        and (names := field_parsing.person_names(value))
    ):
        return names
    if isinstance(value, int) and not isinstance(value, bool):
        return (str(value),)  # the number of authors
    return text_list(authors_among(value))


def authors_among(value: Any) -> Any:
    """Return the creators of a Zotero item who are authors, or the value if there are none."""
    if not isinstance(value, list):
        return value
    return [
        one for one in value if not isinstance(one, dict) or one.get("creatorType", "author") == "author"
    ] or value


def column_value(row: Mapping[str, Any], column: str) -> Any:
    """Return the first non-empty value of a column under any of its names."""
    return first_present(row, COLUMN_ALIASES[column])


def first_present(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first value that is not empty, or None."""
    for name in names:
        value = row.get(name)
        if value is not None and value not in ("", []):
            return value
    return None


def text_list(value: Any) -> tuple[str, ...]:
    """Return the strings in a list, or the parts of a string that are separated by `;` or `|`.

    Each object is replaced with its name, URL or text.
    """
    if isinstance(value, str):
        value = value.split(next((sign for sign in (";", "\n", "|") if sign in value), ";"))
    if isinstance(value, dict):
        value = elements_of(value)
    texts = (text_of(one) if isinstance(one, dict) else one for one in field_parsing.as_list(value))
    return tuple(dict.fromkeys(filter(None, map(field_parsing.as_text, texts))))


def elements_of(found: Mapping[str, Any]) -> list[Any]:
    """Return the elements of a list in an object, such as `{"author": [...]}`, or the object's values."""
    if len(found) == 1 and isinstance(only := next(iter(found.values())), list | dict):
        return only if isinstance(only, list) else [only]
    return list(found.values())


def text_of(found: Mapping[str, Any]) -> str:
    """Return the name, URL or text in an object; join a name that is split into two fields."""
    named = next((found[key] for key in TEXT_KEYS if isinstance(found.get(key), str)), "")
    parts = (found.get(key) for key in ("firstName", "lastName", "given", "family"))
    return named or " ".join(part for part in parts if isinstance(part, str))


def announcement(value: Any) -> Announcement:
    """Return the kind of announcement that a word names; the default is new."""
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
