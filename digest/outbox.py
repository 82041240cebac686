"""The outbox: deliveries, written in the same transaction as the decision to send.

 queued ──claim──▶ claimed ──intend──▶ sending ──settle──▶ sent, failed, or queued again
   ▲                  │                   │
   └── give_back ─────┘                   └── no reply: stays until the lease is over, then in doubt

Every change of state is a compare-and-set on (id, state, lease): who has lost the lease changes
nothing. An open delivery is due from `due_at` on, unless a lease holds it: who claims passes over those, so
one index finds both new work and work whose holder has died. A claim and an intent leave that index alone,
which spares PostgreSQL an entry in each of the table's for both. Nothing here commits: the caller does, and
an intent must be committed before the first byte goes out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import lru_cache
from secrets import token_hex
from typing import Any
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Update,
    and_,
    any_,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from digest import db
from digest.editions import Cadence, Schedule
from digest.links import Site
from digest.model import Attempt, Delivery, DeliveryState, Lane, Subscriber, SubscriberState

LETTER_LIFE = timedelta(days=2)  #: how long a letter other than a digest is tried
LEASE = timedelta(seconds=900)  #: longer than any task may run, and than a server may think
FRESH = timedelta(seconds=60)  #: for so long a lease is as good as a new one
MAX_IN_DOUBT = 3  #: attempts in doubt after which a person must look
FIRST_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=1)

#: The open deliveries, spelled as the partial index spells them.
IS_OPEN = text("delivery.settled_at IS NULL")

#: What a row of `put_digests` carries unless it says otherwise.
DIGEST_ROW: dict[str, Any] = {
    "letter": "digest",
    "lane": Lane.BULK,
    "email": None,
    "decision": "{}",
    "press": None,
    "key_id": "",
    "covers_from": None,
    "covers_to": None,
    "covers_paper_id": None,
    "state": DeliveryState.QUEUED,
    "reason": "",
    "attempts": 0,
    "in_doubt": 0,
    "settled_at": None,
}


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def put_letter(
    session: Session,
    *,
    letter: str,
    subscriber_id: int | None,
    email: str,
    decision: Mapping[str, Any],
    dedupe_key: str,
    site: Site,
    now: datetime,
    expires_at: datetime | None = None,
    lane: Lane = Lane.PROMPT,
) -> int | None:
    """Write one letter, which somebody waits for unless it says otherwise, and return its id.

    None if its key was used before.
    """
    row = {
        "letter": letter,
        "lane": lane,
        "subscriber_id": subscriber_id,
        "email": email,
        "decision": json.dumps(decision, separators=(",", ":")),
        "dedupe_key": dedupe_key,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "state": DeliveryState.QUEUED,
        "due_at": now,
        "expires_at": expires_at or now + LETTER_LIFE,
    }
    adding = db.upsert(session, Delivery).on_conflict_do_nothing(index_elements=["dedupe_key"])
    return session.execute(adding.values(row).returning(Delivery.id)).scalar_one_or_none()


def put_notices(session: Session, rows: Sequence[Mapping[str, Any]], *, site: Site, now: datetime) -> int:
    """Write letters that nobody waits for into the bulk lane, by hundreds, and return how many are new.

    A row names `letter subscriber_id email decision dedupe_key`; one whose key was used before is left out.
    """
    same = {
        **DIGEST_ROW,
        "edition": None,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "due_at": now,
        "expires_at": now + LETTER_LIFE,
    }
    written = [{**same, **row} for row in rows]
    return len(db.put_many(session, Delivery, written, key=("dedupe_key",), returning=("id",)))


def put_digests(
    session: Session, rows: Sequence[Mapping[str, Any]], *, same: Mapping[str, Any] = db.NOTHING
) -> dict[int, int]:
    """Write digests into the bulk lane and return {subscriber id: delivery id} of those that are new.

    A row names at least `subscriber_id edition dated_at due_at expires_at`, or `same` does where all are
    alike; an edition that a subscriber already has is left as it stands.
    """
    new = db.put_many(
        session,
        Delivery,
        rows,
        same=shared(rows, same),
        key=("subscriber_id", "edition"),
        returning=("id", "subscriber_id"),
    )
    return {row.subscriber_id: row.id for row in new}


def put_new_digests(
    session: Session, rows: Sequence[Mapping[str, Any]], *, same: Mapping[str, Any] = db.NOTHING
) -> None:
    """Write digests in the same way, each under an `id` that `numbers` gave, without waiting for an answer.

    Raises IntegrityError, now or later in a block of `db.ahead`, if somebody has one of the editions.
    """
    db.put_many(session, Delivery, rows, same=shared(rows, same))


def shared(rows: Sequence[Mapping[str, Any]], same: Mapping[str, Any]) -> dict[str, Any]:
    """Return what digests have in common: what their rows do not name."""
    own = rows[0] if rows else {}
    return {name: value for name, value in {**DIGEST_ROW, **same}.items() if name not in own}


def numbers(session: Session, many: int) -> Sequence[int]:
    """Return numbers for so many new deliveries; on SQLite they must be used before others are written."""
    return db.numbers(session, Delivery, many)


def taken(session: Session, editions: Mapping[int, str]) -> set[int]:
    """Return who of these subscribers has that edition already."""
    wanted = select(DELIVERY.c.subscriber_id, DELIVERY.c.edition).where(
        db.among(DELIVERY.c.subscriber_id, editions.keys()),
        db.among(DELIVERY.c.edition, {*editions.values()}),
    )
    return {number for number, edition in session.connection().execute(wanted) if editions[number] == edition}


# ── claiming ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
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


#: The tables themselves: what goes through the mapping looks at every object.
DELIVERY: Any = Delivery.__table__
NAMES = tuple(name for name in Claimed.__dataclass_fields__ if name not in {"lease", "leased_until"})
FIELDS = tuple(DELIVERY.c[name] for name in NAMES)


def claim(session: Session, *, lane: Lane, now: datetime, limit: int) -> list[Claimed]:
    """Take up to `limit` due deliveries under one new lease.

    One whose lease is over is taken up again: clean if nothing had been sent, else with one more doubt.
    """
    found = session.connection().execute(due(lane, now, limit)).all()
    lease = token_hex(16)
    ours = take(session, [row.id for row in found], lease=lease, now=now)
    lapsed = [row for row in found if row.state == DeliveryState.SENDING and row.id in ours]
    for row in lapsed:
        keep_vanished(session, row, now=now)
    return [claimed(row, lease, now + LEASE) for row in found if row.id in ours]


def due(lane: Lane, now: datetime, limit: int) -> Select[Any]:
    """Return the query for due deliveries; on PostgreSQL it passes over those that others look at.

    It orders by `due_at` alone: a morning's million digests share that moment, and a second column would
    make PostgreSQL sort them all for every claim.
    """
    return (
        select(*FIELDS, DELIVERY.c.state, DELIVERY.c.lease, DELIVERY.c.leased_until)
        .where(DELIVERY.c.lane == lane, is_due(now))
        .order_by(DELIVERY.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def is_due(now: datetime) -> ColumnElement[bool]:
    """Return the condition that somebody must look at a delivery: open, its moment come, and in nobody's hands."""
    leased_until = DELIVERY.c.leased_until
    return and_(IS_OPEN, DELIVERY.c.due_at <= now, or_(leased_until.is_(None), leased_until <= now))


