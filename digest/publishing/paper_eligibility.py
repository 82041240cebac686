"""Decide which papers may be shown: those that are new to the reader, and recent ones that trend again."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from digest.papers import trending
from digest.papers.paper_record import Paper

#: A new subscriber's first digest considers at least the papers first seen this long before its due time.
FIRST_LOOK = timedelta(hours=24)
#: A trending paper may still be shown if it was first seen at most this long before `considered_until`.
TRENDS_AGAIN_WITHIN = timedelta(days=7)
LATE_WITHIN = timedelta(days=7)  #: papers of a list that is loaded at most this long after its day are news
#: After a long pause or outage, papers are considered from this long before: a month without a run, and the next until its end.
LONGEST_LOOK = timedelta(days=93)
#: The time, and the id of the last paper, up to which papers were considered.
ConsideredUntil = tuple[datetime, int | None]
#: A paper with a higher score is trending; it is expected to get clearly more votes a day than a new paper
#: without signals.
TRENDING_SCORE = trending.NEWCOMER_SCORE + trending.MIN_REASON_BITS


def is_news(paper: Paper, considered_until: ConsideredUntil) -> bool:
    """Return whether a paper is newer than the last one that was considered.

    A paper first seen before the considered time is also new if its id is higher: it came with a second dump
    of the day, with a late list, or with a dump that was loading while the edition was published.
    """
    moment, last_id = considered_until
    if paper.first_seen_at > moment:
        return True
    return (
        last_id is not None
        and paper.id > last_id
        and paper.first_seen_at >= start_of_day(moment - LATE_WITHIN)
    )


def start_of_day(moment: datetime) -> datetime:
    """Return the start of the UTC day of `moment`."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
