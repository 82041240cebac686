"""Detect that a stored paper was withdrawn, published or rewritten; ignore smaller changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from digest.db.tables.papers import ChangeKind
from digest.papers.catalog.enrichment import Row
from digest.papers.paper_record import Announcement, fold

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
