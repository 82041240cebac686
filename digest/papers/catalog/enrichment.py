"""Combine a stored paper with another record: prefer the more complete value, never an empty one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from digest.papers.paper_record import Announcement, Record

Row = dict[str, Any]  #: the values of a row of the table `paper`, keyed by column

MAX_LIST_ITEMS = 60  #: maximum number of categories or URLs stored with a paper
MIN_REWRITTEN_LENGTH = 200  #: a later version's abstract with fewer characters may be only an excerpt
NEW_FOR = timedelta(days=14)  #: maximum age of a paper that a list announces as new
LATER_VERSIONS = (Announcement.REPLACED, Announcement.WITHDRAWN)


def paper_row(record: Record, *, first_seen_at: datetime, is_history: bool, is_sample: bool) -> Row:
    """Return the row of a new paper."""
    organization = record.organization
    return {
        "title": record.title,
        "abstract": record.abstract,
        "summary_by": record.summary_by,
        "authors": list(record.authors),
        "n_authors": record.n_authors,
        "organization_handle": organization.handle if organization else None,
        "organization_name": organization.name if organization else None,
        "published": record.published,
        "published_inferred": record.published_inferred,
        "posted": record.posted,
        "categories": list(record.categories[:MAX_LIST_ITEMS]),
        "urls": list(record.urls[:MAX_LIST_ITEMS]),
        "announcement": record.announcement.value,
        "comment": record.comment,
        "journal": record.journal,
        "first_seen_at": first_seen_at,
        "is_history": is_history or record.announcement in LATER_VERSIONS,
        "is_sample": is_sample,
        "merged_into": None,
    }


def enrich_row(row: Row, other: Row) -> Row:
    """Return a copy of `row` with the values of `other` that are more complete or from a later version."""
    result = dict(row)
    is_later_version = other["announcement"] == Announcement.REPLACED
    if is_better_abstract(row, other):
        result["abstract"] = other["abstract"]
        result["summary_by"] = other["summary_by"]
    if is_later_version:
        result["title"] = other["title"]
    if len(other["authors"]) > len(row["authors"]):
        result["authors"] = other["authors"]
    counts = list(filter(None, (row["n_authors"], other["n_authors"])))
    result["n_authors"] = max(*counts, len(result["authors"])) if counts else None
    if row["organization_handle"] is None:
        result["organization_handle"] = other["organization_handle"]
        result["organization_name"] = other["organization_name"]
    if is_better_date(row, other):
        result["published"] = other["published"]
        result["published_inferred"] = other["published_inferred"]
    result["posted"] = min(filter(None, (row["posted"], other["posted"])), default=None)
    result["categories"] = merge_lists(row["categories"], other["categories"])
    result["urls"] = merge_lists(row["urls"], other["urls"])
    for column in ("comment", "journal"):
        if other[column] and (not row[column] or is_later_version):
            result[column] = other[column]
    result |= announced(row, other)
    result["is_sample"] = row["is_sample"] and other["is_sample"]
    return result


def announced(row: Row, other: Row) -> Row:
    """Return the changed values if the other list is the first that announces the paper as new, or withdraws it."""
    if is_announced_as_new(row, other):
        changed = ("announcement", *(("is_history", "first_seen_at") if row["is_history"] else ()))
        return {name: other[name] for name in changed}
    return {"announcement": other["announcement"]} if other["announcement"] == Announcement.WITHDRAWN else {}


def is_announced_as_new(row: Row, other: Row) -> bool:
    """Return whether the other list announces as new a recent paper that an earlier list had as cross or replaced."""
    if other["announcement"] != Announcement.NEW or not other["published"]:
        return False
    age = other["first_seen_at"].date() - other["published"]
    return row["announcement"] in {Announcement.CROSS, Announcement.REPLACED} and age <= NEW_FOR


def is_better_abstract(row: Row, other: Row) -> bool:
    """Return whether the other abstract should replace the stored one.

    Any abstract is better than none, and the authors' abstract is better than an AI summary. Otherwise, the
    other abstract is better if it is longer, or if it is a later version's and not short enough to be an excerpt.
    """
    if not other["abstract"] or other["abstract"] == row["abstract"]:
        return False
    if not row["abstract"] or bool(row["summary_by"]) != bool(other["summary_by"]):
        return not row["abstract"] or bool(row["summary_by"])
    is_later_version = other["announcement"] == Announcement.REPLACED
    is_longer = text_length(other["abstract"]) > text_length(row["abstract"])
    return is_longer or (is_later_version and len(other["abstract"]) > MIN_REWRITTEN_LENGTH)


def text_length(text: str) -> int:
    """Return the length of `text`, counting each run of whitespace as one character."""
    return len(" ".join(text.split()))


def is_better_date(row: Row, other: Row) -> bool:
    """Return whether the other date is better: the only known date, or the only one that is not inferred."""
    if other["published"] is None:
        return False
    return row["published"] is None or (row["published_inferred"] and not other["published_inferred"])


def merge_lists(kept: Iterable[str], added: Iterable[str]) -> list[str]:
    """Return the values of `kept` followed by the new values of `added`, up to `MAX_LIST_ITEMS`."""
    return list(dict.fromkeys((*kept, *added)))[:MAX_LIST_ITEMS]
