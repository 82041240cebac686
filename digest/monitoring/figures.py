"""Measure the service in a few queries: counts and times of readers, papers, mail and processes, and the work that is due.

An outage is work that nobody takes, whatever the heartbeats of the processes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, case, cast, func, literal, or_, select, text, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from digest.bounces.failure_kinds import FailureKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, Lane
from digest.db.tables.dumps import DumpRow, DumpState, SourceRow
from digest.db.tables.inbound_mail import BounceRow, InboundMail, MailState, Suppression
from digest.db.tables.papers import PaperRow
from digest.db.tables.service_state import EmergencyStop
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.limits import emergency_stops, shared_limits
from digest.delivery.limits.decisions import ALL, BULK
from digest.delivery.outbox import silent_server
from digest.delivery.outbox.open_deliveries import IS_OPEN
from digest.delivery.outbox.silent_server import MailSilence
from digest.editions.schedule import Cadence, Schedule, schedule_status
from digest.papers import expected_arrivals
from digest.papers.catalog.queries import arrivals
from digest.papers.expected_arrivals import LateList
from digest.process import heartbeats
from digest.process.heartbeats import ProcessRecord
from digest.publishing import due_readers

DAY = timedelta(days=1)
LATEST_DUMPS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of the service at one time."""

    subscribers: Mapping[str, int]  #: number of subscribers, keyed by state
    deliveries: Mapping[str, int]  #: number of deliveries, keyed by state
    in_doubt: int  #: number of deliveries with an attempt whose outcome is unknown
    bounces: Mapping[str, int]  #: number of bounces in the last day, keyed by kind
    suppressions: Mapping[str, int]  #: number of suppressed addresses, keyed by reason
    mail_in: Mapping[str, int]  #: number of received messages, keyed by state
    papers: int
    last_paper_at: datetime | None  #: when the newest paper was first seen
    dumps: int
    last_dump_at: datetime | None
    next_due_at: datetime | None  #: when the next digest is due after now; None without active subscribers
    due_now: int  #: number of active subscribers who get a digest at the next publication
    work: tuple[DueWork, ...]  #: the work that could be done now
    last_run_at: datetime | None  #: when `digest run` last ran
    silence: MailSilence | None  #: the time in which no mail server takes letters
    last_task_at: datetime | None  #: when a task last reached a worker
    latest_dumps: Sequence[DumpRow]
    late_lists: tuple[LateList, ...]
    stops: Sequence[EmergencyStop]
    pauses: Mapping[str, datetime]  #: the end of each pause, keyed by domain or server
    processes: Sequence[ProcessRecord]

    @property
    def done_by_runs(self) -> bool:
        """Return whether `digest run` does the work: it ran since a worker last took a task."""
        run_at, task_at = self.last_run_at, self.last_task_at
        return run_at is not None and (task_at is None or run_at > task_at)


def count_figures(session: Session, *, now: datetime) -> Figures:
    """Return the figures of the service at `now`."""
    due_now, next_due_at = due_readers.due_and_next(session, now)
    stops = emergency_stops.active_stops(session)
    return Figures(
        due_now=due_now,
        next_due_at=next_due_at,
        **counts_by_value(session, now),
        **single_figures(session),
        work=due_work(session, stops, now),
        last_run_at=heartbeats.last_run(session),
        silence=silent_server.find_silence(session),
        last_task_at=heartbeats.last_queue_heartbeat(session),
        latest_dumps=latest_dumps(session),
        late_lists=expected_arrivals.late_lists(arrivals(session, until=now), now=now),
        stops=stops,
        pauses=shared_limits.active_pauses(session, now=now),
        processes=heartbeats.list_processes(session),
    )


#: The columns whose values are counted, each with all its possible values.
COUNTED: Mapping[str, tuple[InstrumentedAttribute[Any], Iterable[str]]] = {
    "subscribers": (Subscriber.state, SubscriberState),
    "deliveries": (Delivery.state, DeliveryState),
    "bounces": (BounceRow.kind, FailureKind),
    "suppressions": (Suppression.reason, SuppressionReason),
    "mail_in": (InboundMail.state, MailState),
}


def counts_by_value(session: Session, now: datetime) -> dict[str, Any]:
    """Return the number of rows with each value of the counted columns, in one query."""
    conditions: dict[str, ColumnElement[bool]] = {"bounces": BounceRow.at > now - DAY}
    counting = union_all(
        *(
            select(literal(name), cast(column, String), func.count())
            .where(*([conditions[name]] if name in conditions else []))
            .group_by(column)
            for name, (column, _) in COUNTED.items()
        )
    )
    counts = {name: {str(value): 0 for value in values} for name, (_, values) in COUNTED.items()}
    for name, value, number in session.execute(counting):
        counts[name][value] = number
    return counts


def single_figures(session: Session) -> dict[str, Any]:
    """Return the figures that are a single number or time, in one query."""
    is_current = PaperRow.merged_into.is_(None)
    queries = {
        "in_doubt": select(func.count()).select_from(Delivery).where(text("delivery.in_doubt > 0")),
        "papers": select(func.count()).select_from(PaperRow).where(is_current),
        "last_paper_at": select(func.max(PaperRow.first_seen_at)).where(is_current),
        "dumps": select(func.count()).select_from(DumpRow),
        "last_dump_at": select(func.max(DumpRow.read_at)),
    }
    parts = [query.scalar_subquery().label(name) for name, query in queries.items()]
    return session.execute(select(*parts)).one()._asdict()


