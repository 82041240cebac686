"""Store every attempt at a delivery; attempts are only ever added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Attempt
from digest.delivery.outbox.open_deliveries import ATTEMPT_TABLE, DELIVERY_TABLE


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt at a delivery and its result."""

    delivery_id: int
    began_at: datetime
    verdict: str
    phase: str = ""
    code: int | None = None
    reply: str = ""


def record_attempts(
    session: Session, attempts: Iterable[AttemptRecord], *, lease: str, now: datetime
) -> None:
    """Store these attempts."""
    rows = [
        {
            "delivery_id": attempt.delivery_id,
            "began_at": attempt.began_at,
            "verdict": attempt.verdict,
            "phase": attempt.phase,
            "code": attempt.code,
            "reply": printable(attempt.reply[:500]),
        }
        for attempt in attempts
    ]
    db.insert_many(session, Attempt, rows, shared={"lease": lease, "ended_at": now})


def printable(text: str) -> str:
    """Return a text that any database can store and no terminal takes for commands."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def are_recorded(session: Session, ids: Collection[int], *, lease: str, at: datetime) -> bool:
    """Return whether attempts under that lease that ended at that moment are stored.

    For a caller that does not know whether its commit succeeded. The commit may still be in progress, so
    this first waits for the row locks of these deliveries.
    """
    if not ids:
        return False
    session.execute(select(DELIVERY_TABLE.c.id).where(db.one_of(DELIVERY_TABLE.c.id, ids)).with_for_update())
    recorded = (
        db.one_of(ATTEMPT_TABLE.c.delivery_id, ids),
        ATTEMPT_TABLE.c.lease == lease,
        ATTEMPT_TABLE.c.ended_at == at,
    )
    return session.execute(select(ATTEMPT_TABLE.c.id).where(*recorded).limit(1)).first() is not None


def list_attempts(session: Session, delivery_id: int) -> list[Attempt]:
    """Return every attempt at a delivery, oldest first."""
    return list(
        session.scalars(select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id))
    )
