"""Record every attempt at a delivery and the server's reply; attempts are never changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, DeliveryState
from digest.delivery.outbox.open_deliveries import ATTEMPT_TABLE, DELIVERY_TABLE


class AttemptRecord(Struct, frozen=True):
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
    """Store these attempts under the lease of their deliveries."""
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
    """Replace the characters that a database cannot store or that control a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def is_recorded(
    session: Session, ids: Collection[int], attempted: Collection[int], *, lease: str, at: datetime
) -> bool:
    """Return whether the outcome of these deliveries is stored; used after a commit that may have failed.

    If deliveries were attempted, the outcome is stored if an attempt with this lease and end time is stored.
    Otherwise the outcome is stored if none of the deliveries is held under this lease. The commit may still
    be in progress, so this function first waits for the row locks of these deliveries.
    """
    columns = (DELIVERY_TABLE.c.state, DELIVERY_TABLE.c.lease)
    locking = select(*columns).where(db.one_of(DELIVERY_TABLE.c.id, ids)).with_for_update()
    rows = session.execute(locking).all()
    if not attempted:
        return not any(row.state == DeliveryState.SENDING and row.lease == lease for row in rows)
    recorded = (
        db.one_of(ATTEMPT_TABLE.c.delivery_id, attempted),
        ATTEMPT_TABLE.c.lease == lease,
        ATTEMPT_TABLE.c.ended_at == at,
    )
    return session.execute(select(ATTEMPT_TABLE.c.id).where(*recorded).limit(1)).first() is not None


def list_attempts(session: Session, delivery_id: int) -> list[Attempt]:
    """Return every attempt at a delivery, oldest first."""
    return list(
        session.scalars(select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id))
    )


def note_reason(session: Session, delivery_id: int, reason: str, *, lease: str) -> None:
    """Store the reason why a delivery that we hold remains in doubt."""
    is_held = (
        DELIVERY_TABLE.c.id == delivery_id,
        DELIVERY_TABLE.c.state == DeliveryState.SENDING,
        DELIVERY_TABLE.c.lease == lease,
    )
    session.connection().execute(update(DELIVERY_TABLE).where(*is_held).values(reason=reason[:500]))


def record_provider_ids(session: Session, provider_ids: Mapping[int, str]) -> None:
    """Store the ids that a provider assigned to accepted deliveries and uses in its reports."""
    if provider_ids:
        naming = update(DELIVERY_TABLE).where(DELIVERY_TABLE.c.id == bindparam("key"))
        rows = [{"key": number, "name": name} for number, name in provider_ids.items()]
        session.connection().execute(naming.values(provider_id=bindparam("name")), rows)
