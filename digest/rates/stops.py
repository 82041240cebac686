"""Stops: mail is held back when too much of it goes wrong, until the operator says so.

What is looked at slides along: the letters that were first tried in the last hour for what is deferred, and
for what came back those that were tried in the last 24 hours. Nothing from before the last resume counts.
Digests stop; what people wait for goes on, unless the refusals say that the trouble is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, case, func, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Attempt, BounceRow, Stop

HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
MOST_ATTEMPTS = 20_000  #: looked at, the latest: a morning's million need not be counted every minute
MOST_BOUNCES = 5_000

#: So many of a kind at least: two complaints among ten letters are no surge.
LEAST = {"bounces": 10, "complaints": 3, "deferred": 20, "policy": 5}
BULK, ALL = "bulk", "all"

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
    tried = recent_attempts(day)
    letters = by_letter(tried)
    counts = session.execute(
        select(
            func.count().filter(letters.c.first > hour),
            func.count().filter(letters.c.first > hour, letters.c.verdict == "deferred"),
            func.count(),
        ).select_from(letters)
    ).one()
    back = came_back(session, tried, day)
    found = {
        "deferred": (counts[1], counts[0]),
        "bounces": (back.get("hard", 0), counts[2]),
        "complaints": (back.get("complaint", 0), counts[2]),
        "policy": (back.get("policy", 0), counts[2]),
    }
    measured = [
        Surge(what=what, count=found[what][0], tried=found[what][1], limit=limit)
        for what, limit in limits.items()
    ]
    return [surge for surge in measured if surge.is_one]


def recent_attempts(since: datetime) -> Any:
    """Return the latest attempts; by their numbers, for they have no index by time."""
    columns = (ATTEMPT.c.delivery_id, ATTEMPT.c.verdict, ATTEMPT.c.ended_at)
    latest = select(*columns).order_by(ATTEMPT.c.id.desc()).limit(MOST_ATTEMPTS).subquery()
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


def came_back(session: Session, tried: Any, since: datetime) -> dict[str, int]:
    """Return how many of these letters came back or were reported, by kind.

    A complaint that names no letter, but its reader, is counted all the same.
    """
    latest = select(BOUNCE).order_by(BOUNCE.c.id.desc()).limit(MOST_BOUNCES).subquery()
    known = or_(latest.c.delivery_id.in_(select(tried.c.delivery_id)), latest.c.kind == "complaint")
    query = (
        select(latest.c.kind, func.count(latest.c.hmac.distinct()))
        .where(latest.c.at > since, latest.c.forgiven_at.is_(None), known)
        .group_by(latest.c.kind)
    )
    return {row[0]: row[1] for row in session.execute(query)}


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
