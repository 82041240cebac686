"""Writing: a letter is put into the outbox in the transaction that decides on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.links import Site
from digest.model import Delivery, DeliveryState, Lane
from digest.outbox.rows import DELIVERY

LETTER_LIFE = timedelta(days=2)  #: how long a letter other than a digest is tried
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
    due_at: datetime | None = None,
    expires_at: datetime | None = None,
    lane: Lane = Lane.PROMPT,
) -> int | None:
    """Write one letter, which somebody waits for unless it says otherwise, and return its id.

    It goes out at once, or at `due_at`. None if its key was used before.
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
        "due_at": due_at or now,
        "expires_at": expires_at or (due_at or now) + LETTER_LIFE,
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
