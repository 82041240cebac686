"""Compute the wait before the next attempt, postpone waiting letters, and make them due."""

from __future__ import annotations

from datetime import datetime, timedelta
from zlib import crc32

from sqlalchemy import case, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN

FIRST_BACKOFF = timedelta(minutes=5)
MAX_BACKOFF = timedelta(hours=1)


def next_attempt_at(delivery_id: int, attempts: int, now: datetime) -> datetime:
    """Return the time of the next attempt: the wait starts at 5 minutes and doubles up to an hour.

    Up to 25% is added to each wait, to spread deferred letters over time. A wait is never shortened, because
    a server that greylists for five minutes would defer the letter again.
    """
    backoff = min(FIRST_BACKOFF * 2 ** min(attempts - 1, 10), MAX_BACKOFF)
    spread = crc32(f"{delivery_id} {attempts}".encode()) / 2**32
    return now + timedelta(seconds=backoff.total_seconds() * (1 + spread / 4))


def postpone(session: Session, *, lane: Lane, until: datetime, reason: str, now: datetime, limit: int) -> int:
    """Postpone up to `limit` due letters of a lane that are not leased; return their number.

    No letter is postponed beyond its expiry. A letter that has already expired stays due, so that the next
    claim ends it.
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
    due_at = case((DELIVERY_TABLE.c.expires_at < moment, DELIVERY_TABLE.c.expires_at), else_=moment)
    postponing = update(DELIVERY_TABLE).where(DELIVERY_TABLE.c.id.in_(idle_ids))
    return session.connection().execute(postponing.values(reason=reason[:500], due_at=due_at)).rowcount


def make_due(session: Session, *, reason: str, now: datetime) -> int:
    """Make every letter that waits for a reason beginning with `reason` due now; return the number of letters."""
    waiting = (
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.reason != "",
        DELIVERY_TABLE.c.reason.startswith(reason, autoescape=True),
    )
    hastening = update(DELIVERY_TABLE).where(IS_OPEN, *waiting, DELIVERY_TABLE.c.due_at > now)
    return session.connection().execute(hastening.values(due_at=now, reason="")).rowcount
