"""Record every attempt at a delivery and the server's reply; attempts are never changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import lru_cache

from msgspec import Struct
from sqlalchemy import TextClause, bindparam, select, text
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, DeliveryState
from digest.delivery.outbox.new_rows import json_rows, moment_text, new_rows
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
            "id": attempt.delivery_id,
            "began_at": moment_text(attempt.began_at),
            "verdict": attempt.verdict,
            "phase": attempt.phase,
            "code": attempt.code,
            "reply": printable(attempt.reply[:500]),
        }
        for attempt in attempts
    ]
    if rows:
        given = {"new": json_rows(rows), "lease": lease, "now": now}
        session.connection().execute(record_statement(db.dialect_name(session)), given)


@lru_cache(maxsize=2)  # there are two dialects
def record_statement(dialect: str) -> TextClause:
    """Return the statement that stores attempts."""
    texts = dict.fromkeys(("verdict", "phase", "reply"), "text")
    attempts = new_rows(dialect, {"id": "bigint", "began_at": "timestamptz", "code": "int", **texts})
    sql = f"""INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)
    SELECT new.id, :lease, new.began_at, :now, new.verdict, new.phase, new.code, new.reply
    FROM {attempts}"""  # noqa: S608 - constants only
    return text(sql).bindparams(bindparam("now", type_=db.UtcDateTime))


def printable(line: str) -> str:
    """Replace the characters that a database cannot store or that control a terminal."""
    if line.isprintable():
        return line
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)


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
