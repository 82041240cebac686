"""Define the outbox tables, and the conditions for open and for due deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Executable, and_, or_, text
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, Delivery

#: Selects open deliveries; the text must equal the condition of the partial index.
IS_OPEN = text("delivery.settled_at IS NULL")
#: Statements use these tables, because statements on mapped classes check every object in the session.
DELIVERY_TABLE: Any = Delivery.__table__
ATTEMPT_TABLE: Any = Attempt.__table__


def is_due(now: datetime | BindParameter[datetime]) -> ColumnElement[bool]:
    """Return the condition for a due delivery: open, past its due time, and not leased."""
    leased_until = DELIVERY_TABLE.c.leased_until
    is_free = or_(leased_until.is_(None), leased_until <= now)
    return and_(IS_OPEN, DELIVERY_TABLE.c.due_at <= now, is_free)


def fetch_ids(session: Session, statement: Executable, given: Mapping[str, Any] = db.NO_VALUES) -> set[int]:
    """Return the ids that a statement selects or returns, fetched with a single driver call."""
    return set(session.connection().execute(statement, given).scalars().all())
