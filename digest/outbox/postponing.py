"""Postponing: what does not go out now, and when somebody looks at it again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from zlib import crc32

from sqlalchemy import and_, case, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import DeliveryState, Lane
from digest.outbox.rows import DELIVERY, IS_OPEN, changed, holding

FIRST_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=1)


def put_back(
    session: Session,
    ids: Collection[int],
    reason: str = "",
    *,
    was: DeliveryState,
    lease: str,
    due_at: datetime,
    is_tried: bool,
) -> set[int]:
    """Queue deliveries that we hold again; return those that were still ours.

    What no server was there to hear burns no attempt. Nothing waits beyond its expiry.
    """
    if not ids:
        return set()
    burnt = 0 if is_tried or was != DeliveryState.SENDING else 1
    moment = literal(due_at, db.UtcDateTime)
    putting = update(DELIVERY).where(holding(was, ids, lease))
    values = {
        "state": DeliveryState.QUEUED,
        "reason": reason[:500],
        "due_at": case((DELIVERY.c.expires_at < due_at, DELIVERY.c.expires_at), else_=moment),
        "attempts": DELIVERY.c.attempts - burnt,
        "lease": None,
        "leased_until": None,
    }
    return changed(session, putting.values(**values))


def next_try(delivery_id: int, attempts: int, now: datetime) -> datetime:
    """Return when to try again after so many attempts: after 5, 10, 20, ... minutes, up to an hour.

    Each delivery is up to a quarter early or late, so that a morning's refusals do not return as one.
    """
    backoff = min(FIRST_BACKOFF * 2 ** min(attempts - 1, 10), LONGEST_BACKOFF)
    spread = crc32(f"{delivery_id} {attempts}".encode()) / 2**32
    return now + timedelta(seconds=backoff.total_seconds() * (0.75 + spread / 2))


def withdraw(session: Session, dedupe_key: str, reason: str, *, now: datetime) -> None:
    """Take back a letter that still waits, if there is one of that key."""
    waiting = and_(DELIVERY.c.dedupe_key == dedupe_key, DELIVERY.c.state == DeliveryState.QUEUED)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now}
    changed(session, update(DELIVERY).where(waiting).values(**values))


def postpone(session: Session, *, lane: Lane, until: datetime, reason: str, now: datetime, limit: int) -> int:
    """Let due letters of a lane that nobody holds wait until then; return how many, at most `limit`.

    What is too late by now stays due, so that it ends here and now. Nothing waits beyond its expiry.
    """
    idle = (DELIVERY.c.state == DeliveryState.QUEUED, DELIVERY.c.due_at <= now, DELIVERY.c.expires_at > now)
    some = (
        select(DELIVERY.c.id)
        .where(IS_OPEN, DELIVERY.c.lane == lane, *idle)
        .order_by(DELIVERY.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    moment = literal(until, db.UtcDateTime)
    values = {
        "reason": reason[:500],
        "due_at": case((DELIVERY.c.expires_at < until, DELIVERY.c.expires_at), else_=moment),
    }
    return (
        session.connection()
        .execute(update(DELIVERY).where(DELIVERY.c.id.in_(some)).values(**values))
        .rowcount
    )


def hasten(session: Session, *, reason: str, now: datetime) -> int:
    """Make due again what waits for a reason that begins like this; return how many letters that are."""
    theirs = (DELIVERY.c.state == DeliveryState.QUEUED, DELIVERY.c.reason.startswith(reason, autoescape=True))
    hastening = update(DELIVERY).where(IS_OPEN, *theirs, DELIVERY.c.due_at > now)
    return session.connection().execute(hastening.values(due_at=now, reason="")).rowcount
