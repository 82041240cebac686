"""Decide when a letter in doubt is stuck; send it once more or give it up, as the operator decides."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.delivery.outbox.enqueue import LETTER_LIFE
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, fetch_ids

MAX_IN_DOUBT = 3  #: number of attempts in doubt after which a letter is stuck and the operator decides

GIVEN_UP = "given up by the operator: the letter may have arrived"


def stuck_ids(session: Session) -> list[int]:
    """Return the ids of all stuck deliveries."""
    return list(session.scalars(select(Delivery.id).where(Delivery.state == DeliveryState.STUCK)))


def retry_stuck(session: Session, ids: Collection[int], *, now: datetime) -> set[int]:
    """Requeue stuck deliveries for one more attempt, and return their ids.

    The bytes sent may differ from those of earlier attempts. The letter is sent even if its edition has
    ended, because the operator requested the attempt.
    """
    again = {
        "state": DeliveryState.QUEUED,
        "reason": "",
        "settled_at": None,
        "due_at": now,
        "content_hash": None,
        "in_doubt": case(
            (DELIVERY_TABLE.c.in_doubt >= MAX_IN_DOUBT, MAX_IN_DOUBT - 1), else_=DELIVERY_TABLE.c.in_doubt
        ),
        "expires_at": now + LETTER_LIFE,
    }
    return change_stuck(session, ids, again)


def give_up_stuck(session: Session, ids: Collection[int], *, now: datetime) -> set[int]:
    """End stuck deliveries as failed, and return their ids.

    Their papers still count as shown, because the letters may have arrived.
    """
    ended = {"state": DeliveryState.FAILED, "reason": GIVEN_UP, "settled_at": now}
    return change_stuck(session, ids, ended)


def change_stuck(session: Session, ids: Collection[int], values: dict[str, Any]) -> set[int]:
    """Set these columns of the given deliveries that are stuck, and return their ids."""
    is_stuck = (db.one_of(DELIVERY_TABLE.c.id, list(ids)), DELIVERY_TABLE.c.state == DeliveryState.STUCK)
    changing = update(DELIVERY_TABLE).where(*is_stuck).values(**values)
    return fetch_ids(session, changing.returning(DELIVERY_TABLE.c.id))
