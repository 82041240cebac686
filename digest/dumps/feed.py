"""arXiv's RSS and Atom announcements, its API's Atom, and other feeds of papers ("feed").

An announcement says of each paper whether it is new, listed under a further category, or replaced;
a feed's own dates are those of the announcement, the API's those of the first version.
"""

from __future__ import annotations

import re
from datetime import date

from digest.dumps import fields, markup
from digest.dumps.markup import Element
from digest.dumps.reading import Header, Items, Source
from digest.errors import Unreadable
from digest.papers import Announcement, Record

NAME = "feed"

ANNOUNCED = re.compile(r"\s*arXiv:\S+\s+Announce Type:\s*(?P<type>[\w-]+)\s*(?:Abstract:)?\s*", re.IGNORECASE)
KINDS = {
    "new": Announcement.NEW, "cross": Announcement.CROSS, "replace": Announcement.REPLACED,
    "replace-cross": Announcement.REPLACED, "withdrawn": Announcement.WITHDRAWN,
}  # fmt: skip
FEED_DATE = re.compile(r"<(?:\w+:)?(?:pubDate|lastBuildDate|updated|date)\b[^<>]{0,300}>([^<]{8,60})<")
COMPLAINT = ("http://arxiv.org/api/errors", "https://arxiv.org/api/errors")
OAI = re.compile(r"oai:arXiv\.org:", re.IGNORECASE)


def recognises(head: str) -> bool:
    """Return whether this is a feed."""
    return markup.root_of(head) in ("rss", "feed", "RDF")


def read(source: Source) -> tuple[Header, Items]:
    """Read the entries; a feed without any is a quiet day."""
    start = re.search(r"<(?:\w+:)?(?:item|entry)\b", source.head)
    before = source.head[: start.start()] if start else source.head
    dated = FEED_DATE.search(before)
    header = Header(date=day_in(dated[1]) if dated else None, announced=None if start else 0)
    return header, markup.records(source, record_of, "item", "entry")


def record_of(entry: Element, position: int, line: int) -> Record:
    """Return one entry."""
    summary = markup.inner(first(entry, "description", "summary", "encoded"))
    prefix = ANNOUNCED.match(summary)
    kind = markup.text(entry, "announce_type") or (prefix["type"] if prefix else "")
    abstract = summary[prefix.end() :] if prefix else summary
    links = [link.get("href") or markup.line(link) for link in markup.children(entry, "link")]
    if any(link.startswith(COMPLAINT) for link in links):
        raise Unreadable(f"arXiv answered with an error and no papers ({fields.text(summary)[:200]}).")
    names = OAI.sub("", markup.line(first(entry, "guid", "id", "identifier")))
    authors = authors_of(entry)
    is_arxiv = "arxiv.org" in " ".join(links) or OAI.search(markup.line(first(entry, "guid", "id")))
    stamp = markup.line(first(entry, "published", "pubDate", "date", "updated"))
    printed = day_in(stamp)
    announcement = KINDS.get(kind, Announcement.NEW)
    return Record(
        title=titled(markup.text(entry, "title")),
        abstract=fields.unmarked(abstract) if "</" in abstract else fields.prose(abstract),
        ids=fields.ids([("arxiv", names)] if is_arxiv else [])
        | fields.ids_from(*links)
        | fields.ids([("doi", name.split(" ")[0]) for name in doi_of(entry)]),
        authors=authors,
        n_authors=len(authors) or None,
        published=None if announcement is Announcement.REPLACED else printed,
        posted=printed if kind and announcement is not Announcement.REPLACED else None,
        categories=categories_of(entry),
        urls=() if is_arxiv else fields.urls(*links),
        announcement=announcement,
        comment=markup.text(entry, "comment"),
        journal=markup.line(first(entry, "journal_ref", "journal_reference")),
        position=position,
        line=line,
    )


def titled(title: str) -> str:
    """Return a title without the markup that journals' feeds write into it."""
    return fields.unmarked(title) if "</" in title else title


def doi_of(entry: Element) -> list[str]:
    """Return what names the entry's DOI: an element for it, or a general one with its sign."""
    named = markup.line(first(entry, "identifier"))
    return [markup.line(first(entry, "DOI", "doi")), named if named.casefold().startswith("doi:") else ""]


def first(entry: Element, *names: str) -> Element | None:
    """Return the first of these children that is there."""
    return next((found for name in names if (found := markup.child(entry, name)) is not None), None)


def authors_of(entry: Element) -> tuple[str, ...]:
    """Return the authors: one element each, or one line of them all."""
    named = tuple(filter(None, (markup.text(author, "name") for author in markup.children(entry, "author"))))
    creators = [markup.line(creator) for creator in markup.children(entry, "creator")]
    if len(creators) == 1:
        return named or fields.names(creators[0])
    return named or tuple(filter(None, creators))


def categories_of(entry: Element) -> tuple[str, ...]:
    """Return the categories, the primary one first."""
    primary = markup.child(entry, "primary_category")
    terms = [] if primary is None else [primary.get("term")]
    terms += [one.get("term") or markup.line(one) for one in markup.children(entry, "category")]
    return fields.texts(terms)


def day_in(stamp: str) -> date | None:
    """Return the day of a moment, as printed in its own time zone."""
    return fields.day(stamp) or fields.spelled_day(stamp)
