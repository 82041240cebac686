"""Define the transitions of a delivery.

 queued ──claim──▶ claimed ──intend──▶ sending ──settle──▶ sent, failed, ...   renew: held for longer
   ▲  ▲               │  │                │  │
   │  └──settle: back─┘  └─settle: not sent  │   (also by `release_dead_claims`, if the worker has died)
   │  └──settle: deferred, or not begun──────┘
   └──sweep, when the lease has ended: from claimed unchanged, from sending with one more doubt

Every transition by a worker after its claim is a compare-and-set on (id, state, lease), so a worker that lost
its lease changes nothing. The caller commits; an intent must be committed before the first byte is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    TextClause,
    and_,
    bindparam,
    case,
    select,
    text,
    update,
)
from sqlalchemy.orm import Session

from digest import db
from digest.bounces.suppressions import OWNER_CAN_LIFT
from digest.db.tables.deliveries import Attempt, DeliveryState, Lane
from digest.delivery.outbox.attempts import AttemptRecord, record_attempts
from digest.delivery.outbox.new_rows import json_rows, moment_text, new_rows
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN, fetch_ids, is_due
from digest.delivery.outbox.recipients import recipient_version
from digest.process import heartbeats

#: Length of a lease. It must exceed the time limits of tasks and of server replies.
LEASE = timedelta(seconds=900)
RENEW_AFTER = timedelta(seconds=60)  #: a lease that began more recently than this is not renewed


class ClaimedDelivery(NamedTuple):
    """A delivery that we hold under a lease, with the columns needed to render and to release it."""

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
    reason: str  #: the reason for its last wait
    lease: str
    leased_until: datetime

    @property
    def identity(self) -> str:
        """Return the text that identifies this letter and from which its Message-ID is derived."""
        return self.dedupe_key or f"{self.subscriber_id}|{self.edition}"


class Intent(Struct, frozen=True, kw_only=True):
    """The intent to send a letter, stored before the first byte is sent and compared on every retry."""

    id: int
    message_id: str
    content_hash: str
    recipient_version: str = ""  #: version of the recipient's row when last read; if empty, not checked
    address_hash: str = ""  #: the key in the suppression list; if empty, not checked
    lifts_suppression: bool = False  #: whether only suppressions that an owner cannot lift block the letter


class Ending(Struct, frozen=True, kw_only=True):
    """What becomes of a letter that we hold.

    A queued letter is due again at `due_at`, or at its expiry if that is earlier. A letter that is still being
    sent is in doubt, and keeps its lease.
    """

    id: int
    state: DeliveryState
    reason: str = ""
    due_at: datetime | None = None
    was_tried: bool = True  #: if not, an attempt that the intent counted is not used up
    provider_id: str | None = None


def claim(session: Session, *, lane: Lane, now: datetime, limit: int) -> list[ClaimedDelivery]:
    """Claim up to `limit` due deliveries under one new lease, after sweeping the deliveries of dead workers."""
    with db.prefer_index_order(session):
        given = {"lane": lane, "now": now, "most": limit}
        due = session.connection().execute(DUE_QUERY, given).all()
    sweep(session, [row.id for row in due if row.state != DeliveryState.QUEUED], now=now)
    lease, until = heartbeats.new_lease(), now + LEASE
    leased = change(session, CLAIM_STATEMENT, [row.id for row in due], token=lease, until=until)
    return [claimed_delivery(row, lease, until) for row in due if row.id in leased]


def sweep(session: Session, ids: Collection[int], *, now: datetime) -> set[int]:
    """Requeue the deliveries among these whose lease has ended, and return their ids.

    If no intent was committed, nothing else changes. Otherwise one more attempt of the delivery counts as
    in doubt, and is recorded unless the worker recorded it.
    """
    given = {"ids": ids, "now": now}
    for row in session.connection().execute(ABANDONED_QUERY, given).all() if ids else ():
        record_vanished_attempt(session, row, now=now)
    return change(session, SWEEP_STATEMENT, ids, now=now)


def renew(session: Session, ids: Collection[int], *, lease: str, until: datetime) -> set[int]:
    """Extend to `until` the lease of deliveries without an intent; return the ids that we still held."""
    return change(session, RENEW_STATEMENT, ids, held_under=lease, until=until)


def intend(session: Session, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
    """Record the intent to send these letters; return the ids of those that may be sent until `until`.

    A letter is blocked if its recipient has changed since it was rendered, or is suppressed.
    """
    if not intents:
        return set()
    given = {"new": json_rows(intents), "lease": lease, "until": until}
    return fetch_ids(session, intend_statement(db.dialect_name(session)), given)


def settle(
    session: Session, endings: Sequence[Ending], *, was: DeliveryState, lease: str, now: datetime
) -> set[int]:
    """End or requeue letters that we hold in the state `was`; return the ids that we still held."""
    if not endings:
        return set()
    is_intended = was == DeliveryState.SENDING
    rows = [
        {
            "id": each.id,
            "state": each.state,
            "reason": each.reason[:500],
            "due_at": each.due_at and moment_text(each.due_at),
            "unused": int(is_intended and not each.was_tried),
            "provider_id": each.provider_id,
        }
        for each in endings
    ]
    given = {"new": json_rows(rows), "was": was.value, "lease": lease, "now": now}
    return fetch_ids(session, settle_statement(db.dialect_name(session)), given)


def change(session: Session, statement: Executable, ids: Collection[int], **given: Any) -> set[int]:
    """Execute a statement that changes deliveries with these ids; return the ids of the changed ones."""
    return fetch_ids(session, statement, {"ids": ids, **given}) if ids else set()


# ── the statements, built once because building one takes as long as sending it ────────

NOW, UNTIL = (bindparam(name, type_=db.UtcDateTime) for name in ("now", "until"))
AMONG_IDS = db.one_of(DELIVERY_TABLE.c.id, db.values_param("ids", DELIVERY_TABLE.c.id))
NO_LEASE: dict[str, Any] = {"lease": None, "leased_until": None}
IS_ABANDONED = and_(
    AMONG_IDS,
    DELIVERY_TABLE.c.state.in_((DeliveryState.CLAIMED, DeliveryState.SENDING)),
    DELIVERY_TABLE.c.leased_until <= NOW,
)
IS_CLAIMED = DELIVERY_TABLE.c.state == DeliveryState.CLAIMED
CLAIMED_COLUMNS = tuple(
    DELIVERY_TABLE.c[name] for name in ClaimedDelivery._fields if name not in {"lease", "leased_until"}
)


def changing(condition: ColumnElement[bool], **values: Any) -> Any:
    """Return the statement that changes deliveries and returns their ids."""
    return update(DELIVERY_TABLE).where(condition).values(**values).returning(DELIVERY_TABLE.c.id)


#: The query for due deliveries; on PostgreSQL it skips locked rows. It sorts by `due_at` alone: all digests of
#: a morning have the same `due_at`, and PostgreSQL would sort all of them by a second column for every claim.
DUE_QUERY = (
    select(*CLAIMED_COLUMNS, DELIVERY_TABLE.c.state)
    .where(DELIVERY_TABLE.c.lane == bindparam("lane"), is_due(NOW))
    .order_by(DELIVERY_TABLE.c.due_at)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
#: The abandoned deliveries of which a server may have received bytes.
ABANDONED_QUERY = select(DELIVERY_TABLE.c.id, DELIVERY_TABLE.c.lease, DELIVERY_TABLE.c.leased_until).where(
    IS_ABANDONED, DELIVERY_TABLE.c.state == DeliveryState.SENDING
)
#: Selects by `state`. With the condition of the index of open deliveries, PostgreSQL would read all due deliveries.
CLAIM_STATEMENT = changing(
    and_(AMONG_IDS, DELIVERY_TABLE.c.state == DeliveryState.QUEUED),
    state=DeliveryState.CLAIMED,
    lease=bindparam("token"),
    leased_until=bindparam("until"),
)
SWEEP_STATEMENT = changing(
    IS_ABANDONED,
    state=DeliveryState.QUEUED,
    in_doubt=DELIVERY_TABLE.c.in_doubt + case((DELIVERY_TABLE.c.state == DeliveryState.SENDING, 1), else_=0),
    **NO_LEASE,
)
RENEW_STATEMENT = changing(
    and_(AMONG_IDS, IS_CLAIMED, DELIVERY_TABLE.c.lease == bindparam("held_under")),
    leased_until=bindparam("until"),
)


INTENT_COLUMNS = {
    "id": "bigint",
    "message_id": "text",
    "content_hash": "text",
    "recipient_version": "text",
    "address_hash": "text",
    "lifts_suppression": "boolean",
}


@lru_cache(maxsize=2)  # there are two dialects
def intend_statement(dialect: str) -> TextClause:
    """Return the statement that records an intent for each letter that we hold and that is not blocked."""
    intents = new_rows(dialect, INTENT_COLUMNS)
    liftable = ", ".join(f"'{reason}'" for reason in sorted(OWNER_CAN_LIFT))
    sql = f"""UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = :until,
        message_id = new.message_id, content_hash = new.content_hash
    FROM {intents}
    WHERE delivery.id = new.id AND delivery.state = 'claimed' AND delivery.lease = :lease
        AND NOT EXISTS (
            SELECT 1 FROM suppression WHERE suppression.hmac = new.address_hash
            AND NOT (new.lifts_suppression AND suppression.reason IN ({liftable}))
        )
        AND (new.recipient_version = '' OR new.recipient_version = (
            SELECT {recipient_version(dialect)} FROM subscriber WHERE subscriber.id = delivery.subscriber_id
        ))
    RETURNING delivery.id"""  # noqa: S608 - constants only
    return text(sql).bindparams(UNTIL)


@lru_cache(maxsize=2)  # one for each database
def settle_statement(dialect: str) -> TextClause:
    """Return the statement that ends or requeues each letter that we hold."""
    columns = dict.fromkeys(("state", "reason", "provider_id"), "text")
    endings = new_rows(dialect, {"id": "bigint", "unused": "int", "due_at": "timestamptz", **columns})
    sql = f"""UPDATE delivery SET state = new.state, reason = new.reason,
        attempts = delivery.attempts - new.unused,
        provider_id = coalesce(new.provider_id, delivery.provider_id),
        due_at = CASE WHEN new.due_at IS NULL THEN delivery.due_at
            WHEN new.due_at < expires_at THEN new.due_at ELSE expires_at END,
        settled_at = CASE WHEN new.state NOT IN ('queued', 'sending') THEN :now END,
        lease = CASE WHEN new.state = 'sending' THEN lease END,
        leased_until = CASE WHEN new.state = 'sending' THEN leased_until END
    FROM {endings}
    WHERE delivery.id = new.id AND delivery.state = :was AND delivery.lease = :lease
    RETURNING delivery.id"""  # noqa: S608 - constants only
    return text(sql).bindparams(NOW)


def claimed_delivery(row: Any, lease: str, leased_until: datetime) -> ClaimedDelivery:
    """Convert the row of a due delivery to a claimed delivery."""
    claimed = ClaimedDelivery._make((*row[:-1], lease, leased_until))
    return claimed._replace(in_doubt=claimed.in_doubt + 1) if row[-1] == DeliveryState.SENDING else claimed


def renewed_lease(leased_until: datetime, now: datetime) -> datetime:
    """Return when a lease ends if it is renewed now.

    A lease renewed within the last minute is not extended.
    """
    return leased_until if leased_until > now + LEASE - RENEW_AFTER else now + LEASE


def record_vanished_attempt(session: Session, row: Any, *, now: datetime) -> None:
    """Record an attempt in doubt for a delivery whose worker died without recording one."""
    recorded = select(Attempt.id).where(Attempt.delivery_id == row.id, Attempt.lease == row.lease)
    if session.execute(recorded).first() is None:
        attempt = AttemptRecord(
            row.id, row.leased_until - LEASE, "in doubt", reply="the worker died while sending"
        )
        record_attempts(session, [attempt], lease=row.lease, now=now)


def release_dead_claims(session: Session, *, dead_machines: Collection[str]) -> int:
    """Requeue the letters claimed by dead processes of this machine or of `dead_machines`; return their number.

    Nothing was sent of a claimed letter, so it need not wait for the end of its lease. The leases are found by
    reading all open deliveries, so call this only when a process starts or has died. If the process is alive
    after all, it loses its claims and sends none of these letters.
    """
    leases = session.scalars(select(DELIVERY_TABLE.c.lease).where(IS_OPEN, IS_CLAIMED).distinct()).all()
    dead = [lease for lease in leases if heartbeats.is_lease_of_dead(lease, dead_machines)]
    if not dead:
        return 0
    requeuing = update(DELIVERY_TABLE).where(IS_OPEN, IS_CLAIMED, db.one_of(DELIVERY_TABLE.c.lease, dead))
    return session.connection().execute(requeuing.values(state=DeliveryState.QUEUED, **NO_LEASE)).rowcount
