"""Hugging Face's own JSON: `GET /api/daily_papers`, and `GET /api/papers/ID` ("hf-json").

The date outside the inner object is the inner one shifted by an American offset and still marked
as UTC, so it is not used. The number of comments stands outside only.
"""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Organization, Record

NAME = "hf-json"

OURS = {"submittedOnDailyAt", "discussionId", "upvotes", "numComments", "ai_summary", "githubStars"}


def recognises(head: str) -> bool:
    """Return whether these are papers with the fields only Hugging Face has."""
    keys = objects.keys_in(head)
    return (
        "title" in keys and "summary" in keys and (len(keys & OURS) > 1 or {"upvotes", "publishedAt"} <= keys)
    )


def read(source: Source) -> tuple[Header, Items]:
    """Read the list, or the single paper."""
    return objects.read(source, record_of, at=("dailyPapers", "papers"))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one element as a record; fields go missing, and an organisation may be a bare name."""
    paper = fields.mapping(found.get("paper")) or found
    summary = fields.prose(paper.get("summary")) or fields.prose(found.get("summary"))
    authors = tuple(
        name
        for author in fields.listed(paper.get("authors"))
        if not fields.mapping(author).get("hidden")
        and (name := fields.text(fields.mapping(author).get("name")) or fields.text(author))
    )
    return Record(
        title=fields.text(paper.get("title")) or fields.text(found.get("title")),
        abstract=summary or fields.prose(paper.get("ai_summary")),
        is_summary=not summary,
        ids=fields.ids([("arxiv", paper.get("id"))]),
        authors=authors,
        n_authors=len(authors) or None,
        organization=organization(paper.get("organization") or found.get("organization")),
        published=fields.day(paper.get("publishedAt")),
        posted=fields.day(paper.get("submittedOnDailyAt")),
        urls=fields.urls(paper.get("githubRepo"), paper.get("projectPage")),
        signals=fields.signals(
            upvotes=paper.get("upvotes", found.get("upvotes")),
            comments=found.get("numComments"),
            stars=paper.get("githubStars"),
        ),
        position=position,
        line=line,
    )


def organization(value: Any) -> Organization | None:
    """Return who stands behind the paper."""
    if name := fields.text(value):
        return Organization(handle=name, name=name)
    handle = fields.text(fields.mapping(value).get("name"))
    if not handle:
        return None
    return Organization(handle=handle, name=fields.text(fields.mapping(value).get("fullname")) or handle)
