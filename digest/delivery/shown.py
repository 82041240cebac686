"""Record which papers each subscriber was shown, so that no paper is shown twice.

A row is written in the same transaction as the delivery. The row is deleted if the reader certainly did not
see the letter, or once no digest can consider the paper any more. Callers commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Subquery,
    delete,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, FollowupSent, Shown
from digest.db.tables.subscribers import Subscriber

UNACCEPTED_STATES = (
    DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
)  # fmt: skip

SHOWN_TABLE: Any = Shown.__table__
FOLLOWUPS_TABLE: Any = FollowupSent.__table__
PRUNED_READERS = 100  #: number of readers whose old rows are deleted in one transaction
ShownPapers = tuple[int, int, Sequence[int]]  #: (subscriber id, delivery id, paper ids)


def record_new(session: Session, shown_papers: Iterable[tuple[*ShownPapers, date]]) -> None:
    """Record the papers of new digests; raise IntegrityError if a reader was already shown one of the papers."""
    rows = [
        {"subscriber_id": reader, "delivery_id": delivery, "paper_id": paper, "shown_on": shown_on}
        for reader, delivery, papers, shown_on in shown_papers
        for paper in papers
    ]
    db.load_rows(session, Shown, rows)


def record(session: Session, shown_papers: ShownPapers, *, shown_on: date) -> None:
    """Record that a reader was shown these papers; leave existing rows unchanged."""
    reader, delivery, papers = shown_papers
    shared = {"subscriber_id": reader, "delivery_id": delivery, "shown_on": shown_on}
    if papers:
        statement = db.upsert(session, Shown).on_conflict_do_nothing()
        session.connection().execute(statement, [{**shared, "paper_id": paper} for paper in papers])


def shown_to(
    session: Session, subscriber_ids: Collection[int], which: ColumnElement[bool]
) -> list[tuple[int, int]]:
    """Return (subscriber id, paper id) of those of these papers that these subscribers were shown.

    `which` is a condition on `SHOWN_TABLE`.
    """
    rows = shown_by_subscriber(session, which).c
    query = select(rows.subscriber_id, rows.paper_id)
    return [(row[0], row[1]) for row in session.connection().execute(query, {"ids": subscriber_ids})]


def shown_by_subscriber(session: Session, which: ColumnElement[bool]) -> Subquery:
    """Return the rows of `shown` that meet the condition, for the subscribers in the parameter `ids`."""
    reader: Column[int] = SHOWN_TABLE.c.subscriber_id
    return db.rows_by_key(
        db.dialect_name(session), SHOWN_TABLE, reader, db.values_param("ids", reader), which
    )


def release(session: Session, delivery_ids: Iterable[int]) -> int:
    """Release the papers of digests that the reader certainly did not see; return the number of digests.

    Only deliveries that ended without being accepted and without an attempt in doubt are released. To
    allow the papers and updates of these digests to be sent again, the subscriber's `considered_until` is
    reset to its value before the digest, if that value is earlier.
    """
    delivery_ids = list(delivery_ids)
    unseen = Delivery.id.in_(delivery_ids), Delivery.state.in_(UNACCEPTED_STATES), Delivery.in_doubt == 0
    session.execute(
        delete(FollowupSent)
        .where(FollowupSent.delivery_id.in_(select(Delivery.id).where(*unseen)))
        .execution_options(synchronize_session=False)
    )
    released = session.execute(
        select(Delivery.id, Delivery.subscriber_id, Delivery.covers_from, Delivery.covers_paper_id)
        .where(
            *unseen,
            Delivery.edition.is_not(None),
            Delivery.covers_from.is_not(None),
            Delivery.subscriber_id.is_not(None),
        )
        .order_by(Delivery.subscriber_id)
    ).all()
    if not released:
        return 0
    session.execute(
        delete(Shown)
        .where(tuple_(Shown.subscriber_id, Shown.delivery_id).in_([(row[1], row[0]) for row in released]))
        .execution_options(synchronize_session=False)
    )
    for row in released:
        session.execute(
            update(Subscriber)
            .where(Subscriber.id == row.subscriber_id, Subscriber.considered_until > row.covers_from)
            .values(considered_until=row.covers_from, considered_paper_id=row.covers_paper_id)
            .execution_options(synchronize_session=False)
        )
    return len(released)


def delete_old(session: Session, *, before: date, after: int = 0) -> Iterator[tuple[int, int]]:
    """Delete the rows about papers shown and updates sent before the day `before`, in batches of readers.

    Batches are in id order and start with the first reader whose id is greater than `after`. Yields (number
    of deleted `shown` rows, last reader's id) for each batch; the caller commits.
    """
    while last := last_of_next_batch(session, after):
        deleted = 0
        for table, day in (
            (FOLLOWUPS_TABLE, FOLLOWUPS_TABLE.c.sent_on),
            (SHOWN_TABLE, SHOWN_TABLE.c.shown_on),
        ):
            is_in_batch = table.c.subscriber_id > after, table.c.subscriber_id <= last
            deleted = session.connection().execute(delete(table).where(*is_in_batch, day < before)).rowcount
        yield deleted, last
        after = last


def last_of_next_batch(session: Session, after: int) -> int | None:
    """Return the id of the last reader in the next batch, or None if no readers are left."""
    following = (
        select(Subscriber.id).where(Subscriber.id > after).order_by(Subscriber.id).limit(PRUNED_READERS)
    )
    last: int | None = session.scalar(select(func.max(following.subquery().c.id)))
    return last
