"""End or requeue several letters alike."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import DeliveryState
from digest.delivery.outbox import transitions
from digest.delivery.outbox.transitions import Ending


def settle(
    session: Session,
    ids: Iterable[int],
    state: DeliveryState,
    reason: str = "",
    *,
    from_state: DeliveryState,
    lease: str,
    now: datetime,
) -> set[int]:
    """End letters that we hold; return the ids of those that we still held."""
    endings = [Ending(id=each, state=state, reason=reason) for each in ids]
    return transitions.settle(session, endings, was=from_state, lease=lease, now=now)


def release(
    session: Session,
    ids: Iterable[int],
    reason: str = "",
    *,
    from_state: DeliveryState,
    lease: str,
    due_at: datetime,
    counts_as_attempt: bool,
) -> set[int]:
    """Requeue letters that we hold; return the ids of those that we still held."""
    queued, tried = DeliveryState.QUEUED, counts_as_attempt
    endings = [Ending(id=each, state=queued, reason=reason, due_at=due_at, was_tried=tried) for each in ids]
    return transitions.settle(session, endings, was=from_state, lease=lease, now=due_at)
