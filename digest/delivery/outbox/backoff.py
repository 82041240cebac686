"""Postpone, withdraw, expire, erase and readdress deliveries, and make waiting deliveries due."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from zlib import crc32

from sqlalchemy import literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN
from digest.delivery.outbox.transitions import NO_LEASE, no_later_than_expiry
from digest.editions.compose import Digest

FIRST_BACKOFF = timedelta(minutes=5)
MAX_BACKOFF = timedelta(hours=1)
NO_DIGEST = Digest(sections=(), checked=0).to_json()
MAX_IN_DOUBT = 3  #: number of attempts in doubt after which a letter is stuck and the operator decides


def next_attempt_at(delivery_id: int, attempts: int, now: datetime) -> datetime:
    """Return the time of the next attempt: the wait starts at 5 minutes and doubles up to an hour.

    Up to 25 % is added to each wait, to spread deferred letters over time. A wait is never shortened, because
    a server that greylists for five minutes would defer the letter again.
    """
    backoff = min(FIRST_BACKOFF * 2 ** min(attempts - 1, 10), MAX_BACKOFF)
    spread = crc32(f"{delivery_id} {attempts}".encode()) / 2**32
    return now + timedelta(seconds=backoff.total_seconds() * (1 + spread / 4))


def withdraw_letter(session: Session, dedupe_key: str, reason: str, *, now: datetime) -> None:
    """Withdraw the letter with this dedupe key if it is still queued."""
    waiting = (DELIVERY_TABLE.c.dedupe_key == dedupe_key, DELIVERY_TABLE.c.state == DeliveryState.QUEUED)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now}
    session.connection().execute(update(DELIVERY_TABLE).where(*waiting).values(**values))


def expire_open(session: Session, reason: str, *, now: datetime) -> int:
    """End all open deliveries as expired, even leased ones, and return their number."""
    ended = {"state": DeliveryState.EXPIRED, "reason": reason, "settled_at": now, **NO_LEASE}
    return session.connection().execute(update(DELIVERY_TABLE).where(IS_OPEN).values(**ended)).rowcount


def forget_recipient(session: Session, ids: Collection[int], *, now: datetime) -> None:
    """Withdraw the unsent deliveries among these, and erase recipient and content of all the deliveries."""
    unsent = DELIVERY_TABLE.c.state.in_((DeliveryState.QUEUED, DeliveryState.CLAIMED))
    ended = {"state": DeliveryState.SUPPRESSED, "settled_at": now, **NO_LEASE}
    nobody = {"email": None, "subscriber_id": None, "reason": "erased"}
    changing = update(DELIVERY_TABLE).where(db.one_of(DELIVERY_TABLE.c.id, ids))
    session.connection().execute(changing.where(unsent).values(**ended))
    session.connection().execute(changing.values(decision=NO_DIGEST, **nobody))
    is_letter = DELIVERY_TABLE.c.edition.is_(None)
    session.connection().execute(changing.where(is_letter).values(decision="{}"))


def readdress_queued(session: Session, subscriber_id: int, *, old: str, new: str) -> None:
    """Send a subscriber's queued letters to a new address; letters in doubt keep the old address.

    The bytes of a letter in doubt must not change.
    """
    waiting = (
        DELIVERY_TABLE.c.subscriber_id == subscriber_id,
        DELIVERY_TABLE.c.email == old,
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.in_doubt == 0,
    )
    session.connection().execute(update(DELIVERY_TABLE).where(IS_OPEN, *waiting).values(email=new))


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
    due_at = no_later_than_expiry(literal(until, db.UtcDateTime))
    postponing = update(DELIVERY_TABLE).where(DELIVERY_TABLE.c.id.in_(idle_ids))
    return session.connection().execute(postponing.values(reason=reason[:500], due_at=due_at)).rowcount


def make_due(session: Session, *, reason: str, now: datetime) -> int:
    """Make every letter whose wait reason begins with `reason` due now; return the number of letters."""
    waiting = (
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.reason.startswith(reason, autoescape=True),
    )
    hastening = update(DELIVERY_TABLE).where(IS_OPEN, *waiting, DELIVERY_TABLE.c.due_at > now)
    return session.connection().execute(hastening.values(due_at=now, reason="")).rowcount
