"""Evidence: every try at a delivery is kept, and only ever added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.model import Attempt
from digest.outbox.rows import ATTEMPT, DELIVERY


@dataclass(frozen=True, slots=True)
class Tried:
    """One try at a delivery and what came of it."""

    delivery_id: int
    began_at: datetime
    verdict: str
    phase: str = ""
    code: int | None = None
    reply: str = ""


def keep_attempts(session: Session, attempts: Iterable[Tried], *, lease: str, now: datetime) -> None:
    """Append these attempts to the evidence."""
    rows = [
        {
            "delivery_id": tried.delivery_id,
            "began_at": tried.began_at,
            "verdict": tried.verdict,
            "phase": tried.phase,
            "code": tried.code,
            "reply": printable(tried.reply[:500]),
        }
        for tried in attempts
    ]
    db.put_many(session, Attempt, rows, same={"lease": lease, "ended_at": now})


def printable(text: str) -> str:
    """Return a text that any database keeps, and no terminal obeys."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def are_kept(session: Session, ids: Collection[int], *, lease: str, at: datetime) -> bool:
    """Return whether attempts of that lease that ended then are in the evidence.

    For who has not heard whether a commit went through. It may still be on its way, so we wait for whoever
    holds one of these deliveries, and look after that.
    """
    if not ids:
        return False
    session.execute(select(DELIVERY.c.id).where(db.among(DELIVERY.c.id, ids)).with_for_update())
    told = (db.among(ATTEMPT.c.delivery_id, ids), ATTEMPT.c.lease == lease, ATTEMPT.c.ended_at == at)
    return session.execute(select(ATTEMPT.c.id).where(*told).limit(1)).first() is not None


def trace(session: Session, delivery_id: int) -> list[Attempt]:
    """Return every attempt at a delivery, oldest first."""
    return list(
        session.scalars(select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id))
    )
