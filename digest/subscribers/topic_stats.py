"""Find filters in use that match no recent paper, match too many papers, or cannot be parsed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from sqlalchemy import Row, distinct, func, select
from sqlalchemy.orm import Session, aliased

from digest.db.tables.subscribers import (
    SUBSCRIBED,
    FilterRow,
    ResolvedFilter,
    Subscriber,
    Subscription,
)
from digest.errors import BadFilter
from digest.papers.catalog import queries
from digest.topics import filter_backtest, filter_parser, pack_resolution
from digest.topics.paper_index import PaperIndex

FULL_DIGEST = 10  #: maximum number of papers in a digest by default


class FilterHealth(StrEnum):
    """The health of a filter, judged by recent papers; the worst value comes first."""

    BROKEN = "broken"  #: the filter cannot be parsed, or a pack that it uses is missing
    SILENT = "silent"  #: the filter matched no recent paper
    #: on a typical day, the filter matches more papers than a digest shows by default
    OVERFLOWING = "overflowing"
    FINE = "fine"


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicStats:
    """A filter in use, and its matches on the measured days."""

    canonical: str
    health: FilterHealth
    subscribers: int
    example: str  #: the name of a topic that uses this filter
    matches: int = 0
    per_day: float = 0.0  #: number of matches on a typical day, counting only days with papers
    busiest: int = 0  #: number of matches on the busiest day
    reason: str = ""  #: why the filter cannot be used


def topic_stats(session: Session, *, days: int, now: datetime) -> tuple[list[TopicStats], int]:
    """Return every filter in use, the worst first, and the number of papers on which it was measured."""
    papers = queries.papers(session, since=now - timedelta(days=days), until=now, news_only=True)
    index = PaperIndex(papers)
    arrived_on = [paper.first_seen_at.astimezone(UTC).date() for paper in papers]
    found = [measure(row, index, arrived_on) for row in filters_in_use(session)]
    order = list(FilterHealth)
    found.sort(key=lambda one: (order.index(one.health), -one.subscribers, one.canonical))
    return found, len(papers)


def filters_in_use(session: Session) -> Iterator[Row[str, str, int, str]]:
    """Yield (canonical filter, resolved filter, number of subscribers, name of a topic) of each filter."""
    resolved = aliased(FilterRow)
    query = (
        select(
            FilterRow.canonical,
            func.coalesce(resolved.canonical, FilterRow.canonical).label("resolved"),
            func.count(distinct(Subscription.subscriber_id)).label("subscribers"),
            func.min(Subscription.name).label("example"),
        )
        .join(Subscription, Subscription.filter_id == FilterRow.id)
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .outerjoin(ResolvedFilter, ResolvedFilter.filter_id == FilterRow.id)
        .outerjoin(resolved, resolved.id == ResolvedFilter.resolved_filter_id)
        .where(Subscriber.state.in_(SUBSCRIBED))
        .group_by(FilterRow.id, FilterRow.canonical, resolved.canonical)
    )
    yield from session.execute(query)


def measure(row: Row[str, str, int, str], index: PaperIndex, arrived_on: Sequence[date]) -> TopicStats:
    """Measure a filter in use on the papers in `index`."""
    known = {"canonical": row.canonical, "subscribers": row.subscribers, "example": row.example}
    try:
        parsed = pack_resolution.resolve_filter(filter_parser.parse(row.resolved), {})
    except BadFilter as error:
        return TopicStats(**known, health=FilterHealth.BROKEN, reason=error.message)
    compared = filter_backtest.compare_filters(None, parsed, index, arrived_on)
    per_day = compared.after
    return TopicStats(
        **known,
        health=health_of(len(compared.gained), per_day.median),
        matches=len(compared.gained),
        per_day=per_day.median,
        busiest=per_day.max,
    )


def health_of(matches: int, per_day: float) -> FilterHealth:
    """Return the health of a filter with this many matches in total and on a typical day."""
    if not matches:
        return FilterHealth.SILENT
    return FilterHealth.OVERFLOWING if per_day > FULL_DIGEST else FilterHealth.FINE
