"""Gathering: who is due, and all that deciding on them needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import URL, ColumnElement, and_, case, func, or_, select
from sqlalchemy.orm import Session

from digest import db, showings
from digest.model import FilterRow, Meaning, Subscriber, SubscriberState, Subscription
from digest.press import Press
from digest.publishing import followups
from digest.publishing.desk import FIRST_LOOK, SECOND_CHANCE, Desk
from digest.publishing.values import Gathered, Reader, Topic

#: Back from a leave; of who is still away, the next digest is the one that they come back to.
IS_BACK = or_(Subscriber.is_back, Subscriber.state == SubscriberState.PAUSED).label("is_back")

#: What deciding needs to know of a subscriber.
COLUMNS = tuple(IS_BACK if name == "is_back" else Subscriber.__table__.c[name] for name in Reader._fields)

#: A filter's matches take a few kilobytes; who holds a rare one is seldom followed by another who does.
MOST_FILTERS = 20_000

# The tables themselves: what goes through the mapping looks at every object. And what is asked for every
# chunk is put together once: that takes as long as asking.
SUBSCRIBER: Any = Subscriber.__table__.c
HELD: Any = Subscription.__table__.c
FILTER: Any = FilterRow.__table__.c
HOLDING = (
    select(HELD.subscriber_id, HELD.name, HELD.filter_id)
    .where(db.among(HELD.subscriber_id, db.many("ids", HELD.subscriber_id)))
    .order_by(HELD.subscriber_id, HELD.position, HELD.id)
)
FILTERS = select(FILTER.id, FILTER.canonical).where(db.one_by_one(FILTER.id, db.many("ids", FILTER.id)))
MEANT: Any = Meaning.__table__.c
MEANINGS = select(MEANT.filter_id, MEANT.stands_for_id)


def is_due(now: datetime, state: ColumnElement[Any] = SUBSCRIBER.state) -> ColumnElement[bool]:
    """Return the condition for being due: active, and the promised moment has come or none was promised."""
    promised = or_(Subscriber.next_due_at.is_(None), Subscriber.next_due_at <= now)
    return and_(state == SubscriberState.ACTIVE, promised)


def reach(session: Session, now: datetime, *, and_for: int | None = None) -> tuple[int, datetime | None]:
    """Return how many are due, and the moment from which on papers may matter to them (and to one more)."""
    wanted = is_due(now) if and_for is None else or_(is_due(now), Subscriber.id == and_for)
    came = case((Subscriber.cut_at.is_(None), func.coalesce(Subscriber.confirmed_at, Subscriber.created_at)))
    promised = case((Subscriber.cut_at.is_(None), Subscriber.next_due_at))
    moments = func.min(Subscriber.cut_at), func.min(came), func.min(promised)
    due, cut, came_at, promised_at = session.execute(select(func.count(), *moments).where(wanted)).one()
    back = (cut, SECOND_CHANCE), (came_at, FIRST_LOOK), (promised_at, FIRST_LOOK)
    return due, min((moment - reaching for moment, reaching in back if moment), default=None)


def readers(session: Session, *, after_id: int, limit: int, now: datetime) -> Sequence[Reader]:
    """Return the next due subscribers, locked: a second publisher waits here, and finds them not due.

    They are read in the order of their ids. By the index of who is due, either database would read and sort
    all who are due, for every chunk.
    """
    due = is_due(now, db.Unindexed(SUBSCRIBER.state))
    wanted = select(*COLUMNS).where(due, Subscriber.id > after_id).order_by(Subscriber.id)
    with db.in_order(session):
        found = session.connection().execute(wanted.limit(limit).with_for_update(key_share=True)).all()
    return list(map(Reader._make, found))


def gather(session: Session, desk: Desk, found: Sequence[Reader], now: datetime) -> Gathered:
    """Return these subscribers with their topics, what they were shown of this press, and news of earlier."""
    ids = [reader.id for reader in found]
    topics = topics_of(session, ids) if ids else {}
    learn(session, desk, {number for some in topics.values() for _, number in some})
    shown: dict[int, set[int]] = defaultdict(set)
    if ids and desk.ids:
        for subscriber_id, paper_id in showings.of(session, ids, since_id=min(desk.ids)):
            number = desk.press.number.get(paper_id)
            if number is not None:
                shown[subscriber_id].add(number)
    return Gathered(found, topics, shown, followups.pending(session, found, now))


def topics_of(session: Session, ids: Sequence[int]) -> Mapping[int, Sequence[Topic]]:
    """Return the topics of each of these subscribers, in their order."""
    topics: dict[int, list[Topic]] = defaultdict(list)
    meant = meanings(session)
    for subscriber_id, name, number in session.connection().execute(HOLDING, {"ids": ids}).all():
        topics[subscriber_id].append((name, meant.get(number, number)))
    return topics


def meanings(session: Session) -> Mapping[int, int]:
    """Return what filters that use packs stand for now, by id: decisions are made, and kept, on those."""
    return {row[0]: row[1] for row in session.connection().execute(MEANINGS)}


def learn(session: Session, desk: Desk, numbers: Iterable[int]) -> None:
    """Let the desk evaluate those of these filters that it does not know."""
    if len(desk.choices) > MOST_FILTERS:
        desk.choices.clear()
        desk.canonicals.clear()
    new = [number for number in numbers if number not in desk.choices]
    if new:
        found = session.connection().execute(FILTERS, {"ids": new})
        desk.learn({row[0]: row[1] for row in found})


def desk_of(session: Session, press: Press) -> Desk:
    """Return the desk of that press; this process keeps the last two.

    It knows filters by their ids, so two databases never share one, although their presses may be the same.
    """
    asked = session.get_bind().engine.url, press.name
    if asked not in DESKS:
        DESKS[asked] = Desk(press)
        while len(DESKS) > 2:
            del DESKS[next(iter(DESKS))]
    return DESKS[asked]


DESKS: dict[tuple[URL, str], Desk] = {}
