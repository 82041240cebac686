"""Postpone deliveries, withdraw them, and make them due again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from zlib import crc32

from sqlalchemy import and_, case, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import (
    DELIVERY_TABLE,
    IS_OPEN,
    held_under_lease,
    update_returning_ids,
)

FIRST_BACKOFF = timedelta(minutes=5)
MAX_BACKOFF = timedelta(hours=1)


def requeue(
    session: Session,
    ids: Collection[int],
    reason: str = "",
    *,
    from_state: DeliveryState,
    lease: str,
    due_at: datetime,
    counts_as_attempt: bool,
) -> set[int]:
    """Queue deliveries that we hold again; return the ids that we still held.

    What no server received uses up no attempt. Nothing is postponed beyond its expiry.
    """
    if not ids:
        return set()
    unused = 0 if counts_as_attempt or from_state != DeliveryState.SENDING else 1
    moment = literal(due_at, db.UtcDateTime)
    queueing = update(DELIVERY_TABLE).where(held_under_lease(from_state, ids, lease))
    values = {
        "state": DeliveryState.QUEUED,
        "reason": reason[:500],
        "due_at": case((DELIVERY_TABLE.c.expires_at < due_at, DELIVERY_TABLE.c.expires_at), else_=moment),
        "attempts": DELIVERY_TABLE.c.attempts - unused,
        "lease": None,
        "leased_until": None,
    }
    return update_returning_ids(session, queueing.values(**values))


def next_attempt_at(delivery_id: int, attempts: int, now: datetime) -> datetime:
    """Return when to try again after that many attempts: after 5, 10, 20, ... minutes, at most an hour.

    Each wait is up to a quarter longer, so that a morning's deferrals do not return at once. None is
    shorter: a server that greylists for five minutes would defer the letter again.
    """
    backoff = min(FIRST_BACKOFF * 2 ** min(attempts - 1, 10), MAX_BACKOFF)
    spread = crc32(f"{delivery_id} {attempts}".encode()) / 2**32
    return now + timedelta(seconds=backoff.total_seconds() * (1 + spread / 4))


def withdraw_letter(session: Session, dedupe_key: str, reason: str, *, now: datetime) -> None:
    """Withdraw the letter with that key if it is still queued."""
    waiting = and_(DELIVERY_TABLE.c.dedupe_key == dedupe_key, DELIVERY_TABLE.c.state == DeliveryState.QUEUED)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now}
    update_returning_ids(session, update(DELIVERY_TABLE).where(waiting).values(**values))


def postpone(session: Session, *, lane: Lane, until: datetime, reason: str, now: datetime, limit: int) -> int:
    """Postpone due letters of a lane that nobody has leased; return how many, at most `limit`.

    A letter that has expired stays due, so that it ends at once. Nothing is postponed beyond its expiry.
    """
    idle = (
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.due_at <= now,
        DELIVERY_TABLE.c.expires_at > now,
    )
    idle_ids = (
        select(DELIVERY_TABLE.c.id)
        .where(IS_OPEN, DELIVERY_TABLE.c.lane == lane, *idle)
        .order_by(DELIVERY_TABLE.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    moment = literal(until, db.UtcDateTime)
    values = {
        "reason": reason[:500],
        "due_at": case((DELIVERY_TABLE.c.expires_at < until, DELIVERY_TABLE.c.expires_at), else_=moment),
    }
    return (
        session.connection()
        .execute(update(DELIVERY_TABLE).where(DELIVERY_TABLE.c.id.in_(idle_ids)).values(**values))
        .rowcount
    )


def make_due(session: Session, *, reason: str, now: datetime) -> int:
    """Make letters due now whose reason begins with this text; return how many."""
    waiting = (
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.reason.startswith(reason, autoescape=True),
    )
    hastening = update(DELIVERY_TABLE).where(IS_OPEN, *waiting, DELIVERY_TABLE.c.due_at > now)
    return session.connection().execute(hastening.values(due_at=now, reason="")).rowcount