def take(session: Session, ids: Collection[int], *, lease: str, now: datetime) -> set[int]:
    """Put these deliveries under our lease and return those that nobody else had taken or moved."""
    if not ids:
        return set()
    doubt = case((DELIVERY.c.state == DeliveryState.SENDING, 1), else_=0)
    taking = (
        update(DELIVERY)
        .where(db.among(DELIVERY.c.id, ids), is_due(now))
        .values(
            state=DeliveryState.CLAIMED,
            lease=lease,
            leased_until=now + LEASE,
            in_doubt=DELIVERY.c.in_doubt + doubt,
        )
    )
    return changed(session, taking)


def claimed(row: Any, lease: str, leased_until: datetime) -> Claimed:
    """Return a row as it is once it is claimed."""
    fields: dict[str, Any] = dict(zip(NAMES, row, strict=False))
    fields["in_doubt"] += row.state == DeliveryState.SENDING
    return Claimed(**fields, lease=lease, leased_until=leased_until)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """What a subscriber wants, as of now: asked again right before their letter goes out."""

    state: SubscriberState
    epoch: int
    language: str
    schedule: Schedule


READER = tuple(
    Subscriber.__table__.c[name]
    for name in ("id", "state", "epoch", "language", "cadence", "at", "timezone", "weekday", "not_after")
)
READING = select(*READER).where(db.among(READER[0], db.many("ids", READER[0])))


