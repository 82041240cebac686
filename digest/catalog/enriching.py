"""What a further record adds to a paper we have: richer wins, and nothing never overwrites something."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from digest.papers import Announcement, Record

Row = dict[str, Any]  #: a row of `paper` by column name

MOST = 60  #: categories or addresses kept with a paper
NOT_NEWS = (Announcement.REPLACED, Announcement.WITHDRAWN)


def row_of(record: Record, *, first_seen_at: datetime, is_history: bool, is_sample: bool) -> Row:
    """Return the row of a paper that nobody told us of before."""
    organization = record.organization
    return {
        "title": record.title,
        "abstract": record.abstract,
        "abstract_is_summary": record.is_summary,
        "authors": list(record.authors),
        "n_authors": record.n_authors if record.n_authors is not None else len(record.authors) or None,
        "organization_handle": organization.handle if organization else None,
        "organization_name": organization.name if organization else None,
        "published": record.published,
        "published_inferred": record.published_inferred,
        "posted": record.posted,
        "categories": list(record.categories[:MOST]),
        "urls": list(record.urls[:MOST]),
        "announcement": record.announcement.value,
        "comment": record.comment,
        "journal": record.journal,
        "first_seen_at": first_seen_at,
        "is_history": is_history or record.announcement in NOT_NEWS,
        "is_sample": is_sample,
        "merged_into": None,
    }


def enriched(row: Row, other: Row) -> Row:
    """Return `row` with what `other` knows better; equal to `row` where it knows nothing better."""
    result = dict(row)
    is_later_version = other["announcement"] == Announcement.REPLACED
    if better_abstract(row, other) or (is_later_version and len(other["abstract"]) > 200):
        result["abstract"] = other["abstract"]
        result["abstract_is_summary"] = other["abstract_is_summary"]
    if is_later_version:
        result["title"] = other["title"]
    if len(other["authors"]) > len(row["authors"]):
        result["authors"] = other["authors"]
    result["n_authors"] = max(filter(None, (row["n_authors"], len(result["authors"]) or other["n_authors"])), default=None)  # fmt: skip
    if row["organization_handle"] is None:
        result["organization_handle"] = other["organization_handle"]
        result["organization_name"] = other["organization_name"]
    if is_better_date(row, other):
        result["published"] = other["published"]
        result["published_inferred"] = other["published_inferred"]
    result["posted"] = min(filter(None, (row["posted"], other["posted"])), default=None)
    result["categories"] = union(row["categories"], other["categories"])
    result["urls"] = union(row["urls"], other["urls"])
    for column in ("comment", "journal"):
        if other[column] and (not row[column] or is_later_version):
            result[column] = other[column]
    if other["announcement"] == Announcement.WITHDRAWN:
        result["announcement"] = other["announcement"]
    result["is_sample"] = row["is_sample"] and other["is_sample"]
    return result


def better_abstract(row: Row, other: Row) -> bool:
    """Return whether the other abstract is richer: any before none, a real one before a summary, then length."""
    if not other["abstract"] or other["abstract"] == row["abstract"]:
        return False
    if not row["abstract"] or row["abstract_is_summary"] != other["abstract_is_summary"]:
        return not row["abstract"] or bool(row["abstract_is_summary"])
    return extent(other["abstract"]) > extent(row["abstract"])


def extent(text: str) -> int:
    """Return the length of `text` however its lines were broken."""
    return len(" ".join(text.split()))


def is_better_date(row: Row, other: Row) -> bool:
    """Return whether the other date is known where ours is not, or printed where ours was inferred."""
    if other["published"] is None:
        return False
    return row["published"] is None or (row["published_inferred"] and not other["published_inferred"])


def union(ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """Return ours, then what only they have."""
    return list(dict.fromkeys((*ours, *theirs)))[:MOST]
