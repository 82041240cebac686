"""Withdraw, expire, erase and readdress letters in the outbox."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import String, cast, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN
from digest.delivery.outbox.planned_letters import PlannedLetter
from digest.delivery.outbox.transitions import NO_LEASE
from digest.editions.compose import Digest

NO_DIGEST = Digest(sections=(), checked=0).to_json()


def withdraw_letter(session: Session, letter: PlannedLetter, reason: str, *, now: datetime) -> None:
    """Withdraw a letter if it is still queued."""
    waiting = (DELIVERY_TABLE.c.dedupe_key == letter.key, DELIVERY_TABLE.c.state == DeliveryState.QUEUED)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now}
    session.connection().execute(update(DELIVERY_TABLE).where(*waiting).values(**values))


def withdraw_letters(session: Session, subscriber_id: int, letter: str, reason: str, *, now: datetime) -> int:
    """Withdraw a subscriber's queued prompt letters of one kind; return their number.

    Their dedupe keys can be used again.
    """
    table = DELIVERY_TABLE.c
    waiting = (
        table.subscriber_id == subscriber_id,
        table.letter == letter,
        table.lane == Lane.PROMPT,
        table.state == DeliveryState.QUEUED,
    )
    key = table.dedupe_key + literal("-withdrawn-") + cast(table.id, String)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now, "dedupe_key": key}
    return session.connection().execute(update(DELIVERY_TABLE).where(*waiting).values(**values)).rowcount


def has_queued_letter(session: Session, subscriber_id: int, letter: str) -> bool:
    """Return whether a letter of this kind to the subscriber has not been sent yet."""
    table = DELIVERY_TABLE.c
    waiting = select(table.id).where(table.subscriber_id == subscriber_id, table.letter == letter, IS_OPEN)
    return session.scalar(waiting.limit(1)) is not None


def expire_open(session: Session, reason: str, *, now: datetime) -> int:
    """End all open deliveries as expired, even leased ones, and return their number."""
    ended = {"state": DeliveryState.EXPIRED, "reason": reason, "settled_at": now, **NO_LEASE}
    return session.connection().execute(update(DELIVERY_TABLE).where(IS_OPEN).values(**ended)).rowcount


def forget_recipient(session: Session, ids: Collection[int], *, now: datetime) -> None:
    """Withdraw those of these deliveries that are unsent, and erase the recipient and content of all of them."""
    unsent = DELIVERY_TABLE.c.state.in_((DeliveryState.QUEUED, DeliveryState.CLAIMED))
    ended = {"state": DeliveryState.SUPPRESSED, "settled_at": now, **NO_LEASE}
    nobody = {"email": None, "subscriber_id": None, "reason": "erased"}
    changing = update(DELIVERY_TABLE).where(db.one_of(DELIVERY_TABLE.c.id, ids))
    session.connection().execute(changing.where(unsent).values(**ended))
    session.connection().execute(changing.values(decision=NO_DIGEST, **nobody))
    is_letter = DELIVERY_TABLE.c.edition.is_(None)
    session.connection().execute(changing.where(is_letter).values(decision="{}"))


def readdress_queued(session: Session, subscriber_id: int, *, old: str, new: str) -> None:
    """Change the address of a subscriber's queued letters; letters in doubt keep the old address.

    The bytes of a letter in doubt must not change.
    """
    waiting = (
        DELIVERY_TABLE.c.subscriber_id == subscriber_id,
        DELIVERY_TABLE.c.email == old,
        DELIVERY_TABLE.c.state == DeliveryState.QUEUED,
        DELIVERY_TABLE.c.in_doubt == 0,
    )
    session.connection().execute(update(DELIVERY_TABLE).where(IS_OPEN, *waiting).values(email=new))
