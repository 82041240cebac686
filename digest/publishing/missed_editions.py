"""Record the editions that closed before any run published them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import DeliveryState
from digest.delivery.outbox import enqueue
from digest.editions.compose import Digest
from digest.editions.schedule import Edition, ScheduleStatus
from digest.publishing.reader_values import Reader

#: The reason recorded for an edition that no run published before it closed.
CLOSED = "nothing was published before it closed; its papers go into the next edition"


def record_missed_editions(
    session: Session, readers: Iterable[Reader], slots: Mapping[int, ScheduleStatus], *, now: datetime
) -> int:
    """Record these readers' missed editions as expired; return the number of editions recorded."""
    by_edition: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for reader in readers:
        for edition in slots[reader.id].missed:
            by_edition[edition.name].append(expired_row(reader.id, reader.email, edition, now, reason=CLOSED))
    return sum(len(enqueue.queue_digests(session, rows)) for rows in by_edition.values())


def expired_row(
    subscriber_id: int, email: str, edition: Edition, now: datetime, *, reason: str
) -> dict[str, Any]:
    """Return the delivery row of an edition that was not sent.

    The edition covers no papers, so later editions still consider the papers new.
    """
    return {
        "subscriber_id": subscriber_id,
        "email": email,
        "edition": edition.name,
        "decision": Digest(sections=(), checked=0).to_json(),
        "dated_at": now,
        "state": DeliveryState.EXPIRED,
        "reason": reason,
        "due_at": edition.due_at,
        "expires_at": edition.closes_at,
        "settled_at": now,
    }
