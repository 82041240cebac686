"""Count the due deliveries of a lane, and the deliveries in each state."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables import Delivery, DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, is_due


def count_due(session: Session, *, lane: Lane, now: datetime, limit: int = 1) -> int:
    """Return the number of due deliveries in a lane, counting at most `limit`."""
    due = select(DELIVERY_TABLE.c.id).where(DELIVERY_TABLE.c.lane == lane, is_due(now)).limit(limit)
    return session.execute(select(func.count()).select_from(due.subquery())).scalar_one()


def count_by_state(session: Session) -> dict[DeliveryState, int]:
    """Return the number of deliveries in each state, including states without deliveries."""
    found = session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
    count_of = {DeliveryState(state): number for state, number in found}
    return {state: count_of.get(state, 0) for state in DeliveryState}
