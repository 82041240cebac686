"""Decide which papers may be shown: those that are new to the reader, and recent ones that trend again."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from digest.papers import trending
from digest.papers.paper_record import Paper

#: A new subscriber's first digest considers at least the papers first seen this long before its due time.
FIRST_LOOK = timedelta(hours=24)
#: A trending paper may still be shown if it was first seen at most this long before the reader's coverage ends.
TRENDS_AGAIN_WITHIN = timedelta(days=7)
LATE_WITHIN = timedelta(days=7)  #: papers of a list that is loaded at most this long after its day are news
#: After a long pause or outage, papers are considered from this long before: a month without a run, and the next until its end.
LONGEST_LOOK = timedelta(days=93)
#: A paper with a higher score is trending; it is expected to get clearly more votes a day than a new paper
#: without signals.
TRENDING_SCORE = trending.NEWCOMER_SCORE + trending.MIN_REASON_BITS


class Coverage(NamedTuple):
    """How far the editions of a reader have considered the catalog."""

    until: datetime
    paper_id: int | None  #: the highest id of a paper that was considered


def is_news(paper: Paper, covered: Coverage) -> bool:
    """Return whether a paper is newer than the last one that was considered.

    A paper first seen before the considered time is also new if its id is higher: it came with a second dump
    of the day, with a late list, or with a dump that was loading while the edition was published.
    """
    if paper.first_seen_at > covered.until:
        return True
    is_later = covered.paper_id is not None and paper.id > covered.paper_id
    return is_later and paper.first_seen_at >= start_of_day(covered.until - LATE_WITHIN)


def start_of_day(moment: datetime) -> datetime:
    """Return the start of the UTC day of `moment`."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
