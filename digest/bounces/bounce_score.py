"""Score the failures of mail to each address, and suppress addresses with high scores.

Each day with failures adds to the score: 1 for a hard failure, 0.5 for a soft failure. An address is
suppressed at a score of 5 (for four weeks only, if all failures were soft), after a complaint, or if SMTP replies rejected it as unknown on two of the last 64
days. A policy failure does not count, because we caused it. If many addresses of a domain have hard failures
at once, the cause is the domain: these failures are stored as frozen, and do not count until the operator
decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.bounces.broken_domains import freeze_domain, is_domain_broken
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure
from digest.bounces.suppressions import SuppressionReason, address_hmac, suppress
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import BounceRow
from digest.mail import addresses
from digest.site.site_profile import Site

FAILURE_WEIGHTS = {
    FailureKind.HARD: 1.0,
    FailureKind.SOFT: 0.5,
    FailureKind.POLICY: 0.0,
    FailureKind.COMPLAINT: 0.0,
}
SUPPRESS_AT_SCORE = 5.0  #: the score at which an address is suppressed
SCORE_LASTS = timedelta(days=7)  #: how long the score lasts after the last failure
#: Longer periods, by cadence, for subscribers who get less mail and therefore have fewer failures.
SCORE_LASTS_BY_CADENCE = {"weekly": timedelta(days=15), "monthly": timedelta(days=64)}
#: Two 5.1.1 refusals on different days within this time suppress the address.
REFUSED_TWICE_WITHIN = timedelta(days=64)
DELETE_BATCH = 500  #: number of rows deleted in one transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureOutcome:
    """The result of recording a failure or complaint."""

    kind: FailureKind
    score: float = 0.0
    is_frozen: bool = False
    is_suppressed: bool = False  #: whether this failure suppressed the address


def record_failure(
    session: Session,
    site: Site,
    email: str,
    report: Failure | Complaint,
    *,
    now: datetime,
    delivery_id: int | None = None,
    cadence: str = "daily",
) -> FailureOutcome:
    """Store a failure or complaint, and suppress the address if it must get no more mail.

    It is suppressed after a complaint, at a score of 5, and if SMTP replies rejected it as unknown on two of
    the last 64 days. If many addresses of its domain fail, a hard failure is frozen instead.
    """
    row = store_report(session, site, email, report, now=now, delivery_id=delivery_id)
    if isinstance(report, Complaint):
        is_new = suppress(session, site, email, SuppressionReason.COMPLAINT, report.diagnostic, now)
        return FailureOutcome(kind=FailureKind.COMPLAINT, is_suppressed=is_new)
    if report.kind is FailureKind.HARD and is_domain_broken(session, row.domain, now):
        freeze_domain(session, row.domain, now)
        return FailureOutcome(kind=report.kind, is_frozen=True)
    counted = counted_failures(session, row.hmac)
    points = score_of(counted, now, SCORE_LASTS_BY_CADENCE.get(cadence, SCORE_LASTS))
    is_too_high = points >= SUPPRESS_AT_SCORE or is_refused_twice(counted, now)
    note = f"{report.status or report.kind}: {report.diagnostic}"[:200]
    is_hard = any(one.kind == FailureKind.HARD and now - one.at <= REFUSED_TWICE_WITHIN for one in counted)
    reason = SuppressionReason.BOUNCE if is_hard else SuppressionReason.FULL
    is_new = is_too_high and suppress(session, site, email, reason, note, now)
    return FailureOutcome(kind=report.kind, score=points, is_suppressed=is_new)


def store_report(
    session: Session,
    site: Site,
    email: str,
    report: Failure | Complaint,
    *,
    now: datetime,
    delivery_id: int | None = None,
) -> BounceRow:
    """Store a failure or complaint without suppressing the address; a report that is repeated is stored once."""
    if delivery_id is not None:
        is_same = (BounceRow.kind == report.kind, BounceRow.reported_by == report.reported_by)
        repeated = select(BounceRow).where(BounceRow.delivery_id == delivery_id, *is_same).limit(1)
        if (earlier := session.scalar(repeated)) is not None:
            return earlier
    row = BounceRow(
        delivery_id=delivery_id,
        hmac=address_hmac(site, email),
        domain=addresses.fold_address(email).rpartition("@")[2][:255],
        kind=report.kind,
        status=report.status[:12],
        diagnostic=report.diagnostic,
        reported_by=report.reported_by,
        at=now,
    )
    session.add(row)
    session.flush()
    return row


def score_of(counted: Iterable[BounceRow], now: datetime, stale: timedelta) -> float:
    """Return the score of these failures at `now`; the score lasts for `stale` after the last failure."""
    days = weights_by_day(counted)
    points, last = 0.0, None
    for day in sorted(days):
        points = days[day] if last is None or day - last > stale else points + days[day]
        last = day
    return points if last is not None and now.date() - last <= stale else 0.0


def weights_by_day(rows: Iterable[BounceRow]) -> dict[date, float]:
    """Return {day: weight of the day's worst failure}.

    All reports of one delivery count on the day of the first report, since servers and forgers can
    repeat reports.
    """
    days: dict[date, float] = {}
    failed_on: dict[int, date] = {}
    for row in rows:
        weight, day = FAILURE_WEIGHTS[FailureKind(row.kind)], row.at.date()
        if weight:
            day = failed_on.setdefault(row.delivery_id, day) if row.delivery_id else day
            days[day] = max(days.get(day, 0.0), weight)
    return days


def counted_failures(session: Session, hmac: str) -> Sequence[BounceRow]:
    """Return the failures that count against an address, oldest first."""
    mine = select(BounceRow).where(
        BounceRow.hmac == hmac, BounceRow.forgiven_at.is_(None), BounceRow.frozen_at.is_(None)
    )
    return session.scalars(mine.order_by(BounceRow.at, BounceRow.id)).all()


def is_refused_twice(counted: Iterable[BounceRow], now: datetime) -> bool:
    """Return whether SMTP replies rejected the recipient as unknown (5.1.1) on two of the last 64 days."""
    days = {
        row.at.date()
        for row in counted
        if row.reported_by == "smtp" and row.status == "5.1.1" and now - row.at <= REFUSED_TWICE_WITHIN
    }
    return len(days) >= 2


def lift_confirmed_suppression(
    session: Session, site: Site, email: str, *, confirmed: datetime, now: datetime
) -> bool:
    """Lift a suppression if the owner of the address confirmed; return whether it was lifted.

    `confirmed` is the time of the confirmation request. Bounces recorded so far no longer count; otherwise
    the next failure would suppress the address again. Suppressions by the operator or an erasure are kept, as
    are suppressions newer than the request.
    """
    found = suppressions.find_suppression(session, site, email)
    if found is None or found.reason not in suppressions.OWNER_CAN_LIFT or found.since > confirmed:
        return False
    suppressions.unsuppress(session, site, email, now=now)
    mine = (BounceRow.hmac == found.hmac, BounceRow.forgiven_at.is_(None))
    session.execute(update(BounceRow).where(*mine).values(forgiven_at=now))
    return True


def list_failures(
    session: Session,
    *,
    domain: str | None = None,
    kind: FailureKind | None = None,
    delivery_id: int | None = None,
    limit: int | None = None,
) -> list[tuple[BounceRow, str | None]]:
    """Return failures and complaints, newest first, each with the recipient's address if it is known."""
    query = (
        select(BounceRow, Delivery.email)
        .outerjoin(Delivery, Delivery.id == BounceRow.delivery_id)
        .where(*failure_conditions(domain, kind))
        .order_by(BounceRow.id.desc())
        .limit(limit)
    )
    if delivery_id is not None:
        query = query.where(BounceRow.delivery_id == delivery_id)
    return [(row[0], row[1]) for row in session.execute(query)]


def count_failures(session: Session, *, domain: str | None = None, kind: FailureKind | None = None) -> int:
    """Return the number of failures and complaints of this domain and kind, if given."""
    return (
        session.scalar(select(func.count()).select_from(BounceRow).where(*failure_conditions(domain, kind)))
        or 0
    )


def failure_conditions(domain: str | None, kind: FailureKind | None) -> list[ColumnElement[bool]]:
    """Return the SQL conditions that select a domain and a kind, if given."""
    conditions = []
    if domain is not None:
        conditions.append(BounceRow.domain == addresses.ascii_domain(domain))
    if kind is not None:
        conditions.append(BounceRow.kind == kind)
    return conditions


def delete_old_failures(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete failures and complaints older than `before`; yield the number in each batch. The caller commits.

    Ids ascend with time, so the oldest rows have the lowest ids. Suppressions that were caused by the deleted
    failures remain.
    """
    oldest = select(BounceRow.id, BounceRow.at).order_by(BounceRow.id).limit(DELETE_BATCH)
    while past := [row.id for row in session.execute(oldest) if row.at < before]:
        session.execute(delete(BounceRow).where(BounceRow.id.in_(past)))
        yield len(past)
