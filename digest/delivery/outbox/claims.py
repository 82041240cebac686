"""Claim due deliveries under a lease, and claim them again when their lease ends."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Integer, Select, Update, bindparam, case, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Attempt, DeliveryState, Lane
from digest.delivery.outbox.attempts import AttemptRecord, record_attempts
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, OPEN_STATES, fetch_ids, is_due, is_ready

LEASE = timedelta(seconds=900)  #: longer than any task may run, and than a server may take to reply
RENEW_AFTER = timedelta(seconds=60)  #: a younger lease is not renewed


class ClaimedDelivery(NamedTuple):
    """A delivery that we hold under a lease: what is needed to render it and to give it back."""

    id: int
    subscriber_id: int | None
    email: str | None
    letter: str
    edition: str | None
    dedupe_key: str | None
    decision: str
    press: str | None
    key_id: str
    dated_at: datetime
    expires_at: datetime
    attempts: int
    in_doubt: int
    message_id: str | None
    content_hash: str | None
    reason: str  #: what it last waited for
    lease: str
    leased_until: datetime

    @property
    def identity(self) -> str:
        """Return what identifies this letter; its Message-ID is derived from it."""
        return self.dedupe_key or f"{self.subscriber_id}|{self.edition}"


CLAIMED_COLUMNS = tuple(
    DELIVERY_TABLE.c[name] for name in ClaimedDelivery._fields if name not in {"lease", "leased_until"}
)


def claim(session: Session, *, lane: Lane, now: datetime, limit: int) -> list[ClaimedDelivery]:
    """Claim up to `limit` due deliveries under one new lease.

    A delivery whose lease has ended is claimed again: unchanged if nothing had been sent, else with
    `in_doubt` one higher.
    """
    with db.prefer_index_order(session):
        found = session.connection().execute(DUE_QUERY, {"lane": lane, "now": now, "most": limit}).all()
    lease, until = token_hex(16), now + LEASE
    leased = lease_deliveries(session, [row[0] for row in found], lease=lease, now=now)
    taken = [row for row in found if row[0] in leased]
    for row in taken:
        if row.state == DeliveryState.SENDING:
            record_vanished_attempt(session, row, now=now)
    return [claimed_delivery(row, lease, until) for row in taken]


def due_query() -> Select[Any]:
    """Return the query for due deliveries, built once; on PostgreSQL it skips rows that others have locked.

    It orders by `due_at` alone: a morning's million digests share that moment, and a second column would
    make PostgreSQL sort them all for every claim.
    """
    now = bindparam("now", type_=db.UtcDateTime)
    return (
        select(
            *CLAIMED_COLUMNS, DELIVERY_TABLE.c.state, DELIVERY_TABLE.c.lease, DELIVERY_TABLE.c.leased_until
        )
        .where(DELIVERY_TABLE.c.lane == bindparam("lane"), is_due(now))
        .order_by(DELIVERY_TABLE.c.due_at)
        .limit(bindparam("most", type_=Integer))
        .with_for_update(skip_locked=True)
    )


DUE_QUERY = due_query()


def lease_deliveries(session: Session, ids: Collection[int], *, lease: str, now: datetime) -> set[int]:
    """Lease these deliveries and return the ids of those that nobody else had leased or changed.

    Open deliveries are selected by state: with the index of open deliveries PostgreSQL would read all that
    are due.
    """
    if not ids:
        return set()
    given = {"ids": ids, "token": lease, "until": now + LEASE, "now": now}
    return fetch_ids(session, LEASE_STATEMENT, given)


def lease_statement() -> Update:
    """Return the statement of `lease_deliveries`, built once: building it takes as long as sending it."""
    doubt = case((DELIVERY_TABLE.c.state == DeliveryState.SENDING, 1), else_=0)
    among = db.one_of(DELIVERY_TABLE.c.id, db.values_param("ids", DELIVERY_TABLE.c.id))
    values = {
        "state": DeliveryState.CLAIMED,
        "lease": bindparam("token"),
        "leased_until": bindparam("until"),
        "in_doubt": DELIVERY_TABLE.c.in_doubt + doubt,
    }
    now = bindparam("now", type_=db.UtcDateTime)
    leasing = update(DELIVERY_TABLE).where(among, DELIVERY_TABLE.c.state.in_(OPEN_STATES), is_ready(now))
    return leasing.values(**values).returning(DELIVERY_TABLE.c.id)


LEASE_STATEMENT = lease_statement()


def claimed_delivery(row: Any, lease: str, leased_until: datetime) -> ClaimedDelivery:
    """Return the row of a due delivery as it is after the claim."""
    found = ClaimedDelivery._make((*row[:-3], lease, leased_until))
    return found._replace(in_doubt=found.in_doubt + 1) if row[-3] == DeliveryState.SENDING else found


def renewed_lease(leased_until: datetime, now: datetime) -> datetime:
    """Return until when we hold a lease that is renewed now; one taken within the last minute is not
    extended.
    """
    return leased_until if leased_until > now + LEASE - RENEW_AFTER else now + LEASE


def record_vanished_attempt(session: Session, row: Any, *, now: datetime) -> None:
    """Store an attempt in doubt for a delivery whose worker died without recording one."""
    recorded = select(Attempt.id).where(Attempt.delivery_id == row.id, Attempt.lease == row.lease)
    if session.execute(recorded).first() is None:
        attempt = AttemptRecord(
            row.id, row.leased_until - LEASE, "in doubt", reply="the worker died while sending"
        )
        record_attempts(session, [attempt], lease=row.lease, now=now)
