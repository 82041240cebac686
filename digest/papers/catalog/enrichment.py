"""Combine a stored paper with another record, and detect that it was withdrawn, published or rewritten.

The more complete value is preferred, never an empty one. Smaller changes are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from digest.db.tables.papers import ChangeKind
from digest.papers.paper_record import Announcement, Record, fold

Row = dict[str, Any]  #: the values of a row of the table `paper`, keyed by column

MAX_LIST_ITEMS = 60  #: maximum number of categories or URLs stored with a paper
MIN_REWRITTEN_LENGTH = 200  #: a later version's abstract with fewer characters may be only an excerpt
NEW_FOR = timedelta(days=14)  #: maximum age of a paper that a list announces as new
LATER_VERSIONS = (Announcement.REPLACED, Announcement.WITHDRAWN)
SAME_TEXT_SHARE = 0.5  #: a title or abstract that keeps a smaller share of its words counts as rewritten
MAX_DETAIL_LENGTH = 300  #: maximum number of characters stored as the detail of a change

#: Names and DOI prefixes of preprint servers. Journals use the prefix 10.1101 too, but after it, only the
#: DOI of a preprint continues with a digit.
PREPRINT_SERVERS = re.compile(
    r"\b(arxiv|corr|biorxiv|medrxiv|chemrxiv|psyarxiv|techrxiv|ssrn|zenodo|openreview|research square|"
    r"preprints?|figshare|authorea|hal|osf)\b",
    re.IGNORECASE,
)
PREPRINT_DOI = re.compile(
    r"10\.(?:1101/\d|2139/|5281/|6084/|20944/|21203/|22541/|26434/|31219/|31234/|31235/|36227/|48550/|57967/|64898/)"
)


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
    is_unsure = row["published"] is None or (row["published_inferred"] and not other["published_inferred"])
    if other["published"] is not None and is_unsure:
        result["published"] = other["published"]
        result["published_inferred"] = other["published_inferred"]
    result["posted"] = min(filter(None, (row["posted"], other["posted"])), default=None)
    for column in ("categories", "urls"):
        result[column] = list(dict.fromkeys((*row[column], *other[column])))[:MAX_LIST_ITEMS]
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
    length, other_length = (len(" ".join(one["abstract"].split())) for one in (row, other))
    return other_length > length or (is_later_version and len(other["abstract"]) > MIN_REWRITTEN_LENGTH)


# ── changes ─────────────────────────────────────────────────────────────────────────────────────


def detect_changes(before: Row, after: Row, other: Row) -> Iterator[tuple[ChangeKind, str]]:
    """Yield (kind, detail) for each change that adding the data of `other` made to a paper's row."""
    if Announcement.WITHDRAWN == after["announcement"] != before["announcement"]:
        yield ChangeKind.WITHDRAWN, change_detail(other["comment"])
    if is_journal(after["journal"]) and not is_journal(before["journal"]):
        yield ChangeKind.PUBLISHED, change_detail(after["journal"])
    if other["announcement"] == Announcement.REPLACED:
        if not are_similar(before["title"], after["title"]):
            yield ChangeKind.REWRITTEN, change_detail(before["title"])
        elif not (before["summary_by"] or are_similar(before["abstract"], after["abstract"])):
            yield ChangeKind.REWRITTEN, ""


def is_publication(doi: str) -> bool:
    """Return whether a DOI was assigned by a publisher, not by a preprint server."""
    return PREPRINT_DOI.match(doi) is None


def is_journal(name: str) -> bool:
    """Return whether `name` is the name of a journal or conference, not of a preprint server."""
    return bool(name) and PREPRINT_SERVERS.search(name) is None


def are_similar(one: str, other: str) -> bool:
    """Return whether two texts have at least half of their words in common, or one of them is empty."""
    words, others = set(fold(one).split()), set(fold(other).split())
    return not (words and others) or len(words & others) >= SAME_TEXT_SHARE * max(len(words), len(others))


def change_detail(text: str) -> str:
    """Return `text` on one line, truncated to the length stored with a change."""
    return " ".join(text.split())[:MAX_DETAIL_LENGTH]
