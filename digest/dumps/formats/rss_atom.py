"""Read arXiv's RSS and Atom feeds, the Atom responses of its API, and other feeds of papers ("feed").

An arXiv feed marks each paper as new, cross-listed or replaced. A date in a feed is the date of the
announcement; a date from the API is the date of the first version.
"""

from __future__ import annotations

import re
from datetime import date

from digest.dumps.formats import field_parsing, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.dumps.formats.xml_stream import Element
from digest.errors import UnreadableDump
from digest.papers import Announcement, Record

NAME = "feed"

ANNOUNCEMENT_PREFIX = re.compile(
    r"\s*arXiv:\S+\s+Announce Type:\s*(?P<type>[\w-]+)\s*(?:Abstract:)?\s*", re.IGNORECASE
)
ANNOUNCEMENT_TYPES = {
    "new": Announcement.NEW, "cross": Announcement.CROSS, "replace": Announcement.REPLACED,
    "replace-cross": Announcement.REPLACED, "withdrawn": Announcement.WITHDRAWN,
}  # fmt: skip
FEED_DATE = re.compile(r"<(?:\w+:)?(?:pubDate|lastBuildDate|updated|date)\b[^<>]{0,300}>([^<]{8,60})<")
ERROR_LINKS = ("http://arxiv.org/api/errors", "https://arxiv.org/api/errors")
OAI_PREFIX = re.compile(r"oai:arXiv\.org:", re.IGNORECASE)


def recognises(head: str) -> bool:
    """Return whether the dump is an RSS or Atom feed."""
    return xml_stream.root_element_name(head) in ("rss", "feed", "RDF")


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the entries; if the feed has none, the header announces 0 papers."""
    start = re.search(r"<(?:\w+:)?(?:item|entry)\b", source.head)
    before = source.head[: start.start()] if start else source.head
    dated = FEED_DATE.search(before)
    header = Header(date=parse_day(dated[1]) if dated else None, announced=None if start else 0)
    return header, xml_stream.records(source, record_of, "item", "entry")


def record_of(entry: Element, position: int, line: int) -> Record:
    """Return the record for one entry; raise UnreadableDump for an error message of arXiv's API."""
    summary = xml_stream.inner_text(first_child(entry, "description", "summary", "encoded"))
    prefix = ANNOUNCEMENT_PREFIX.match(summary)
    kind = xml_stream.text_at(entry, "announce_type") or (prefix["type"] if prefix else "")
    abstract = summary[prefix.end() :] if prefix else summary
    links = [link.get("href") or xml_stream.one_line(link) for link in xml_stream.children(entry, "link")]
    if any(link.startswith(ERROR_LINKS) for link in links):
        raise UnreadableDump(
            f"arXiv returned an error instead of papers ({field_parsing.as_text(summary)[:200]})."
        )
    names = OAI_PREFIX.sub("", xml_stream.one_line(first_child(entry, "guid", "id", "identifier")))
    authors = authors_of(entry)
    is_arxiv = "arxiv.org" in " ".join(links) or OAI_PREFIX.search(
        xml_stream.one_line(first_child(entry, "guid", "id"))
    )
    stamp = xml_stream.one_line(first_child(entry, "published", "pubDate", "date", "updated"))
    printed = parse_day(stamp)
    announcement = ANNOUNCEMENT_TYPES.get(kind, Announcement.NEW)
    return Record(
        title=clean_title(xml_stream.text_at(entry, "title")),
        abstract=field_parsing.without_markup(abstract)
        if "</" in abstract
        else field_parsing.as_prose(abstract),
        ids=field_parsing.normalised_ids([("arxiv", names)] if is_arxiv else [])
        | field_parsing.ids_in_urls(*links)
        | field_parsing.normalised_ids([("doi", name.split(" ")[0]) for name in doi_of(entry)]),
        authors=authors,
        n_authors=len(authors) or None,
        published=None if announcement is Announcement.REPLACED else printed,
        posted=printed if kind and announcement is not Announcement.REPLACED else None,
        categories=categories_of(entry),
        urls=() if is_arxiv else field_parsing.web_urls(*links),
        announcement=announcement,
        comment=xml_stream.text_at(entry, "comment"),
        journal=xml_stream.one_line(first_child(entry, "journal_ref", "journal_reference")),
        position=position,
        line=line,
    )


def clean_title(title: str) -> str:
    """Return a title without the markup that some journals add."""
    return field_parsing.without_markup(title) if "</" in title else title


def doi_of(entry: Element) -> list[str]:
    """Return the texts that may contain the entry's DOI: a DOI element or an identifier with `doi:`."""
    named = xml_stream.one_line(first_child(entry, "identifier"))
    return [
        xml_stream.one_line(first_child(entry, "DOI", "doi")),
        named if named.casefold().startswith("doi:") else "",
    ]


def first_child(entry: Element, *names: str) -> Element | None:
    """Return the child with the first of these names that the entry has, or None."""
    return next((found for name in names if (found := xml_stream.child(entry, name)) is not None), None)


def authors_of(entry: Element) -> tuple[str, ...]:
    """Return the authors, given as one element per author or as one line."""
    named = tuple(
        filter(None, (xml_stream.text_at(author, "name") for author in xml_stream.children(entry, "author")))
    )
    creators = [xml_stream.one_line(creator) for creator in xml_stream.children(entry, "creator")]
    if len(creators) == 1:
        return named or field_parsing.split_names(creators[0])
    return named or tuple(filter(None, creators))


def categories_of(entry: Element) -> tuple[str, ...]:
    """Return the categories, the primary one first."""
    primary = xml_stream.child(entry, "primary_category")
    terms = [] if primary is None else [primary.get("term")]
    terms += [one.get("term") or xml_stream.one_line(one) for one in xml_stream.children(entry, "category")]
    return field_parsing.as_texts(terms)


def parse_day(stamp: str) -> date | None:
    """Return the date of a timestamp in its own time zone."""
    return field_parsing.parse_day(stamp) or field_parsing.parse_spelled_day(stamp)