def latest_dumps(session: Session) -> Sequence[DumpRow]:
    """Return the dumps that were read last, newest first."""
    return session.scalars(select(DumpRow).order_by(DumpRow.id.desc()).limit(LATEST_DUMPS)).all()


# ── due work ──


#: Work is reported if nobody takes it for this long, which is longer than a task may take.
PATIENCE = timedelta(minutes=15)
#: The same, where `digest run` does the work: an hourly run is frequent enough.
PATIENCE_WITH_RUNS = timedelta(minutes=90)
#: Letters are reported after this time even if others are sent; prompt letters go before all others.
SLOW_AFTER = {Lane.PROMPT: timedelta(minutes=30), Lane.BULK: timedelta(hours=3)}


@dataclass(frozen=True, kw_only=True, slots=True)
class DueWork:
    """The work of one kind that could be done now."""

    kind: str  #: digests (to compose), polls (of sources), or a lane of letters
    count: int
    since: datetime  #: when the oldest of it could first be done
    taken_at: datetime | None  #: when such work was last done

    def is_untaken(self, now: datetime, patience: timedelta) -> bool:
        """Return whether nobody has done such work for so long."""
        return now - max(self.since, self.taken_at or self.since) > patience

    def is_slow(self, now: datetime) -> bool:
        """Return whether the oldest of these letters has waited too long, although others are sent."""
        return self.kind in SLOW_AFTER and now - self.since > SLOW_AFTER[Lane(self.kind)]


def due_work(session: Session, stops: Iterable[EmergencyStop], now: datetime) -> tuple[DueWork, ...]:
    """Return all kinds of work that could be done now."""
    return *digests_to_compose(session, now), *letters_to_send(session, stops, now), *polls(session, now)


def digests_to_compose(session: Session, now: datetime) -> Iterator[DueWork]:
    """Yield the digests that are due and not composed; without papers, none can be composed."""
    papers_since = session.scalar(
        select(func.min(DumpRow.read_at)).where(DumpRow.state == DumpState.LOADED, DumpRow.papers > 0)
    )
    due = [(count, since) for count, since in first_and_later_digests(session, now) if count and since <= now]
    if papers_since is None or not due:
        return
    latest = select(Delivery.dated_at).where(Delivery.edition.is_not(None)).order_by(Delivery.id.desc())
    yield DueWork(
        kind="digests",
        count=sum(count for count, _ in due),
        since=max(papers_since, min(since for _, since in due)),
        taken_at=session.scalar(latest.limit(1)),
    )


def first_and_later_digests(session: Session, now: datetime) -> Iterator[tuple[int, datetime]]:
    """Yield numbers of digests, and when they could first be composed.

    A reader without a published edition has no due time yet, and gets the edition that was open when they
    joined, or the next one. After a pause, it is unknown since when the reader could get a digest.
    """
    joined_at = func.coalesce(Subscriber.confirmed_at, Subscriber.created_at)
    is_active = Subscriber.state == SubscriberState.ACTIVE
    later = select(func.count(), func.min(later_of(Subscriber.next_due_at, joined_at)))
    yield session.execute(later.where(is_active, Subscriber.next_due_at <= now)).one()
    columns = Subscriber.cadence, Subscriber.at, Subscriber.timezone, Subscriber.weekday
    first = select(*columns, func.count(), func.min(joined_at)).group_by(*columns)
    is_first = Subscriber.next_due_at.is_(None), Subscriber.is_resumed.is_(False)
    for cadence, at, timezone, weekday, count, joined in session.execute(first.where(is_active, *is_first)):
        schedule = Schedule(cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday)
        yield count, max(schedule_status(schedule, joined).next.due_at, joined)


def letters_to_send(session: Session, stops: Iterable[EmergencyStop], now: datetime) -> Iterator[DueWork]:
    """Yield the letters of each lane that are due and not being sent, unless the operator stopped them.

    A letter whose lease is over is not being sent.
    """
    stopped = {stop.scope for stop in stops}
    could_begin = later_of(Delivery.due_at, Delivery.dated_at)
    is_left = or_(Delivery.state != DeliveryState.SENDING, Delivery.leased_until < now)
    is_waiting = IS_OPEN, Delivery.due_at <= now, is_left
    query = select(Delivery.lane, func.count(), func.min(could_begin)).where(*is_waiting)
    taken_at = session.scalar(select(Attempt.ended_at).order_by(Attempt.id.desc()).limit(1))
    for lane, count, since in session.execute(query.group_by(Delivery.lane).order_by(Delivery.lane)):
        if not stopped & ({ALL, BULK} if lane == Lane.BULK else {ALL}):
            yield DueWork(kind=lane, count=count, since=since, taken_at=taken_at)


def polls(session: Session, now: datetime) -> Iterator[DueWork]:
    """Yield the sources that are due for a poll."""
    is_due = SourceRow.is_on, SourceRow.next_poll_at <= now
    counts = select(func.count(), func.min(SourceRow.next_poll_at)).where(*is_due)
    count, since = session.execute(counts).one()
    if count:
        taken_at = session.scalar(select(func.max(SourceRow.polled_at)))
        yield DueWork(kind="polls", count=count, since=since, taken_at=taken_at)


def later_of(one: ColumnElement[Any] | Any, other: ColumnElement[Any] | Any) -> ColumnElement[Any]:
    """Return the later of two moments, neither of which is NULL."""
    return case((one > other, one), else_=other)
