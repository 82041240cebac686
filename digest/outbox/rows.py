"""The rows of the outbox: the tables themselves, and the conditions that every change is made under."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Executable, Update, and_, or_, text
from sqlalchemy.orm import Session

from digest import db
from digest.model import Attempt, Delivery, DeliveryState

#: The open deliveries, spelled as the partial index spells them.
IS_OPEN = text("delivery.settled_at IS NULL")
OPEN = (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING)
#: The tables themselves: what goes through the mapping looks at every object.
DELIVERY: Any = Delivery.__table__
ATTEMPT: Any = Attempt.__table__


def is_due(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """Return the condition that somebody must look at a delivery: open, its moment come, and in nobody's hands."""
    return and_(IS_OPEN, has_come(now))


def has_come(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """Return the condition that an open delivery's moment has come, and nobody holds it."""
    leased_until = DELIVERY.c.leased_until
    return and_(DELIVERY.c.due_at <= now, or_(leased_until.is_(None), leased_until <= now))


def holding(state: DeliveryState, ids: Collection[int], lease: str) -> ColumnElement[bool]:
    """Return the condition of every compare-and-set: in that state, and still under our lease."""
    ours = db.among(DELIVERY.c.id, ids)
    return and_(ours, DELIVERY.c.state == state, DELIVERY.c.lease == lease)


def fetched(session: Session, statement: Executable, given: Mapping[str, Any] = db.NOTHING) -> set[int]:
    """Return the ids that a statement finds or returns: all at once, for one by one each is a call of the driver."""
    return set(session.connection().execute(statement, given).scalars().all())


def changed(session: Session, updating: Update) -> set[int]:
    """Carry out a compare-and-set and return the ids it changed."""
    returning = updating.returning(DELIVERY.c.id)
    return fetched(session, returning)
