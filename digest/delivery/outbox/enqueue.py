"""Write letters to the outbox in the transaction that decides to send them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE
from digest.delivery.outbox.planned_letters import PlannedLetter
from digest.site.site_profile import Site

LETTER_LIFE = timedelta(days=2)  #: how long a letter other than a digest remains valid, by default
MAX_ZONE_DIFFERENCE = timedelta(hours=26)  #: between the time zones that are furthest apart
#: The default values of a row in `queue_digests` and `queue_bulk_letters`.
DIGEST_DEFAULTS: dict[str, Any] = {
    "letter": "digest",
    "lane": Lane.BULK,
    "email": None,
    "decision": "{}",
    "press": None,
    "key_id": "",
    "covers_from": None,
    "covers_paper_id": None,
    "state": DeliveryState.QUEUED,
    "reason": "",
    "attempts": 0,
    "in_doubt": 0,
    "settled_at": None,
}


def queue_letter(  # noqa: PLR0913  (the columns of a delivery, by keyword)
    session: Session,
    *,
    letter: PlannedLetter,
    subscriber_id: int | None,
    email: str,
    site: Site,
    now: datetime,
    due_at: datetime | None = None,
    expires_at: datetime | None = None,
    lane: Lane = Lane.PROMPT,
) -> int | None:
    """Write one letter and return its id, or None if the same letter was written before.

    The letter is due now or at `due_at`. The prompt lane, the default, is for letters that somebody is
    waiting for.
    """
    row = {
        **letter.columns(),
        "lane": lane,
        "subscriber_id": subscriber_id,
        "email": email,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "state": DeliveryState.QUEUED,
        "due_at": due_at or now,
        "expires_at": expires_at or (due_at or now) + LETTER_LIFE,
    }
    adding = db.upsert(session, Delivery).on_conflict_do_nothing(
        index_elements=["dedupe_key"], index_where=db.unique_where(DELIVERY_TABLE, ("dedupe_key",))
    )
    return session.execute(adding.values(row).returning(Delivery.id)).scalar_one_or_none()


def queue_bulk_letters(
    session: Session, rows: Sequence[Mapping[str, Any]], *, site: Site, now: datetime
) -> int:
    """Write many letters to the bulk lane, and return the number of new letters.

    A row has `subscriber_id email` and the columns of a planned letter; the same letter is written once.
    """
    same = {
        **DIGEST_DEFAULTS,
        "edition": None,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "due_at": now,
        "expires_at": now + LETTER_LIFE,
    }
    written = [{**same, **row} for row in rows]
    return len(db.insert_many(session, Delivery, written, key=("dedupe_key",), returning=("id",)))


def queue_digests(
    session: Session, rows: Sequence[Mapping[str, Any]], *, shared: Mapping[str, Any] = db.NO_VALUES
) -> dict[int, int]:
    """Write digests to the bulk lane and return {subscriber id: delivery id} of the new digests.

    A row has at least `subscriber_id edition dated_at due_at expires_at`; values that all rows share may be
    in `shared` instead. The rows of subscribers who already have the edition are skipped.
    """
    new = db.insert_many(
        session,
        Delivery,
        rows,
        shared=shared_values(rows, shared),
        key=("subscriber_id", "edition"),
        returning=("id", "subscriber_id"),
    )
    return {row.subscriber_id: row.id for row in new}


def queue_new_digests(
    session: Session, rows: Sequence[Mapping[str, Any]], *, shared: Mapping[str, Any] = db.NO_VALUES
) -> None:
    """Write digests like `queue_digests`, but faster, and with ids from `reserve_ids`.

    Raises IntegrityError if a subscriber already has the edition.
    """
    db.load_rows(session, Delivery, [{**DIGEST_DEFAULTS, **shared, **row} for row in rows])


def shared_values(rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns that all digests share and that the rows leave out."""
    own = rows[0] if rows else {}
    return {name: value for name, value in {**DIGEST_DEFAULTS, **shared}.items() if name not in own}


def reserve_ids(session: Session, count: int) -> Sequence[int]:
    """Return ids for `count` new deliveries.

    On SQLite the ids must be used before other deliveries are written.
    """
    return db.reserve_keys(session, Delivery, count)


def decided_editions(
    session: Session, subscriber_ids: Collection[int], now: datetime
) -> Mapping[int, frozenset[str]]:
    """Return {subscriber id: the editions that are decided already}, as far as they may still be open.

    After a change of time zone, an edition may be open for a day longer than it was when it was decided.
    """
    query = select(DELIVERY_TABLE.c.subscriber_id, DELIVERY_TABLE.c.edition).where(
        db.one_of(DELIVERY_TABLE.c.subscriber_id, subscriber_ids),
        DELIVERY_TABLE.c.edition.is_not(None),
        DELIVERY_TABLE.c.expires_at > now - MAX_ZONE_DIFFERENCE,
    )
    found: dict[int, set[str]] = defaultdict(set)
    for number, edition in session.connection().execute(query):
        found[number].add(edition)
    return {number: frozenset(names) for number, names in found.items()}
