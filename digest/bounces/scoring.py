"""How often an address failed: a score that grows with each day of failures and goes stale.

A hard failure counts 1 a day, a soft one a half; at 5 the address is suppressed. A policy failure
counts nothing: it is about us. When many addresses of one domain fail at once, the domain is broken
and not its readers: there the failures are kept, frozen, and count nothing until the operator says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, distinct, exists, func, select, update
from sqlalchemy.orm import Session

from digest import addresses
from digest.bounces.reading import Complaint, Failure, Kind
from digest.bounces.suppressions import Reason, hashed, suppress
from digest.links import Site
from digest.model import BounceRow, Delivery, Subscriber, Suppression

WEIGHTS = {Kind.HARD: 1.0, Kind.SOFT: 0.5, Kind.POLICY: 0.0, Kind.COMPLAINT: 0.0}
LIMIT = 5.0  #: the score at which an address is suppressed
STALE = timedelta(days=7)  #: without a failure for so long, what was before is forgotten
STALE_FOR = {
    "weekly": timedelta(days=15),
    "monthly": timedelta(days=64),
}  #: who gets less mail fails less often
TWICE_WITHIN = timedelta(days=64)  #: two refusals of 5.1.1 on different days within this are enough

SUDDEN = timedelta(hours=24)
MASS = 10  #: so many addresses of a domain failing within a day ...
SHARE = 0.2  #: ... and so many of its readers, make a broken domain

BELIEVED = "gone, as the operator says, with others of "  #: and the domain: what is noted of its addresses


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What came of a failure."""

    kind: Kind
    score: float = 0.0
    is_frozen: bool = False
    is_suppressed: bool = False  #: by this one


def record(
    session: Session,
    site: Site,
    email: str,
    told: Failure | Complaint,
    *,
    now: datetime,
    delivery_id: int | None = None,
    cadence: str = "daily",
) -> Counted:
    """Keep a failure or a complaint as evidence, and suppress the address if that was one too many."""
    row = BounceRow(
        delivery_id=delivery_id,
        hmac=hashed(site, email),
        domain=addresses.key(email).rpartition("@")[2][:255],
        kind=Kind.COMPLAINT if isinstance(told, Complaint) else told.kind,
        status="" if isinstance(told, Complaint) else told.status[:12],
        said=told.said,
        told_by="report" if isinstance(told, Complaint) else told.told_by,
        at=now,
    )
    session.add(row)
    session.flush()
    if isinstance(told, Complaint):
        is_new = suppress(session, site, email, Reason.COMPLAINT, told.said, now)
        return Counted(kind=Kind.COMPLAINT, is_suppressed=is_new)
    if told.kind is Kind.HARD and is_broken(session, row.domain, now):
        freeze(session, row.domain, now)
        return Counted(kind=told.kind, is_frozen=True)
    points = score(session, row.hmac, now=now, cadence=cadence)
    is_over = points >= LIMIT or is_refused_twice(session, row.hmac, now)
    note = f"{told.status or told.kind}: {told.said}"[:200]
    is_new = is_over and suppress(session, site, email, Reason.BOUNCE, note, now)
    return Counted(kind=told.kind, score=points, is_suppressed=is_new)


def score(session: Session, hmac: str, *, now: datetime, cadence: str = "daily") -> float:
    """Return how much counts against an address at this moment."""
    stale = STALE_FOR.get(cadence, STALE)
    days = weights_by_day(counting(session, hmac))
    points, last = 0.0, None
    for day in sorted(days):
        points = days[day] if last is None or day - last > stale else points + days[day]
        last = day
    return points if last is not None and now.date() - last <= stale else 0.0


def weights_by_day(rows: Iterable[BounceRow]) -> dict[date, float]:
    """Return the weight of each day: that of its worst failure.

    A letter failed on one day, on however many that is told: some servers repeat themselves, and so could
    anybody who has seen one report.
    """
    days: dict[date, float] = {}
    failed_on: dict[int, date] = {}
    for row in rows:
        weight, day = WEIGHTS[Kind(row.kind)], row.at.date()
        if weight:
            day = failed_on.setdefault(row.delivery_id, day) if row.delivery_id else day
            days[day] = max(days.get(day, 0.0), weight)
    return days


def counting(session: Session, hmac: str) -> Sequence[BounceRow]:
    """Return the failures that count against an address, oldest first."""
    mine = select(BounceRow).where(
        BounceRow.hmac == hmac, BounceRow.forgiven_at.is_(None), BounceRow.frozen_at.is_(None)
    )
    return session.scalars(mine.order_by(BounceRow.at, BounceRow.id)).all()


def is_refused_twice(session: Session, hmac: str, now: datetime) -> bool:
    """Return whether the server itself told us on two days that nobody is there."""
    days = {
        row.at.date()
        for row in counting(session, hmac)
        if row.told_by == "smtp" and row.status == "5.1.1" and now - row.at <= TWICE_WITHIN
    }
    return len(days) >= 2


# ── domains ─────────────────────────────────────────────────────────────────────────────────────


def is_broken(session: Session, domain: str, now: datetime) -> bool:
    """Return whether a mass of a domain's addresses has failed within a day."""
    recent = (
        BounceRow.domain == domain,
        BounceRow.at > now - SUDDEN,
        BounceRow.forgiven_at.is_(None),
        ~is_believed(),
    )
    if session.scalar(select(BounceRow.id).where(*recent, BounceRow.frozen_at.is_not(None)).limit(1)):
        return True
    failing = session.scalar(
        select(func.count(distinct(BounceRow.hmac))).where(*recent, BounceRow.kind == Kind.HARD)
    )
    if not failing or failing < MASS:
        return False
    most = int(failing / SHARE)  # of more readers they are no mass: a million of them need not be counted
    theirs = select(Subscriber.id).where(Subscriber.email_key.endswith(f"@{domain}", autoescape=True))
    readers = session.scalar(select(func.count()).select_from(theirs.limit(most + 1).subquery())) or 0
    return readers <= most


