"""Stops: mail is held back when too much of it goes wrong, until the operator says so.

What is looked at slides along: the letters that were first tried in the last hour for what is deferred, and
for what came back those that were tried in the last 24 hours. Nothing from before the last resume counts.
Digests stop; what people wait for goes on, unless the refusals say that the trouble is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Attempt, BounceRow, Stop

HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
MOST_ATTEMPTS = 20_000  #: looked at, the latest: a morning's million need not be counted every minute
MOST_BOUNCES = MOST_ATTEMPTS  #: fewer could never be a large share of those
REPORTS = 200  #: the latest of a kind, which show how long ago the letters were sent that come back now

#: So many of a kind at least: two complaints among ten letters are no surge.
LEAST = {"bounces": 10, "complaints": 3, "deferred": 20, "policy": 5}
BULK, ALL = "bulk", "all"

KINDS = {"bounces": "hard", "complaints": "complaint", "policy": "policy"}  #: of what comes back

ATTEMPT: Any = Attempt.__table__
BOUNCE: Any = BounceRow.__table__


@dataclass(frozen=True, kw_only=True, slots=True)
class Surge:
    """How much of one kind there is, and what it is a share of."""

    what: str  #: bounces, complaints, deferred or policy
    count: int
    tried: int
    limit: float

    @property
    def is_one(self) -> bool:
        """Return whether it is more than the operator bears."""
        return self.count >= LEAST[self.what] and self.count > self.limit * self.tried

    @property
    def said(self) -> str:
        """Return it in words."""
        words = {
            "bounces": "came back: nobody is there",
            "complaints": "were called spam",
            "deferred": "were put off by the mail server",
            "policy": "were refused because of how we send",
        }
        return f"{self.count:,} of {self.tried:,} letters {words[self.what]} (the limit is {self.limit * 100:g} %)"


def surges(session: Session, limits: Mapping[str, float], *, now: datetime) -> list[Surge]:
    """Return what goes wrong more often than the operator bears."""
    if not limits:
        return []
    last = session.scalar(select(func.max(Stop.lifted_at)))
    hour, day = (max(now - span, last) if last else now - span for span in (HOUR, DAY))
    found = []
    for what, limit in limits.items():
        counts = came_back(session, KINDS[what], day) if what in KINDS else [put_off(session, hour, day)]
        measured = [Surge(what=what, count=count, tried=tried, limit=limit) for count, tried in counts]
        found += [surge for surge in measured if surge.is_one][:1]
    return found


def put_off(session: Session, hour: datetime, day: datetime) -> tuple[int, int]:
    """Return how many of the letters first tried within the hour were put off every time, and how many those are."""
    letters = by_letter(recent_attempts(day))
    is_new = letters.c.first > hour
    counts = (func.count().filter(is_new, letters.c.verdict == "deferred"), func.count().filter(is_new))
    row = session.execute(select(*counts).select_from(letters)).one()
    return row[0], row[1]


def recent_attempts(since: datetime, *, middle: int | None = None) -> Any:
    """Return the latest attempts, or those around one; by their numbers, for they have no index by time."""
    columns = (ATTEMPT.c.delivery_id, ATTEMPT.c.verdict, ATTEMPT.c.ended_at)
    among = select(*columns).order_by(ATTEMPT.c.id.desc()).limit(MOST_ATTEMPTS)
    if middle is not None:
        among = among.where(ATTEMPT.c.id <= middle + MOST_ATTEMPTS // 2)
    latest = among.subquery()
    query: Select[Any] = select(latest).where(
        latest.c.ended_at > since, latest.c.verdict.in_(("accepted", "deferred", "refused"))
    )
    return query.subquery()


def by_letter(tried: Any) -> Any:
    """Return each letter, when it was first tried, and `deferred` if it was put off every time.

    So a few that are put off again and again, long after all others were taken, are no surge.
    """
    fates = func.count(tried.c.verdict.distinct())
    verdict = case((fates == 1, func.min(tried.c.verdict)), else_="")
    first = func.min(tried.c.ended_at).label("first")
    return select(first, verdict.label("verdict")).group_by(tried.c.delivery_id).subquery()


def came_back(session: Session, kind: str, since: datetime) -> Iterator[tuple[int, int]]:
    """Yield how many letters came back or were reported, and of how many: of the latest, then of those that the
    reports of now are about, for some come minutes or hours later.
    """
    latest = select(BOUNCE).order_by(BOUNCE.c.id.desc()).limit(MOST_BOUNCES).subquery()
    such = (latest.c.kind == kind, latest.c.at > since, latest.c.forgiven_at.is_(None))
    if session.scalar(select(latest.c.id).where(*such).limit(1)) is None:
        return
    yield counted(session, latest, such, recent_attempts(since))
    middle = middle_of_reports(session, latest, such)
    if middle is not None:
        yield counted(session, latest, such, recent_attempts(since, middle=middle))


def counted(
    session: Session, latest: Any, such: Sequence[ColumnElement[bool]], tried: Any
) -> tuple[int, int]:
    """Return how many of the letters tried came back, and how many those are.

    A complaint that names no letter, but its reader, is held against the letters since whose time it came.
    """
    letters = select(func.count(tried.c.delivery_id.distinct())).scalar_subquery()
    begins = select(func.min(tried.c.ended_at)).scalar_subquery()
    known = or_(
        latest.c.delivery_id.in_(select(tried.c.delivery_id)),
        and_(latest.c.delivery_id.is_(None), latest.c.kind == "complaint", latest.c.at >= begins),
    )
    row = session.execute(select(func.count(latest.c.hmac.distinct()), letters).where(*such, known)).one()
    return row[0], row[1]


def middle_of_reports(session: Session, latest: Any, such: Sequence[ColumnElement[bool]]) -> int | None:
    """Return the attempt amid those that the latest reports are about; what a server says at once is none."""
    reports = (
        select(latest.c.delivery_id)
        .where(*such, latest.c.delivery_id.is_not(None), latest.c.told_by != "smtp")
        .order_by(latest.c.id.desc())
        .limit(REPORTS)
    )
    first = func.min(ATTEMPT.c.id)
    attempts = select(first).where(ATTEMPT.c.delivery_id.in_(reports)).group_by(ATTEMPT.c.delivery_id)
    found = session.scalars(attempts.order_by(first)).all()
    return found[len(found) // 2] if found else None


# ── stopping and going on ───────────────────────────────────────────────────────────────────────


def brake(session: Session, limits: Mapping[str, float], *, now: datetime) -> Surge | None:
    """Stop the mail if too much of it goes wrong; return the surge that did it, or None.

    Refusals that say that the trouble is ours stop everything: each further letter makes it worse.
    """
    for surge in surges(session, limits, now=now):
        if stop(session, surge.said, covers=ALL if surge.what == "policy" else BULK, now=now):
            return surge
    return None


def stop(session: Session, said: str, *, covers: str, now: datetime) -> bool:
    """Stop the mail; return whether it was not stopped before."""
    row = {"covers": covers, "since": now, "said": said[:400]}
    adding = db.upsert(session, Stop).values(row).on_conflict_do_nothing()
    return session.execute(adding.returning(Stop.id)).first() is not None


def stopped(session: Session) -> list[Stop]:
    """Return the stops that stand."""
    return list(session.scalars(select(Stop).where(Stop.lifted_at.is_(None)).order_by(Stop.id)))


def resume(session: Session, *, now: datetime) -> int:
    """Lift every stop; return how many those were."""
    lifting = update(Stop).where(Stop.lifted_at.is_(None)).values(lifted_at=now).returning(Stop.id)
    return len(session.execute(lifting.execution_options(synchronize_session=False)).all())
