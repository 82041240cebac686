"""Record the intent to send before the first byte, and the final state after the last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, cast, func, literal, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import DeliveryState
from digest.delivery.outbox.open_deliveries import (
    DELIVERY_TABLE,
    fetch_ids,
    held_under_lease,
    update_returning_ids,
)


class Intent(Struct, frozen=True, kw_only=True):
    """What is about to be sent: stored before the first byte, compared on every later attempt."""

    id: int
    message_id: str
    content_hash: str


def intend(session: Session, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
    """Record that these are about to be sent; return the ids that we may send until that moment."""
    if not intents:
        return set()
    if session.get_bind().dialect.name == "postgresql":
        return intend_arrays(session, intents, lease=lease, until=until)
    intending = update(DELIVERY_TABLE).where(
        held_under_lease(DeliveryState.CLAIMED, [intent.id for intent in intents], lease)
    )
    held = update_returning_ids(session, intending.values(**intent_values(literal(until, db.UtcDateTime))))
    rows = [
        {"key": intent.id, "name": intent.message_id, "hash": intent.content_hash}
        for intent in intents
        if intent.id in held
    ]
    if rows:
        session.connection().execute(SET_MESSAGE_STATEMENT, rows)
    return held


def intend_arrays(session: Session, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
    """Record intents in one statement, with the ids, Message-IDs and hashes as three arrays."""
    given = {
        "ids": [intent.id for intent in intents],
        "new_message_id": db.join_values([intent.message_id for intent in intents]),
        "new_content_hash": db.join_values([intent.content_hash for intent in intents]),
        "held_under": lease,
        "until": until,
    }
    return fetch_ids(session, INTEND_ARRAYS_STATEMENT, given)


def intent_values(until: ColumnElement[datetime]) -> dict[str, Any]:
    """Return the columns that every intent changes."""
    return {
        "state": DeliveryState.SENDING,
        "attempts": DELIVERY_TABLE.c.attempts + 1,
        "leased_until": until,
    }


SET_MESSAGE_STATEMENT = (
    update(DELIVERY_TABLE)
    .where(DELIVERY_TABLE.c.id == bindparam("key"))
    .values(message_id=bindparam("name"), content_hash=bindparam("hash"))
)


def intend_arrays_statement() -> Any:
    """Return the statement of `intend_arrays`, put together once: that takes as long as sending it."""
    ids = cast(db.values_param("ids", DELIVERY_TABLE.c.id), postgresql.ARRAY(BigInteger))
    names, hashes = (
        db.split_to_array(DELIVERY_TABLE.c.message_id),
        db.split_to_array(DELIVERY_TABLE.c.content_hash),
    )
    columns = func.unnest(ids, names, hashes).table_valued("id", "name", "hash", name="new")
    new, until = columns.render_derived(name="new"), bindparam("until", type_=db.UtcDateTime)
    held = and_(
        DELIVERY_TABLE.c.state == DeliveryState.CLAIMED, DELIVERY_TABLE.c.lease == bindparam("held_under")
    )
    naming = {"message_id": new.c.name, "content_hash": new.c.hash}
    intending = update(DELIVERY_TABLE).where(
        DELIVERY_TABLE.c.id == new.c.id, db.hint_few_rows(new.c.id), held
    )
    return intending.values(**intent_values(until), **naming).returning(DELIVERY_TABLE.c.id)


INTEND_ARRAYS_STATEMENT = intend_arrays_statement()


def settle(
    session: Session,
    ids: Collection[int],
    state: DeliveryState,
    reason: str = "",
    *,
    from_state: DeliveryState,
    lease: str,
    now: datetime,
) -> set[int]:
    """Set the terminal state of deliveries that we hold; return the ids that we still held."""
    if not ids:
        return set()
    held = {"ids": ids, "was": from_state, "held_under": lease}
    return fetch_ids(session, SETTLE_STATEMENT, {**held, "is": state, "because": reason[:500], "now": now})


HELD_CONDITION = and_(
    db.one_of(DELIVERY_TABLE.c.id, db.values_param("ids", DELIVERY_TABLE.c.id)),
    DELIVERY_TABLE.c.state == bindparam("was"),
    DELIVERY_TABLE.c.lease == bindparam("held_under"),
)
SETTLE_STATEMENT = (
    update(DELIVERY_TABLE)
    .where(HELD_CONDITION)
    .values(
        state=bindparam("is"),
        reason=bindparam("because"),
        settled_at=bindparam("now"),
        lease=None,
        leased_until=None,
    )
    .returning(DELIVERY_TABLE.c.id)
)


def note_reason(session: Session, delivery_id: int, reason: str, *, lease: str) -> None:
    """Store why a delivery stays in doubt."""
    noting = update(DELIVERY_TABLE).where(held_under_lease(DeliveryState.SENDING, [delivery_id], lease))
    update_returning_ids(session, noting.values(reason=reason[:500]))


def record_provider_ids(session: Session, provider_ids: Mapping[int, str]) -> None:
    """Store the ids that a provider gave to deliveries it accepted: its reports use them."""
    if provider_ids:
        naming = update(DELIVERY_TABLE).where(DELIVERY_TABLE.c.id == bindparam("key"))
        rows = [{"key": number, "name": name} for number, name in provider_ids.items()]
        session.connection().execute(naming.values(provider_id=bindparam("name")), rows)