def is_believed() -> ColumnElement[bool]:
    """Return whether the operator has said of a failure's address that it is gone indeed."""
    return exists().where(Suppression.hmac == BounceRow.hmac, Suppression.note == BELIEVED + BounceRow.domain)


def freeze(session: Session, domain: str, now: datetime) -> None:
    """Let a domain's failures of the last day count nothing, and lift what they had brought about."""
    recent = (
        BounceRow.domain == domain,
        BounceRow.at > now - SUDDEN,
        BounceRow.kind == Kind.HARD,
        BounceRow.forgiven_at.is_(None),
        ~is_believed(),
    )
    session.execute(
        update(BounceRow)
        .where(*recent, BounceRow.frozen_at.is_(None))
        .values(frozen_at=now)
        .execution_options(synchronize_session=False)
    )
    lift_all(session, select(BounceRow.hmac).where(*recent), since=now - SUDDEN)


def frozen_domains(session: Session, *, since: datetime) -> dict[str, int]:
    """Return the domains whose failures are frozen since then, and how many addresses that concerns."""
    found = session.execute(
        select(BounceRow.domain, func.count(distinct(BounceRow.hmac)))
        .where(
            BounceRow.frozen_at.is_not(None),
            BounceRow.forgiven_at.is_(None),
            BounceRow.at > since,
            ~is_believed(),
        )
        .group_by(BounceRow.domain)
        .order_by(BounceRow.domain)
    )
    return {row[0]: row[1] for row in found}


# ── what the operator says ──────────────────────────────────────────────────────────────────────


def forgive(session: Session, *, domain: str, since: datetime, now: datetime) -> tuple[int, int]:
    """Forget a domain's failures since then; return how many, and how many addresses are free again."""
    theirs = (BounceRow.domain == addresses.ascii_domain(domain), BounceRow.at >= since)
    lifted = lift_all(session, select(BounceRow.hmac).where(*theirs), since=since)
    forgiving = update(BounceRow).where(*theirs, BounceRow.forgiven_at.is_(None)).values(forgiven_at=now)
    done = session.execute(
        forgiving.returning(BounceRow.id).execution_options(synchronize_session=False)
    ).all()
    return len(done), lifted


def accept(session: Session, *, domain: str, since: datetime, now: datetime) -> int:
    """Believe a domain's frozen failures: suppress its addresses, and return how many those are."""
    frozen = (
        BounceRow.domain == addresses.ascii_domain(domain),
        BounceRow.at >= since,
        BounceRow.frozen_at.is_not(None),
        BounceRow.forgiven_at.is_(None),
    )
    hashes = session.scalars(select(BounceRow.hmac).where(*frozen).distinct()).all()
    known = set(session.scalars(select(Suppression.hmac).where(Suppression.hmac.in_(hashes))))
    new = [hmac for hmac in hashes if hmac not in known]
    session.add_all(
        Suppression(
            hmac=hmac, reason=Reason.BOUNCE, note=BELIEVED + addresses.ascii_domain(domain), since=now
        )
        for hmac in new
    )
    session.flush()
    return len(new)


def lift_all(session: Session, hashes: Select[Any], *, since: datetime) -> int:
    """Take addresses off the list of suppressions again that bounces put there since then."""
    lifting = delete(Suppression).where(
        Suppression.hmac.in_(hashes),
        Suppression.reason == Reason.BOUNCE,
        Suppression.since >= since,
    )
    done = session.execute(lifting.returning(Suppression.hmac).execution_options(synchronize_session=False))
    return len(done.all())


def history(
    session: Session,
    *,
    domain: str | None = None,
    kind: Kind | None = None,
    delivery_id: int | None = None,
    limit: int | None = None,
) -> list[tuple[BounceRow, str | None]]:
    """Return failures and complaints, newest first, each with the letter's address if it is known."""
    query = (
        select(BounceRow, Delivery.email)
        .outerjoin(Delivery, Delivery.id == BounceRow.delivery_id)
        .where(*such(domain, kind))
        .order_by(BounceRow.id.desc())
        .limit(limit)
    )
    if delivery_id is not None:
        query = query.where(BounceRow.delivery_id == delivery_id)
    return [(row[0], row[1]) for row in session.execute(query)]


def count(session: Session, *, domain: str | None = None, kind: Kind | None = None) -> int:
    """Return how many failures and complaints there are."""
    return session.scalar(select(func.count()).select_from(BounceRow).where(*such(domain, kind))) or 0


def such(domain: str | None, kind: Kind | None) -> list[ColumnElement[bool]]:
    """Return what the failures of a domain and of a kind have in common."""
    asked = []
    if domain is not None:
        asked.append(BounceRow.domain == addresses.ascii_domain(domain))
    if kind is not None:
        asked.append(BounceRow.kind == kind)
    return asked


def as_report(row: BounceRow) -> dict[str, Any]:
    """Return what there is to say about a failure, without an address."""
    names = (
        "id",
        "at",
        "kind",
        "status",
        "said",
        "told_by",
        "domain",
        "delivery_id",
        "frozen_at",
        "forgiven_at",
    )
    return {name: getattr(row, name) for name in names}
