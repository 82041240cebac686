"""Load and index recent papers, on which filters are tested."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy.orm import Session

from digest.papers.catalog import queries
from digest.process.caches import Caches
from digest.topics import paper_index
from digest.topics.filter_backtest import Backtest, backtest
from digest.topics.filter_parser import Filter

DAYS_BACK = 31  #: number of days from which papers are loaded
MAX_PAPERS = 4000  #: maximum number of recent papers; indexing this many takes about a second after each dump


@dataclass(frozen=True, kw_only=True)
class RecentPapers:
    """Recent papers, indexed for testing filters."""

    index: paper_index.PaperIndex
    days: tuple[date, ...]  #: the day on which each paper was first seen

    def backtest(self, filter_: Filter) -> Backtest:
        """Test a filter on the recent papers."""
        return backtest(filter_, self.index, self.days)


def recent_papers(session: Session, caches: Caches, *, now: datetime) -> RecentPapers:
    """Return the recent papers, cached until the catalog or the day changes."""
    key = (queries.state(session), now.date())
    return caches.get_or_make("recent papers", key, lambda: load_recent_papers(session, now))


def load_recent_papers(session: Session, now: datetime) -> RecentPapers:
    """Load the papers first seen in the last 31 days, or in fewer whole days if there are too many."""
    papers = queries.papers(session, since=now - timedelta(days=DAYS_BACK), until=now, news_only=True)
    dated = sorted((paper.first_seen_at.astimezone(UTC).date(), paper.id, paper) for paper in papers)
    if len(dated) > MAX_PAPERS:
        dated = [one for one in dated if one[0] > dated[-MAX_PAPERS][0]] or dated[-MAX_PAPERS:]
    return RecentPapers(
        index=paper_index.PaperIndex([paper for *_, paper in dated]), days=tuple(day for day, *_ in dated)
    )
