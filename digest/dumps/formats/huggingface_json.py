"""Read Hugging Face's JSON: `GET /api/daily_papers`, and `GET /api/papers/ID` ("hf-json").

The date of the outer object is ignored: it is the inner date shifted by an American time zone offset but
still marked as UTC. Only the outer object has the number of comments.
"""

from __future__ import annotations

from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text, first_at, values_at
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
    paper = dict(field_parsing.as_mapping(found.get("paper"))) or found
    abstract = paper.get("summary") or found.get("summary")
    summary = None if abstract else paper.get("ai_summary")
    return clean_values.paper(
        title=paper.get("title") or found.get("title"),
        abstract=abstract or summary,
        summary_by=SUMMARY_BY if summary else "",
        ids=[("arxiv", paper.get("id"))],
        authors=[
            as_text(first_at(one, "name") or one)
            for one in values_at(paper, "authors")
            if not values_at(one, "hidden") or not one["hidden"]
        ],
        organization=organization(paper.get("organization") or found.get("organization")),
        published=paper.get("publishedAt"),
        posted=paper.get("submittedOnDailyAt"),
        urls=[paper.get("githubRepo"), paper.get("projectPage")],
        signals={
            "upvotes": paper.get("upvotes", found.get("upvotes")),
            "comments": found.get("numComments"),
            "stars": paper.get("githubStars"),
        },
        position=position,
        line=line,
    )


def organization(value: Any) -> Organization | None:
    """Return the paper's organisation, given as a name or as an object."""
    handle = as_text(first_at(value, "name") or value)
    name = as_text(first_at(value, "fullname")) or handle
    return Organization(handle=handle, name=name) if handle else None
