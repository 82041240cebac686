"""Read Hugging Face's JSON: `GET /api/daily_papers`, and `GET /api/papers/ID` ("hf-json").

The date of the outer object is ignored: it is the inner date shifted by an American time zone offset but
still marked as UTC. Only the outer object has the number of comments.
"""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import field_parsing, json_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Organization, Record

NAME = "hf-json"
SUMMARY_BY = "Hugging Face"  #: the author of `ai_summary`; the field `summary` is the authors' abstract

HUGGINGFACE_KEYS = {
    "submittedOnDailyAt",
    "discussionId",
    "upvotes",
    "numComments",
    "ai_summary",
    "githubStars",
}


def recognises(head: str) -> bool:
    """Return whether the dump contains papers with fields that only Hugging Face uses."""
    keys = json_stream.keys_in(head)
    return (
        "title" in keys
        and "summary" in keys
        and (len(keys & HUGGINGFACE_KEYS) > 1 or {"upvotes", "publishedAt"} <= keys)
    )


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read a list or a single paper."""
    return json_stream.read(source, record_of, list_names=("dailyPapers", "papers"))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one element; any field may be missing."""
    paper = field_parsing.as_mapping(found.get("paper")) or found
    abstract = field_parsing.as_prose(paper.get("summary")) or field_parsing.as_prose(found.get("summary"))
    summary = "" if abstract else field_parsing.as_prose(paper.get("ai_summary"))
    authors = tuple(
        name
        for author in field_parsing.as_list(paper.get("authors"))
        if not field_parsing.as_mapping(author).get("hidden")
        and (
            name := field_parsing.as_text(field_parsing.as_mapping(author).get("name"))
            or field_parsing.as_text(author)
        )
    )
    return Record(
        title=field_parsing.as_text(paper.get("title")) or field_parsing.as_text(found.get("title")),
        abstract=abstract or summary,
        summary_by=SUMMARY_BY if summary else "",
        ids=field_parsing.normalised_ids([("arxiv", paper.get("id"))]),
        authors=authors,
        n_authors=len(authors) or None,
        organization=organization(paper.get("organization") or found.get("organization")),
        published=field_parsing.parse_day(paper.get("publishedAt")),
        posted=field_parsing.parse_day(paper.get("submittedOnDailyAt")),
        urls=field_parsing.web_urls(paper.get("githubRepo"), paper.get("projectPage")),
        signals=field_parsing.known_signals(
            upvotes=paper.get("upvotes", found.get("upvotes")),
            comments=found.get("numComments"),
            stars=paper.get("githubStars"),
        ),
        position=position,
        line=line,
    )


def organization(value: Any) -> Organization | None:
    """Return the paper's organisation, given as a name or as an object."""
    if name := field_parsing.as_text(value):
        return Organization(handle=name, name=name)
    handle = field_parsing.as_text(field_parsing.as_mapping(value).get("name"))
    if not handle:
        return None
    return Organization(
        handle=handle, name=field_parsing.as_text(field_parsing.as_mapping(value).get("fullname")) or handle
    )
