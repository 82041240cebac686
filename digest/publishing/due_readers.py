"""Load the due readers, and the values needed to decide their digests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import FilterRow, ResolvedFilter, Subscriber, SubscriberState, Subscription
from digest.editions import shown as shown_papers
from digest.editions.schedule import Schedule, schedule_status
from digest.letters.press.press_value import Press
from digest.papers.catalog import other_versions
from digest.process.caches import Caches
from digest.publishing import pending_updates
from digest.publishing.match_index import MatchIndex
from digest.publishing.paper_eligibility import FIRST_LOOK, TRENDS_AGAIN_WITHIN
from digest.publishing.reader_values import GatheredInputs, Reader, Topic

#: Whether the reader has paused since the last digest, so that the next one is the first after the pause.
IS_RESUMED = or_(Subscriber.is_resumed, Subscriber.state == SubscriberState.PAUSED).label("is_resumed")

#: The subscriber columns that are needed for a decision.
READER_COLUMNS = tuple(
    IS_RESUMED if name == "is_resumed" else Subscriber.__table__.c[name] for name in Reader._fields
)

#: Maximum number of match indexes in the cache: one for the press being published, one for previews and
#: `why`.
MAX_MATCH_INDEXES = 2

# Queries use Core tables, because the ORM would process every row as an object. Statements that run for every
# chunk are built once, since building a statement takes as long as running it.
SUBSCRIBER_COLUMNS: Any = Subscriber.__table__.c
SUBSCRIPTION_COLUMNS: Any = Subscription.__table__.c
FILTER_COLUMNS: Any = FilterRow.__table__.c
SUBSCRIPTIONS_QUERY = (
    select(SUBSCRIPTION_COLUMNS.subscriber_id, SUBSCRIPTION_COLUMNS.name, SUBSCRIPTION_COLUMNS.filter_id)
    .where(
        db.one_of(
            SUBSCRIPTION_COLUMNS.subscriber_id, db.values_param("ids", SUBSCRIPTION_COLUMNS.subscriber_id)
        ),
        SUBSCRIPTION_COLUMNS.is_muted.is_(False),
    )
    .order_by(SUBSCRIPTION_COLUMNS.subscriber_id, SUBSCRIPTION_COLUMNS.position, SUBSCRIPTION_COLUMNS.id)
)
FILTERS_QUERY = select(FILTER_COLUMNS.id, FILTER_COLUMNS.canonical).where(
    db.one_of_few(FILTER_COLUMNS.id, db.values_param("ids", FILTER_COLUMNS.id))
)
RESOLVED_FILTER_COLUMNS: Any = ResolvedFilter.__table__.c
RESOLVED_FILTERS_QUERY = select(RESOLVED_FILTER_COLUMNS.filter_id, RESOLVED_FILTER_COLUMNS.resolved_filter_id)


def is_due(now: datetime, state: ColumnElement[Any] = SUBSCRIBER_COLUMNS.state) -> ColumnElement[bool]:
    """Return the condition that a reader is due: active, and the next due time has passed or is not set."""
    promised = or_(Subscriber.next_due_at.is_(None), Subscriber.next_due_at <= now)
    return and_(state == SubscriberState.ACTIVE, promised)


def count_due(session: Session, now: datetime, *, and_for: int | None = None) -> tuple[int, datetime | None]:
    """Return the number of due readers, and the time since which papers may be shown to one of them.

    The subscriber with the id `and_for` is counted as due.
    """
    condition = is_due(now) if and_for is None else or_(is_due(now), Subscriber.id == and_for)
    joined = case(
        (Subscriber.considered_until.is_(None), func.coalesce(Subscriber.confirmed_at, Subscriber.created_at))
    )
    promised = case((Subscriber.considered_until.is_(None), Subscriber.next_due_at))
    moments = func.min(Subscriber.considered_until), func.min(joined), func.min(promised)
    due, considered_until, joined_at, promised_at = session.execute(
        select(func.count(), *moments).where(condition)
    ).one()
    starts = (considered_until, TRENDS_AGAIN_WITHIN), (joined_at, FIRST_LOOK), (promised_at, FIRST_LOOK)
    return due, min((moment - reach for moment, reach in starts if moment), default=None)


def due_and_next(session: Session, now: datetime) -> tuple[int, datetime | None]:
    """Return how many readers get an edition at the next publication, and when the next one is due after `now`."""
    names = ("cadence", "at", "timezone", "weekday")
    columns = [*(SUBSCRIBER_COLUMNS[name] for name in names), SUBSCRIBER_COLUMNS.next_due_at]
    groups = session.execute(select(*columns, func.count()).where(is_due(now)).group_by(*columns))
    later = Subscriber.state == SubscriberState.ACTIVE, Subscriber.next_due_at > now
    due, following = 0, [session.scalar(select(func.min(Subscriber.next_due_at)).where(*later))]
    for *chosen, promised, count in groups:
        schedule = Schedule(**dict(zip(names, chosen, strict=True)))
        status = schedule_status(schedule, now, promised=promised)
        due += count if status.due else 0
        following.append(status.upcoming.due_at)
    return due, min(filter(None, following), default=None)


def are_due(session: Session, now: datetime) -> bool:
    """Return whether there are papers and any reader is due."""
    return bool(session.scalar(select(exists().where(is_due(now)) & exists(select(PaperRow.id)))))


def chunk_starts(session: Session, now: datetime, *, size: int) -> list[int]:
    """Return, for each chunk of due readers, the subscriber id after which it begins."""
    place = func.row_number().over(order_by=Subscriber.id)
    due = select(Subscriber.id, place.label("place")).where(is_due(now)).subquery()
    borders = select(due.c.id).where(due.c.place % size == 0).order_by(due.c.id)
    return [0, *session.scalars(borders)]


def lock_due_readers(session: Session, *, after_id: int, limit: int, now: datetime) -> Sequence[Reader]:
    """Lock and return the next due readers; a second publisher waits, and then skips them.

    Rows are read in id order. If the query used the index on due readers, both databases would read and sort
    all due readers for every chunk.
    """
    due = is_due(now, func.coalesce(SUBSCRIBER_COLUMNS.state, ""))  # which no index contains
    query = select(*READER_COLUMNS).where(due, Subscriber.id > after_id).order_by(Subscriber.id)
    with db.prefer_index_order(session):
        found = session.connection().execute(query.limit(limit).with_for_update(key_share=True)).all()
    return list(map(Reader._make, found))


def load_reader(session: Session, subscriber_id: int) -> Reader:
    """Return the columns of one subscriber that are needed for a decision."""
    return Reader._make(session.execute(select(*READER_COLUMNS).where(Subscriber.id == subscriber_id)).one())


def gather_inputs(
    session: Session, match_index: MatchIndex, found: Sequence[Reader], now: datetime
) -> GatheredInputs:
    """Return these readers with their topics, the press's papers that they were shown, and their updates."""
    ids = [reader.id for reader in found]
    topics = topics_of(session, ids) if ids else {}
    evaluate_filters(session, match_index, {number for some in topics.values() for _, number in some})
    shown: dict[int, set[int]] = defaultdict(set)
    if ids and match_index.ids:
        for subscriber_id, paper_id in shown_papers.shown_to(session, ids, since_id=min(match_index.ids)):
            number = match_index.press.rank_of_paper.get(paper_id)
            if number is not None:
                shown[subscriber_id].add(number)
    versions = earlier_versions(session, match_index)
    if ids and versions:
        later: dict[int, set[int]] = defaultdict(set)
        for number, some in versions.items():
            for earlier in some:
                later[earlier].add(number)
        for subscriber_id, paper_id in shown_papers.shown_among(session, ids, sorted(later)):
            shown[subscriber_id] |= later[paper_id]
    return GatheredInputs(found, topics, shown, pending_updates.load_pending(session, found, now), versions)


