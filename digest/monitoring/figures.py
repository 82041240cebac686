"""Measure the service in a few queries: counts and times of readers, papers, mail and processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, cast, func, literal, select, text, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from digest.bounces.failure_kinds import FailureKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.dumps import DumpRow
from digest.db.tables.inbound_mail import BounceRow, InboundMail, MailState, Suppression
from digest.db.tables.papers import PaperRow
from digest.db.tables.service_state import EmergencyStop
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import outbox
from digest.delivery.limits import emergency_stops, shared_limits
from digest.monitoring import due_work
from digest.monitoring.due_work import DueWork
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
    silence: outbox.MailSilence | None  #: the time in which no mail server takes letters
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
        work=due_work.due_work(session, stops, now),
        last_run_at=heartbeats.last_run(session),
        silence=outbox.find_silence(session),
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
