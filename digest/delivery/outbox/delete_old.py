"""Delete attempts and deliveries after their retention period, in bounded batches.

Ids ascend with time, so the oldest rows have the lowest ids and are found without an index, which every new
letter would have to update. The caller commits after each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from sqlalchemy import case, delete, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.delivery.outbox.open_deliveries import ATTEMPT_TABLE, DELIVERY_TABLE

DELETE_BATCH = 1_000  #: rows per transaction; deleting a thousand takes a few hundredths of a second

#: Kinds of letters that an address gets only once; the keys of these letters are kept forever.
ONCE_ONLY = frozenset({"invite", "reminder"})


def prune_attempts(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete attempts that began before `before`; yield the number in each batch.

    Attempts at open deliveries are kept; the deliveries of the deleted attempts are compacted.
    """
    columns = (ATTEMPT_TABLE.c[name] for name in ("id", "delivery_id", "began_at"))
    in_order = select(*columns).order_by(ATTEMPT_TABLE.c.id).limit(DELETE_BATCH)
    after = 0
    while rows := session.execute(in_order.where(ATTEMPT_TABLE.c.id > after)).all():
        after = rows[-1].id
        past = [row for row in rows if row.began_at < before]
        if not past:
            return
        still_open = open_among(session, {row.delivery_id for row in past})
        gone = [row for row in past if row.delivery_id not in still_open]
        if gone:
            ids = [row.id for row in gone]
            session.execute(delete(ATTEMPT_TABLE).where(db.one_of(ATTEMPT_TABLE.c.id, ids)))
            compact_deliveries(session, {row.delivery_id for row in gone})
        yield len(gone)


def open_among(session: Session, ids: Collection[int]) -> set[int]:
    """Return the ids of the deliveries among these that are not settled."""
    among = db.one_of(DELIVERY_TABLE.c.id, list(ids))
    found = select(DELIVERY_TABLE.c.id).where(among, DELIVERY_TABLE.c.settled_at.is_(None))
    return set(session.scalars(found)) if ids else set()


def compact_deliveries(session: Session, ids: Collection[int]) -> None:
    """Clear the columns of these deliveries that are needed only for sending.

    The decisions of digests are kept for the archive and `digest why`.
    """
    session.execute(
        update(DELIVERY_TABLE)
        .where(db.one_of(DELIVERY_TABLE.c.id, list(ids)), DELIVERY_TABLE.c.settled_at.is_not(None))
        .values(
            content_hash=None,
            message_id=None,
            provider_id=None,
            lease=None,
            leased_until=None,
            decision=case((DELIVERY_TABLE.c.edition.is_(None), "{}"), else_=DELIVERY_TABLE.c.decision),
        )
    )


def prune_deliveries(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete deliveries settled before `before`; yield the number of deleted rows in each batch.

    The letters in `ONCE_ONLY` are kept with their keys, but their addresses are deleted.
    """
    columns = (DELIVERY_TABLE.c[name] for name in ("id", "letter", "dated_at", "settled_at"))
    in_order = select(*columns).order_by(DELIVERY_TABLE.c.id).limit(DELETE_BATCH)
    after = 0
    while rows := session.execute(in_order.where(DELIVERY_TABLE.c.id > after)).all():
        after = rows[-1].id
        past = [row for row in rows if row.settled_at is not None and row.settled_at < before]
        gone = [row.id for row in past if row.letter not in ONCE_ONLY]
        kept = [row.id for row in past if row.letter in ONCE_ONLY]
        if gone:
            session.execute(delete(ATTEMPT_TABLE).where(db.one_of(ATTEMPT_TABLE.c.delivery_id, gone)))
            session.execute(delete(DELIVERY_TABLE).where(db.one_of(DELIVERY_TABLE.c.id, gone)))
        if kept:
            addressed = (db.one_of(DELIVERY_TABLE.c.id, kept), DELIVERY_TABLE.c.email.is_not(None))
            session.execute(update(DELIVERY_TABLE).where(*addressed).values(email=None))
        yield len(gone)
        if all(row.dated_at >= before for row in rows):
            return