def earlier_versions(session: Session, match_index: MatchIndex) -> Mapping[int, Collection[int]]:
    """Return {paper number: ids of the paper's earlier versions} for the papers of the press."""
    if not match_index.ids:
        return {}
    stored = other_versions.earlier_versions(session, since_id=min(match_index.ids))
    ranks = match_index.press.rank_of_paper
    return {ranks[paper]: some for paper, some in stored.items() if paper in ranks}


def topics_of(session: Session, ids: Sequence[int]) -> Mapping[int, Sequence[Topic]]:
    """Return the topics of each subscriber, in the order that the subscriber chose."""
    topics: dict[int, list[Topic]] = defaultdict(list)
    resolved = load_resolved_filters(session)
    for subscriber_id, name, number in session.connection().execute(SUBSCRIPTIONS_QUERY, {"ids": ids}).all():
        topics[subscriber_id].append((name, resolved.get(number, number)))
    return topics


def load_resolved_filters(session: Session) -> Mapping[int, int]:
    """Return {filter id: resolved filter id} for filters that use packs; decisions store the resolved id."""
    return {row[0]: row[1] for row in session.connection().execute(RESOLVED_FILTERS_QUERY)}


def evaluate_filters(session: Session, match_index: MatchIndex, numbers: Iterable[int]) -> None:
    """Evaluate those filters that the match index does not contain yet."""
    match_index.limit_filters()
    new = [number for number in numbers if number not in match_index.choices]
    if new:
        found = session.connection().execute(FILTERS_QUERY, {"ids": new})
        match_index.evaluate({row[0]: row[1] for row in found})


def match_index_of(session: Session, press: Press, caches: Caches) -> MatchIndex:
    """Return the match index of this press, from the cache if it was used recently.

    The ids of filters differ between databases, so an index is never shared by two databases, even for the
    same press.
    """
    key = session.get_bind().engine.url, press.name
    return caches.get_or_make("match index", key, lambda: MatchIndex(press), bound=MAX_MATCH_INDEXES)
