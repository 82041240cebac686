"""Count recent events by day, such as dumps, papers, digests, bounces and sign-ups, and describe them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from digest import plurals
from digest.bounces.failure_kinds import FailureKind
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState

BARS = "▁▂▃▄▅▆▇█"
NO_BAR = "·"
NOTHING = "Nothing happened in this period."

#: The kinds of events: the column with their time, and the conditions of the rows that are counted.
MEASURES: dict[str, tuple[InstrumentedAttribute[Any], *tuple[ColumnElement[bool], ...]]] = {
    "dumps loaded": (DumpRow.read_at, DumpRow.state == DumpState.LOADED),
    "new papers": (PaperRow.first_seen_at, PaperRow.is_history.is_(False)),
    **{
        f"digests {words}": (Delivery.settled_at, Delivery.edition.is_not(None), Delivery.state == state)
        for words, state in {
            "sent": DeliveryState.SENT,
            "without papers": DeliveryState.EMPTY,
            "refused": DeliveryState.FAILED,
            "expired": DeliveryState.EXPIRED,
            "stuck": DeliveryState.STUCK,
        }.items()
    },
    "bounces": (BounceRow.at, BounceRow.kind.in_((FailureKind.HARD, FailureKind.SOFT))),
    "complaints": (BounceRow.at, BounceRow.kind == FailureKind.COMPLAINT),
    "sign-ups": (Subscriber.created_at,),
    "confirmed": (Subscriber.confirmed_at,),
    "unsubscribed": (Subscriber.unsubscribed_at, Subscriber.state == SubscriberState.UNSUBSCRIBED),
}


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

    @property
    def change(self) -> str:
        """Return the total of the preceding period, and the change in percent."""
        change = round(100 * (self.total - self.before) / self.before) if self.before else 0
        return f"{self.before:,} ({change:+d}%)".replace("-", "−") if change else f"{self.before:,}"

    @property
    def chart(self) -> str:
        """Return a bar for each day."""
        return chart(self.per_day)

    @property
    def most(self) -> int:
        """Return the highest number on one day."""
        return max(self.per_day)


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """The counts of events in a period, whose last day may be incomplete."""

    days: tuple[date, ...]
    series: tuple[Series, ...]
    active: int  #: active subscribers now
    doubts: int  #: number of the period's letters with an attempt whose outcome is unknown

    @property
    def period(self) -> str:
        """Return the period in words: the number of days, the first day and the last day."""
        return f"{plurals.count(len(self.days), 'day')}, {self.days[0]} to {self.days[-1]}"

    @property
    def rows(self) -> list[Series]:
        """Return each kind of event that happened in this period or the preceding one."""
        return [one for one in self.series if one.total or one.before]

    @property
    def summary(self) -> str:
        """Return sentences about the subscribers now and the letters in doubt."""
        active = f"{plurals.count(self.active, 'active subscriber')} now."
        if not self.doubts:
            return f"{active} No letters in doubt."
        doubts = plurals.count(self.doubts, "letter")
        return f"{active} {doubts} in doubt: the mail server did not answer every attempt."


def activity(session: Session, *, days: int, now: datetime) -> Activity:
    """Count the events of the last `days` days in UTC, and of the preceding period of the same length."""
    today = now.astimezone(UTC).date()
    starts = [today - timedelta(days=back) for back in range(2 * days - 1, -1, -1)]
    series = []
    for name, (at, *conditions) in MEASURES.items():
        counts: list[Any] = [
            func.count().filter(at >= midnight(day), at < midnight(day + timedelta(days=1))) for day in starts
        ]
        query = select(*counts).where(*conditions, at >= midnight(starts[0]), at <= now)
        found = session.execute(query).one()
        series.append(Series(name=name, per_day=tuple(found[days:]), before=sum(found[:days])))
    active = select(func.count(Subscriber.id)).where(Subscriber.state == SubscriberState.ACTIVE)
    is_doubt = (Delivery.in_doubt > 0, Delivery.settled_at >= midnight(starts[days]))
    return Activity(
        days=tuple(starts[days:]),
        series=tuple(series),
        active=session.scalar(active) or 0,
        doubts=session.scalar(select(func.count(Delivery.id)).where(*is_doubt)) or 0,
    )


def midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime.combine(day, time(), UTC)


def chart(counts: Sequence[int], *, width: int = 31) -> str:
    """Return a bar for each count, relative to the highest.

    If there are many days, each bar is the sum of several days.
    """
    size = -(-len(counts) // width)
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    highest = max(sums)
    return "".join(BARS[(one * (len(BARS) - 1)) // highest] if one else NO_BAR for one in sums)
