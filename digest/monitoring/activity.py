"""Count recent events by day, such as dumps, papers, digests, bounces and sign-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from digest.bounces.failure_kinds import FailureKind
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """A kind of event: its name, the column with its time, and which rows are counted."""

    name: str
    at: InstrumentedAttribute[Any]
    conditions: tuple[ColumnElement[bool], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The number of events of one kind on each day."""

    name: str
    per_day: tuple[int, ...]
    before: int  #: the number of events in the preceding period of the same length

    @property
    def total(self) -> int:
        """Return the total number of events in the period."""
        return sum(self.per_day)


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """The counts of events in a period, whose last day may be incomplete."""

    days: tuple[date, ...]
    series: tuple[Series, ...]
    active: int  #: active subscribers now
    doubts: int  #: number of the period's letters with an attempt whose outcome is unknown


IS_DIGEST = Delivery.edition.is_not(None)


def is_digest(state: DeliveryState) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for digests in a state."""
    return (IS_DIGEST, Delivery.state == state)


MEASURES = (
    Measure(name="dumps loaded", at=DumpRow.read_at, conditions=(DumpRow.state == DumpState.LOADED,)),
    Measure(name="new papers", at=PaperRow.first_seen_at, conditions=(PaperRow.is_history.is_(False),)),
    Measure(name="digests sent", at=Delivery.settled_at, conditions=is_digest(DeliveryState.SENT)),
    Measure(name="digests without papers", at=Delivery.settled_at, conditions=is_digest(DeliveryState.EMPTY)),
    Measure(name="digests refused", at=Delivery.settled_at, conditions=is_digest(DeliveryState.FAILED)),
    Measure(name="digests expired", at=Delivery.settled_at, conditions=is_digest(DeliveryState.EXPIRED)),
    Measure(name="digests stuck", at=Delivery.settled_at, conditions=is_digest(DeliveryState.STUCK)),
    Measure(
        name="bounces",
        at=BounceRow.at,
        conditions=(BounceRow.kind.in_((FailureKind.HARD, FailureKind.SOFT)),),
    ),
    Measure(name="complaints", at=BounceRow.at, conditions=(BounceRow.kind == FailureKind.COMPLAINT,)),
    Measure(name="sign-ups", at=Subscriber.created_at),
    Measure(name="confirmed", at=Subscriber.confirmed_at),
    Measure(
        name="unsubscribed",
        at=Subscriber.unsubscribed_at,
        conditions=(Subscriber.state == SubscriberState.UNSUBSCRIBED,),
    ),
)


def activity(session: Session, *, days: int, now: datetime) -> Activity:
    """Count the events of the last `days` days in UTC, and of the preceding period of the same length."""
    today = now.astimezone(UTC).date()
    starts = [today - timedelta(days=back) for back in range(2 * days - 1, -1, -1)]
    counts = {one.name: counts_per_day(session, one, starts, now) for one in MEASURES}
    is_active = Subscriber.state == SubscriberState.ACTIVE
    is_doubt = (Delivery.in_doubt > 0, Delivery.settled_at >= midnight(starts[days]))
    return Activity(
        days=tuple(starts[days:]),
        series=tuple(
            Series(name=name, per_day=tuple(found[days:]), before=sum(found[:days]))
            for name, found in counts.items()
        ),
        active=count_where(session, Subscriber.id, is_active),
        doubts=count_where(session, Delivery.id, *is_doubt),
    )


def counts_per_day(session: Session, measure: Measure, days: Sequence[date], now: datetime) -> list[int]:
    """Return the number of events on each of these days."""
    columns: list[Any] = [
        func.count().filter(measure.at >= midnight(day), measure.at < midnight(day + timedelta(days=1)))
        for day in days
    ]
    query = select(*columns).where(*measure.conditions, measure.at >= midnight(days[0]), measure.at <= now)
    return list(session.execute(query).one())


def count_where(
    session: Session, column: InstrumentedAttribute[Any], *conditions: ColumnElement[bool]
) -> int:
    """Return the number of rows that meet these conditions."""
    return session.scalar(select(func.count(column)).where(*conditions)) or 0


def midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime.combine(day, time(), UTC)
