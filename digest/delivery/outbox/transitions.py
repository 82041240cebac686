"""Define the transitions of a delivery; `postgresql` and `sqlite` implement those that differ by database.

 queued ──claim──▶ claimed ──intend──▶ sending ──settle──▶ sent, failed, ...   renew: held for longer
   ▲  ▲               │  │                │  │
   │  └──release──────┘  └─settle: not sent  │   (also by `release_dead_claims`, if the worker has died)
   │  └──release: deferred, or not begun──┘  │
   └──sweep, when the lease has ended: from claimed unchanged, from sending with one more doubt

Every transition by a worker after its claim is a compare-and-set on (id, state, lease), so a worker that lost
its lease changes nothing.
The caller commits, except after `settle_and_intend`, which commits itself. An intent must be committed before
the first byte is sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import ColumnElement, Executable, Integer, and_, bindparam, case, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, DeliveryState, Lane
from digest.delivery.outbox.attempts import AttemptRecord, record_attempts
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, fetch_ids, is_due
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


class AcceptedWindow(Struct, frozen=True, kw_only=True):
    """Letters that a server accepted, all with the same code."""

    attempts: Sequence[AttemptRecord]
    lease: str
    ended_at: datetime


class NextWindow(Struct, frozen=True, kw_only=True):
    """The next letters to send, and the conditions that block some of them."""

    intents: Sequence[Intent]
    lease: str
    until: datetime  #: the new end of the lease
    now: datetime
    scopes: Sequence[str]  #: the scopes whose stop or pause would block the letters


#: Returns the number of accepted letters that we still held, and the ids of the letters that we may send.
FetchReply = Callable[[], tuple[int, set[int]]]


class Outbox(ABC):
    """The transitions of deliveries in one session."""

    def __init__(self, session: Session):
        self.session = session

    def claim(self, *, lane: Lane, now: datetime, limit: int) -> list[ClaimedDelivery]:
        """Claim up to `limit` due deliveries under one new lease, after sweeping the deliveries of dead workers."""
        with db.prefer_index_order(self.session):
            given = {"lane": lane, "now": now, "most": limit}
            found = self.session.connection().execute(DUE_QUERY, given).all()
        self.sweep([row.id for row in found if row.state != DeliveryState.QUEUED], now=now)
        lease, until = heartbeats.new_lease(), now + LEASE
        leased = self.lease_deliveries([row.id for row in found], lease=lease, now=now)
        return [claimed_delivery(row, lease, until) for row in found if row.id in leased]

    def lease_deliveries(self, ids: Collection[int], *, lease: str, now: datetime) -> set[int]:
        """Lease the queued deliveries among these, and return their ids.

        The statement selects by `state`. If it used the condition of the index of open deliveries, PostgreSQL
        would read all due deliveries.
        """
        return self.change(CLAIM_STATEMENT, ids, token=lease, until=now + LEASE)

    def sweep(self, ids: Collection[int], *, now: datetime) -> set[int]:
        """Requeue the deliveries among these whose lease has ended, and return their ids.

        If no intent was committed, nothing else changes. Otherwise one more attempt of the delivery counts as
        in doubt, and is recorded unless the worker recorded it.
        """
        given = {"ids": ids, "now": now}
        for row in self.session.connection().execute(ABANDONED_QUERY, given).all() if ids else ():
            record_vanished_attempt(self.session, row, now=now)
        return self.change(SWEEP_STATEMENT, ids, now=now)

    def renew(self, ids: Collection[int], *, lease: str, until: datetime) -> set[int]:
        """Extend to `until` the lease of deliveries without an intent; return the ids that we still held."""
        return self.change(RENEW_STATEMENT, ids, was=DeliveryState.CLAIMED, held_under=lease, until=until)

    def intend(self, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
        """Record the intent to send these letters; return the ids of those that may be sent until `until`.

        A letter is blocked if its recipient has changed or is suppressed.
        """
        window = NextWindow(intents=intents, lease=lease, until=until, now=until, scopes=())
        return self.record_intents(window) if intents else set()

    @abstractmethod
    def record_intents(self, window: NextWindow) -> set[int]:
        """Record the intents of a window; return the ids of the letters that may be sent."""

    @abstractmethod
    def settle_and_intend(
        self, accepted: AcceptedWindow | None, following: NextWindow
    ) -> AbstractContextManager[FetchReply]:
        """Settle an accepted window, and intend the next letters that are not blocked, in one transaction.

        Letters are blocked as in `intend`. A stop or a pause of one of the scopes blocks all letters. The
        database works while the block runs; the result may be fetched after the block.
        """

    def settle(
        self,
        ids: Collection[int],
        state: DeliveryState,
        reason: str = "",
        *,
        from_state: DeliveryState,
        lease: str,
        now: datetime,
    ) -> set[int]:
        """Set the terminal state of deliveries that we hold; return the ids that we still held."""
        held = {"was": from_state, "held_under": lease}
        return self.change(SETTLE_STATEMENT, ids, **held, to_state=state, because=reason[:500], now=now)

    def release(
        self,
        ids: Collection[int],
        reason: str = "",
        *,
        from_state: DeliveryState,
        lease: str,
        due_at: datetime,
        counts_as_attempt: bool,
    ) -> set[int]:
        """Requeue deliveries that we hold; return the ids that were still under our lease.

        An attempt is used up only with `counts_as_attempt`. No delivery is postponed beyond its expiry.
        """
        unused = 0 if counts_as_attempt or from_state != DeliveryState.SENDING else 1
        held = {"was": from_state, "held_under": lease}
        return self.change(RELEASE_STATEMENT, ids, **held, because=reason[:500], later=due_at, unused=unused)

    def change(self, statement: Executable, ids: Collection[int], **given: Any) -> set[int]:
        """Execute a statement that changes deliveries with these ids; return the ids of the changed ones."""
        return fetch_ids(self.session, statement, {"ids": ids, **given}) if ids else set()


# ── the statements, built once because building one takes as long as sending it ────────

NOW = bindparam("now", type_=db.UtcDateTime)
AMONG_IDS = db.one_of(DELIVERY_TABLE.c.id, db.values_param("ids", DELIVERY_TABLE.c.id))
NO_LEASE: dict[str, Any] = {"lease": None, "leased_until": None}
#: The condition of every compare-and-set: the delivery is in the expected state and still under our lease.
IS_HELD = and_(
    AMONG_IDS, DELIVERY_TABLE.c.state == bindparam("was"), DELIVERY_TABLE.c.lease == bindparam("held_under")
)
IS_ABANDONED = and_(
    AMONG_IDS,
    DELIVERY_TABLE.c.state.in_((DeliveryState.CLAIMED, DeliveryState.SENDING)),
    DELIVERY_TABLE.c.leased_until <= NOW,
)
CLAIMED_COLUMNS = tuple(
    DELIVERY_TABLE.c[name] for name in ClaimedDelivery._fields if name not in {"lease", "leased_until"}
)


def changing(condition: ColumnElement[bool], **values: Any) -> Any:
    """Return the statement that changes deliveries and returns their ids."""
    return update(DELIVERY_TABLE).where(condition).values(**values).returning(DELIVERY_TABLE.c.id)


def intend_sql(letters: str, version: str, is_in_scopes: str = "") -> str:
    """Return the SQL that records an intent for each of `letters` that we hold and that is not blocked.

    `letters` is a table `new` with the columns of `Intent`, and `version` the SQL for the version of a
    recipient's row. The stops and pauses that meet the condition `is_in_scopes` block all letters.
    """
    guards = f"""AND NOT EXISTS (SELECT 1 FROM emergency_stop WHERE lifted_at IS NULL AND {is_in_scopes})
        AND NOT EXISTS (SELECT 1 FROM domain_pause WHERE until > :now AND {is_in_scopes})"""  # noqa: S608 - constants only
    return f"""UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = :until,
        message_id = new.message_id, content_hash = new.content_hash
    FROM {letters}
    WHERE delivery.id = new.id AND delivery.state = 'claimed' AND delivery.lease = :lease
        AND NOT EXISTS (SELECT 1 FROM suppression WHERE suppression.hmac = new.address)
        AND (new.version IS NULL OR new.version = (
            SELECT {version} FROM subscriber WHERE subscriber.id = delivery.subscriber_id
        ))
        {guards if is_in_scopes else ""}
    RETURNING delivery.id"""  # noqa: S608 - constants only


def no_later_than_expiry(moment: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """Return the datetime `moment`, or the expiry of the delivery if that is earlier."""
    return case((DELIVERY_TABLE.c.expires_at < moment, DELIVERY_TABLE.c.expires_at), else_=moment)


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
RENEW_STATEMENT = changing(IS_HELD, leased_until=bindparam("until"))
SETTLE_STATEMENT = changing(
    IS_HELD, state=bindparam("to_state"), reason=bindparam("because"), settled_at=bindparam("now"), **NO_LEASE
)
RELEASE_STATEMENT = changing(
    IS_HELD,
    state=DeliveryState.QUEUED,
    reason=bindparam("because"),
    due_at=no_later_than_expiry(bindparam("later", type_=db.UtcDateTime)),
    attempts=DELIVERY_TABLE.c.attempts - bindparam("unused", type_=Integer),
    **NO_LEASE,
)


def claimed_delivery(row: Any, lease: str, leased_until: datetime) -> ClaimedDelivery:
    """Convert the row of a due delivery to a claimed delivery."""
    found = ClaimedDelivery._make((*row[:-1], lease, leased_until))
    return found._replace(in_doubt=found.in_doubt + 1) if row[-1] == DeliveryState.SENDING else found


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
