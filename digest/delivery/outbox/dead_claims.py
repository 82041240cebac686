"""Requeue the letters that a dead process had claimed.

Nothing was sent of a claimed letter, so it need not wait for the end of its lease.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN
from digest.delivery.outbox.transitions import NO_LEASE
from digest.process import heartbeats

IS_CLAIMED = DELIVERY_TABLE.c.state == DeliveryState.CLAIMED


def release_dead_claims(session: Session, *, dead_machines: Collection[str]) -> int:
    """Requeue the letters claimed by dead processes of this machine or of `dead_machines`; return their number.

    The leases are found by reading all open deliveries, so call this only when a process starts or has died.
    If the process is alive after all, it loses its claims and sends none of these letters.
    """
    leases = session.scalars(select(DELIVERY_TABLE.c.lease).where(IS_OPEN, IS_CLAIMED).distinct()).all()
    dead = [lease for lease in leases if heartbeats.is_lease_of_dead(lease, dead_machines)]
    if not dead:
        return 0
    requeuing = update(DELIVERY_TABLE).where(IS_OPEN, IS_CLAIMED, db.one_of(DELIVERY_TABLE.c.lease, dead))
    return session.connection().execute(requeuing.values(state=DeliveryState.QUEUED, **NO_LEASE)).rowcount
