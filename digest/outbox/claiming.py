"""Claiming: due deliveries are taken under a lease, and taken up again when it is over."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Integer, Select, Update, bindparam, case, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Attempt, DeliveryState, Lane
from digest.outbox.evidence import Tried, keep_attempts
from digest.outbox.rows import DELIVERY, OPEN, fetched, has_come, is_due

LEASE = timedelta(seconds=900)  #: longer than any task may run, and than a server may think
FRESH = timedelta(seconds=60)  #: for so long a lease is as good as a new one


class Claimed(NamedTuple):
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
    reason: str  #: what it waited for last
    lease: str
    leased_until: datetime

    @property
    def identity(self) -> str:
        """Return what makes this letter itself: its Message-ID is derived from it."""
        return self.dedupe_key or f"{self.subscriber_id}|{self.edition}"


FIELDS = tuple(DELIVERY.c[name] for name in Claimed._fields if name not in {"lease", "leased_until"})


def claim(session: Session, *, lane: Lane, now: datetime, limit: int) -> list[Claimed]:
    """Take up to `limit` due deliveries under one new lease.

    One whose lease is over is taken up again: clean if nothing had been sent, else with one more doubt.
    """
    with db.in_order(session):
        found = session.connection().execute(DUE, {"lane": lane, "now": now, "most": limit}).all()
    lease, until = token_hex(16), now + LEASE
    ours = take(session, [row[0] for row in found], lease=lease, now=now)
    taken = [row for row in found if row[0] in ours]
    for row in taken:
        if row.state == DeliveryState.SENDING:
            keep_vanished(session, row, now=now)
    return [claimed(row, lease, until) for row in taken]


def finding() -> Select[Any]:
    """Return the query for due deliveries, put together once; on PostgreSQL it passes over those that others look at.

    It orders by `due_at` alone: a morning's million digests share that moment, and a second column would
    make PostgreSQL sort them all for every claim.
    """
    now = bindparam("now", type_=db.UtcDateTime)
    return (
        select(*FIELDS, DELIVERY.c.state, DELIVERY.c.lease, DELIVERY.c.leased_until)
        .where(DELIVERY.c.lane == bindparam("lane"), is_due(now))
        .order_by(DELIVERY.c.due_at)
        .limit(bindparam("most", type_=Integer))
        .with_for_update(skip_locked=True)
    )


DUE = finding()


def take(session: Session, ids: Collection[int], *, lease: str, now: datetime) -> set[int]:
    """Put these deliveries under our lease and return those that nobody else had taken or moved.

    Open is spelled by its states: by the index of the open ones PostgreSQL would read all that are due.
    """
    if not ids:
        return set()
    given = {"ids": ids, "token": lease, "until": now + LEASE, "now": now}
    return fetched(session, TAKING, given)


def taking() -> Update:
    """Return the statement of `take`, put together once: that takes as long as sending it."""
    doubt = case((DELIVERY.c.state == DeliveryState.SENDING, 1), else_=0)
    these = db.among(DELIVERY.c.id, db.many("ids", DELIVERY.c.id))
    values = {
        "state": DeliveryState.CLAIMED,
        "lease": bindparam("token"),
        "leased_until": bindparam("until"),
        "in_doubt": DELIVERY.c.in_doubt + doubt,
    }
    now = bindparam("now", type_=db.UtcDateTime)
    open_ones = update(DELIVERY).where(these, DELIVERY.c.state.in_(OPEN), has_come(now))
    return open_ones.values(**values).returning(DELIVERY.c.id)


TAKING = taking()


def claimed(row: Any, lease: str, leased_until: datetime) -> Claimed:
    """Return a row as it is once it is claimed."""
    found = Claimed._make((*row[:-3], lease, leased_until))
    return found._replace(in_doubt=found.in_doubt + 1) if row[-3] == DeliveryState.SENDING else found


def renewed(leased_until: datetime, now: datetime) -> datetime:
    """Return until when we hold a lease from now on; one taken just now stays as it is."""
    return leased_until if leased_until > now + LEASE - FRESH else now + LEASE


def keep_vanished(session: Session, row: Any, *, now: datetime) -> None:
    """Keep an attempt in doubt for a delivery whose holder died without telling of it."""
    told = select(Attempt.id).where(Attempt.delivery_id == row.id, Attempt.lease == row.lease)
    if session.execute(told).first() is None:
        lost = Tried(row.id, row.leased_until - LEASE, "in doubt", reply="the worker died while sending")
        keep_attempts(session, [lost], lease=row.lease, now=now)
