"""Sending: the intent that is kept before the first byte, and the end that a delivery comes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, cast, func, literal, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from digest import db
from digest.model import DeliveryState
from digest.outbox.rows import DELIVERY, changed, fetched, holding


class Intent(Struct, frozen=True, kw_only=True):
    """What is about to be sent: kept before the first byte, compared on every later attempt."""

    id: int
    message_id: str
    content_hash: str


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
    return fetched(session, INTENDING, given)


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
    held = and_(DELIVERY.c.state == DeliveryState.CLAIMED, DELIVERY.c.lease == bindparam("held_under"))
    naming = {"message_id": new.c.name, "content_hash": new.c.hash}
    intending = update(DELIVERY).where(DELIVERY.c.id == new.c.id, db.looked_up(new.c.id), held)
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
    return fetched(session, ENDING, {**held, "is": state, "because": reason[:500], "now": now})


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