def readers(session: Session, ids: Iterable[int | None]) -> dict[int, Reader]:
    """Return these subscribers by id; who was removed is left out."""
    wanted = {number for number in ids if number is not None}
    if not wanted:
        return {}
    found = session.connection().execute(READING, {"ids": wanted})
    return {row[0]: reader(*row[1:]) for row in found}


@lru_cache(maxsize=4096)
def reader(
    state: str,
    epoch: int,
    language: str,
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    not_after: time | None,
) -> Reader:
    """Return a subscriber's row as a value: thousands want the same at the same hour."""
    schedule = Schedule(
        cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday, not_after=not_after
    )
    return Reader(state=SubscriberState(state), epoch=epoch, language=language, schedule=schedule)


def refusal(
    delivery: Claimed, reader: Reader | None, *, is_suppressed: bool, now: datetime
) -> tuple[DeliveryState, str] | None:
    """Return the state and reason in which this delivery ends unsent, or None if it may go out."""
    if delivery.in_doubt >= MAX_IN_DOUBT:
        return DeliveryState.STUCK, f"in doubt {delivery.in_doubt} times: nobody can know whether it arrived"
    if delivery.email is None:
        return DeliveryState.SUPPRESSED, "the address was erased"
    if is_suppressed:
        return DeliveryState.SUPPRESSED, "the address is suppressed"
    if not is_wanted(delivery, reader):
        return DeliveryState.SUPPRESSED, f"the subscriber is {reader.state if reader else 'removed'}"
    if delivery.expires_at <= now:
        waited = f"; it had waited: {delivery.reason}" if delivery.reason else ""
        return (
            DeliveryState.EXPIRED,
            f"too late: it expired at {delivery.expires_at:%Y-%m-%d %H:%M} UTC{waited}",
        )
    return None


def is_wanted(delivery: Claimed, reader: Reader | None) -> bool:
    """Return whether its subscriber, as they are now, may be sent this letter."""
    if delivery.letter == "invite":
        return reader is not None and reader.state is SubscriberState.PENDING
    match reader.state if reader else None:
        case None:  # a stranger's question is answered; the digest of somebody removed is not sent
            return delivery.edition is None
        case SubscriberState.ACTIVE:
            return True
        case SubscriberState.PAUSED:
            return delivery.edition is None and delivery.letter != "quiet"
        case SubscriberState.PENDING:
            return delivery.letter in {"confirm", "reminder"}
        case SubscriberState.UNSUBSCRIBED:
            return delivery.letter not in {"digest", "welcome", "quiet", "changed"}


# ── sending ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """What is about to be sent: kept before the first byte, compared on every later attempt."""

    id: int
    message_id: str
    content_hash: str


def renewed(leased_until: datetime, now: datetime) -> datetime:
    """Return until when we hold a lease from now on; one taken just now stays as it is."""
    return leased_until if leased_until > now + LEASE - FRESH else now + LEASE


