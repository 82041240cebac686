"""Define the outbox tables and the conditions under which every change is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Executable, Update, and_, or_, text
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Attempt, Delivery, DeliveryState

#: Selects open deliveries, in the words of the partial index.
IS_OPEN = text("delivery.settled_at IS NULL")
OPEN_STATES = (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING)
#: The Core tables: statements on mapped classes check every object in the session.
DELIVERY_TABLE: Any = Delivery.__table__
ATTEMPT_TABLE: Any = Attempt.__table__


def is_due(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """Return the condition that a delivery must be worked on: open, due, and not leased."""
    return and_(IS_OPEN, is_ready(now))


def is_ready(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """Return the condition that an open delivery is due and not leased."""
    leased_until = DELIVERY_TABLE.c.leased_until
    return and_(DELIVERY_TABLE.c.due_at <= now, or_(leased_until.is_(None), leased_until <= now))


def held_under_lease(state: DeliveryState, ids: Collection[int], lease: str) -> ColumnElement[bool]:
    """Return the condition of every compare-and-set: in that state, and still under our lease."""
    return and_(
        db.one_of(DELIVERY_TABLE.c.id, ids), DELIVERY_TABLE.c.state == state, DELIVERY_TABLE.c.lease == lease
    )


def fetch_ids(session: Session, statement: Executable, given: Mapping[str, Any] = db.NO_VALUES) -> set[int]:
    """Return the ids that a statement finds or returns, in one driver call instead of one per id."""
    return set(session.connection().execute(statement, given).scalars().all())


def update_returning_ids(session: Session, updating: Update) -> set[int]:
    """Execute a compare-and-set and return the ids it changed."""
    return fetch_ids(session, updating.returning(DELIVERY_TABLE.c.id))
