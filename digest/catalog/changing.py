"""What becomes of a paper after it was told of: withdrawn, published, rewritten. Small changes are none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from digest.catalog.enriching import Row
from digest.model import ChangeKind
from digest.papers import Announcement, fold

SAME = 0.5  #: the share of its words that a text keeps, or it says something else now
LONGEST = 300  #: characters of what is said of a change

#: Where papers stand before a journal takes them. (Of the DOIs that begin with 10.1101, those of preprints
#: go on with a number.)
SERVERS = re.compile(
    r"\b(arxiv|corr|biorxiv|medrxiv|chemrxiv|psyarxiv|techrxiv|ssrn|zenodo|openreview|research square|"
    r"preprints?|figshare|authorea|hal|osf)\b",
    re.IGNORECASE,
)
PREPRINT = re.compile(
    r"10\.(?:1101/\d|2139/|5281/|6084/|20944/|21203/|22541/|26434/|31219/|31234/|31235/|36227/|48550/|57967/|64898/)"
)


def changes(before: Row, after: Row, other: Row) -> Iterator[tuple[ChangeKind, str]]:
    """Yield what became of a paper when the row `other` made `after` of `before`, each with what it says."""
    if Announcement.WITHDRAWN == after["announcement"] != before["announcement"]:
        yield ChangeKind.WITHDRAWN, said(other["comment"])
    if is_journal(after["journal"]) and not is_journal(before["journal"]):
        yield ChangeKind.PUBLISHED, said(after["journal"])
    if other["announcement"] == Announcement.REPLACED:
        if not alike(before["title"], after["title"]):
            yield ChangeKind.REWRITTEN, said(before["title"])
        elif not (before["abstract_is_summary"] or alike(before["abstract"], after["abstract"])):
            yield ChangeKind.REWRITTEN, ""


def is_publication(doi: str) -> bool:
    """Return whether a DOI is a journal's: servers of preprints give DOIs too."""
    return PREPRINT.match(doi) is None


def is_journal(name: str) -> bool:
    """Return whether this is the name of a journal or a conference."""
    return bool(name) and SERVERS.search(name) is None


def alike(one: str, other: str) -> bool:
    """Return whether two texts share most of their words; where there is none, nothing has changed."""
    words, others = set(fold(one).split()), set(fold(other).split())
    return not (words and others) or len(words & others) >= SAME * max(len(words), len(others))


def said(text: str) -> str:
    """Return a text as it is kept with a change."""
    return " ".join(text.split())[:LONGEST]