def intend(session: Session, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
    """Say that these are about to be sent, and return the ids that are ours to send until that moment."""
    if not intents:
        return set()
    if session.get_bind().dialect.name == "postgresql":
        return intend_arrays(session, intents, lease=lease, until=until)
    intending = update(DELIVERY).where(
        holding(DeliveryState.CLAIMED, [intent.id for intent in intents], lease)
    )
    ours = changed(session, intending.values(**intention(literal(until, db.UtcDateTime))))
    rows = [
        {"key": intent.id, "name": intent.message_id, "hash": intent.content_hash}
        for intent in intents
        if intent.id in ours
    ]
    if rows:
        session.connection().execute(NAMING, rows)
    return ours


def intend_arrays(session: Session, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
    """Do so in one statement, with the ids, names and hashes as three lists."""
    given = {
        "ids": [intent.id for intent in intents],
        "new_message_id": db.spelled([intent.message_id for intent in intents]),
        "new_content_hash": db.spelled([intent.content_hash for intent in intents]),
        "held_under": lease,
        "until": until,
    }
    return {row[0] for row in session.connection().execute(INTENDING, given)}


def intention(until: ColumnElement[datetime]) -> dict[str, Any]:
    """Return what an intent changes, whatever is sent."""
    return {
        "state": DeliveryState.SENDING,
        "attempts": DELIVERY.c.attempts + 1,
        "leased_until": until,
    }


NAMING = (
    update(DELIVERY)
    .where(DELIVERY.c.id == bindparam("key"))
    .values(message_id=bindparam("name"), content_hash=bindparam("hash"))
)


def intending_arrays() -> Any:
    """Return the statement of `intend_arrays`, put together once: that takes as long as sending it."""
    ids = cast(db.many("ids", DELIVERY.c.id), postgresql.ARRAY(BigInteger))
    names, hashes = db.array(DELIVERY.c.message_id), db.array(DELIVERY.c.content_hash)
    columns = func.unnest(ids, names, hashes).table_valued("id", "name", "hash", name="new")
    new, until = columns.render_derived(name="new"), bindparam("until", type_=db.UtcDateTime)
    by_key = DELIVERY.c.id == any_(ids)  # or a planner without figures reads all
    held = and_(DELIVERY.c.state == DeliveryState.CLAIMED, DELIVERY.c.lease == bindparam("held_under"))
    naming = {"message_id": new.c.name, "content_hash": new.c.hash}
    intending = update(DELIVERY).where(DELIVERY.c.id == new.c.id, by_key, held)
    return intending.values(**intention(until), **naming).returning(DELIVERY.c.id)


INTENDING = intending_arrays()


def end(
    session: Session,
    ids: Collection[int],
    state: DeliveryState,
    reason: str = "",
    *,
    was: DeliveryState,
    lease: str,
    now: datetime,
) -> set[int]:
    """Bring deliveries that we hold to a terminal state; return those that were still ours."""
    if not ids:
        return set()
    held = {"ids": ids, "was": was, "held_under": lease}
    found = session.connection().execute(ENDING, {**held, "is": state, "because": reason[:500], "now": now})
    return {row[0] for row in found}


HELD = and_(
    db.among(DELIVERY.c.id, db.many("ids", DELIVERY.c.id)),
    DELIVERY.c.state == bindparam("was"),
    DELIVERY.c.lease == bindparam("held_under"),
)
ENDING = (
    update(DELIVERY)
    .where(HELD)
    .values(
        state=bindparam("is"),
        reason=bindparam("because"),
        settled_at=bindparam("now"),
        lease=None,
        leased_until=None,
    )
    .returning(DELIVERY.c.id)
)


def put_back(
    session: Session,
    ids: Collection[int],
    reason: str = "",
    *,
    was: DeliveryState,
    lease: str,
    due_at: datetime,
    is_tried: bool,
) -> set[int]:
    """Queue deliveries that we hold again; return those that were still ours.

    What no server was there to hear burns no attempt. Nothing waits beyond its expiry.
    """
    if not ids:
        return set()
    burnt = 0 if is_tried or was != DeliveryState.SENDING else 1
    moment = literal(due_at, db.UtcDateTime)
    putting = update(DELIVERY).where(holding(was, ids, lease))
    values = {
        "state": DeliveryState.QUEUED,
        "reason": reason[:500],
        "due_at": case((DELIVERY.c.expires_at < due_at, DELIVERY.c.expires_at), else_=moment),
        "attempts": DELIVERY.c.attempts - burnt,
        "lease": None,
        "leased_until": None,
    }
    return changed(session, putting.values(**values))


def withdraw(session: Session, dedupe_key: str, reason: str, *, now: datetime) -> None:
    """Take back a letter that still waits, if there is one of that key."""
    waiting = and_(DELIVERY.c.dedupe_key == dedupe_key, DELIVERY.c.state == DeliveryState.QUEUED)
    values = {"state": DeliveryState.SUPPRESSED, "reason": reason, "settled_at": now}
    changed(session, update(DELIVERY).where(waiting).values(**values))


def postpone(session: Session, *, lane: Lane, until: datetime, reason: str, now: datetime, limit: int) -> int:
    """Let due letters of a lane that nobody holds wait until then; return how many, at most `limit`.

    What is too late by now stays due, so that it ends here and now. Nothing waits beyond its expiry.
    """
    idle = (DELIVERY.c.state == DeliveryState.QUEUED, DELIVERY.c.due_at <= now, DELIVERY.c.expires_at > now)
    some = (
        select(DELIVERY.c.id)
        .where(IS_OPEN, DELIVERY.c.lane == lane, *idle)
        .order_by(DELIVERY.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    moment = literal(until, db.UtcDateTime)
    values = {
        "reason": reason[:500],
        "due_at": case((DELIVERY.c.expires_at < until, DELIVERY.c.expires_at), else_=moment),
    }
    return (
        session.connection()
        .execute(update(DELIVERY).where(DELIVERY.c.id.in_(some)).values(**values))
        .rowcount
    )


def hasten(session: Session, *, reason: str, now: datetime) -> int:
    """Make due again what waits for a reason that begins like this; return how many letters that are."""
    theirs = (DELIVERY.c.state == DeliveryState.QUEUED, DELIVERY.c.reason.startswith(reason, autoescape=True))
    hastening = update(DELIVERY).where(IS_OPEN, *theirs, DELIVERY.c.due_at > now)
    return session.connection().execute(hastening.values(due_at=now, reason="")).rowcount


def remark(session: Session, delivery_id: int, reason: str, *, lease: str) -> None:
    """Note why a delivery stays in doubt."""
    remarking = update(DELIVERY).where(holding(DeliveryState.SENDING, [delivery_id], lease))
    changed(session, remarking.values(reason=reason[:500]))


def keep_names(session: Session, names: Mapping[int, str]) -> None:
    """Keep what a provider calls deliveries that it has taken: reports on them name it so."""
    if names:
        naming = update(DELIVERY).where(DELIVERY.c.id == bindparam("key"))
        rows = [{"key": number, "name": name} for number, name in names.items()]
        session.connection().execute(naming.values(provider_id=bindparam("name")), rows)


def holding(state: DeliveryState, ids: Collection[int], lease: str) -> ColumnElement[bool]:
    """Return the condition of every compare-and-set: in that state, and still under our lease."""
    ours = db.among(DELIVERY.c.id, ids)
    return and_(ours, DELIVERY.c.state == state, DELIVERY.c.lease == lease)


def changed(session: Session, updating: Update) -> set[int]:
    """Carry out a compare-and-set and return the ids it changed."""
    returning = updating.returning(DELIVERY.c.id)
    return {row[0] for row in session.connection().execute(returning)}


def next_try(delivery_id: int, attempts: int, now: datetime) -> datetime:
    """Return when to try again after so many attempts: after 5, 10, 20, ... minutes, up to an hour.

    Each delivery is up to a quarter early or late, so that a morning's refusals do not return as one.
    """
    backoff = min(FIRST_BACKOFF * 2 ** min(attempts - 1, 10), LONGEST_BACKOFF)
    spread = crc32(f"{delivery_id} {attempts}".encode()) / 2**32
    return now + timedelta(seconds=backoff.total_seconds() * (0.75 + spread / 2))


# ── evidence ────────────────────────────────────────────────────────────────────────────────────


ATTEMPT: Any = Attempt.__table__


@dataclass(frozen=True, slots=True)
class Tried:
    """One try at a delivery and what came of it."""

    delivery_id: int
    began_at: datetime
    verdict: str
    phase: str = ""
    code: int | None = None
    reply: str = ""


def keep_attempts(session: Session, attempts: Iterable[Tried], *, lease: str, now: datetime) -> None:
    """Append these attempts to the evidence."""
    rows = [
        {
            "delivery_id": tried.delivery_id,
            "began_at": tried.began_at,
            "verdict": tried.verdict,
            "phase": tried.phase,
            "code": tried.code,
            "reply": tried.reply[:500],
        }
        for tried in attempts
    ]
    connection = session.connection()
    if rows and connection.dialect.name == "postgresql":
        spelled = json.dumps(rows, default=datetime.isoformat)
        connection.execute(KEEPING, {"rows": spelled, "lease": lease, "ended_at": now})
    elif rows:
        same = {"lease": lease, "ended_at": now}
        connection.execute(insert(ATTEMPT), [row | same for row in rows])


#: A window's rows as one text, which PostgreSQL reads faster than the driver writes six arrays.
KEEPING = text(
    "INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)"
    " SELECT delivery_id, :lease, began_at, :ended_at, verdict, phase, code, reply"
    " FROM json_to_recordset(CAST(:rows AS json)) AS new"
    " (delivery_id bigint, began_at timestamptz, verdict text, phase text, code integer, reply text)"
)


def are_kept(session: Session, ids: Collection[int], *, lease: str, at: datetime) -> bool:
    """Return whether attempts of that lease that ended then are in the evidence.

    For who has not heard whether a commit went through. It may still be on its way, so we wait for whoever
    holds one of these deliveries, and look after that.
    """
    if not ids:
        return False
    session.execute(select(DELIVERY.c.id).where(db.among(DELIVERY.c.id, ids)).with_for_update())
    told = (db.among(ATTEMPT.c.delivery_id, ids), ATTEMPT.c.lease == lease, ATTEMPT.c.ended_at == at)
    return session.execute(select(ATTEMPT.c.id).where(*told).limit(1)).first() is not None


def keep_vanished(session: Session, row: Any, *, now: datetime) -> None:
    """Keep an attempt in doubt for a delivery whose holder died without telling of it."""
    told = select(Attempt.id).where(Attempt.delivery_id == row.id, Attempt.lease == row.lease)
    if session.execute(told).first() is None:
        lost = Tried(row.id, row.leased_until - LEASE, "in doubt", reply="the worker died while sending")
        keep_attempts(session, [lost], lease=row.lease, now=now)


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


def waiting(session: Session, *, lane: Lane, now: datetime, at_most: int = 1) -> int:
    """Return how many deliveries of a lane are due, counting no further than `at_most`."""
    some = select(DELIVERY.c.id).where(DELIVERY.c.lane == lane, is_due(now)).limit(at_most)
    return session.execute(select(func.count()).select_from(some.subquery())).scalar_one()


def counts(session: Session) -> dict[DeliveryState, int]:
    """Return how many deliveries are in each state; every state is named."""
    found = session.execute(select(Delivery.state, func.count()).group_by(Delivery.state))
    numbers = {DeliveryState(state): number for state, number in found}
    return {state: numbers.get(state, 0) for state in DeliveryState}


def listing(
    session: Session,
    *,
    state: DeliveryState | None = None,
    email: str | None = None,
    limit: int | None = None,
) -> list[Delivery]:
    """Return deliveries, newest first."""
    query = select(Delivery).order_by(Delivery.id.desc()).limit(limit)
    if state is not None:
        query = query.where(Delivery.state == state)
    if email is not None:
        query = query.where(func.lower(Delivery.email) == email.lower())
    return list(session.scalars(query))


def trace(session: Session, delivery_id: int) -> list[Attempt]:
    """Return every attempt at a delivery, oldest first."""
    return list(
        session.scalars(select(Attempt).where(Attempt.delivery_id == delivery_id).order_by(Attempt.id))
    )
