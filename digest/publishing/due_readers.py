"""Find and lock the readers whose digests are due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.editions.schedule import Schedule, schedule_status
from digest.publishing.paper_eligibility import FIRST_LOOK, TRENDS_AGAIN_WITHIN
from digest.publishing.reader_values import Reader

#: Whether the reader has paused since the last digest, so that the next one is the first after the pause.
IS_RESUMED = or_(Subscriber.is_resumed, Subscriber.state == SubscriberState.PAUSED).label("is_resumed")

#: The subscriber columns that are needed for a decision.
READER_COLUMNS = tuple(
    IS_RESUMED if name == "is_resumed" else Subscriber.__table__.c[name] for name in Reader._fields
)

SUBSCRIBER_COLUMNS: Any = Subscriber.__table__.c


def is_due(now: datetime, state: ColumnElement[Any] = SUBSCRIBER_COLUMNS.state) -> ColumnElement[bool]:
    """Return the condition that a reader is due: active, and the next due time has passed or is not set."""
    promised = or_(Subscriber.next_due_at.is_(None), Subscriber.next_due_at <= now)
    return and_(state == SubscriberState.ACTIVE, promised)


def count_due(session: Session, now: datetime, also_due: int | None = None) -> tuple[int, datetime | None]:
    """Return the number of due readers, and the time since which papers may be shown to one of them.

    The subscriber with the id `also_due` is counted, too.
    """
    condition = is_due(now) if also_due is None else or_(is_due(now), Subscriber.id == also_due)
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
