"""Looking: what waits, and what became of the rest."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.model import Delivery, DeliveryState, Lane
from digest.outbox.rows import DELIVERY, is_due


def waiting(session: Session, *, lane: Lane, now: datetime, at_most: int = 1) -> int:
    """Return how many deliveries of a lane are due, counting no further than `at_most`."""
    some = select(DELIVERY.c.id).where(DELIVERY.c.lane == lane, is_due(now)).limit(at_most)
    return session.execute(select(func.count()).select_from(some.subquery())).scalar_one()


def counts(session: Session) -> dict[DeliveryState, int]:
    """Return how many deliveries are in each state; every state is named."""
    found = session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
    numbers = {DeliveryState(state): number for state, number in found}
    return {state: numbers.get(state, 0) for state in DeliveryState}


def listing(
    session: Session,
    *,
    state: DeliveryState | None = None,
    email: str | None = None,
    limit: int | None = None,
) -> list[Delivery]:
    """Return deliveries, newest first."""
    query = select(Delivery).order_by(Delivery.id.desc()).limit(limit)
    if state is not None:
        query = query.where(Delivery.state == state)
    if email is not None:
        query = query.where(func.lower(Delivery.email) == email.lower())
    return list(session.scalars(query))
