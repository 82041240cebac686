"""Record which papers each subscriber was shown, so that no paper is shown twice.

A row is written in the transaction that writes the delivery. It is deleted only if the delivery was
certainly not seen. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    select,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Delivery, DeliveryState, FollowupSent, Shown, Subscriber

UNACCEPTED_STATES = (
    DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
)  # fmt: skip

SHOWN_TABLE: Any = Shown.__table__
FOLLOWUPS_TABLE: Any = FollowupSent.__table__
PRUNED_READERS = 100  #: readers whose old rows are deleted in one transaction; rows are found by reader
ShownPapers = tuple[int, int, Sequence[int]]  #: subscriber id, delivery id, paper ids

# A digest shows ten papers. Sent as a list that the database unnests, they cost half as much as ten rows.
# PostgreSQL gets the lists of many readers at once, SQLite one list after the other.
INSERT_ARRAYS = text(
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) "
    "SELECT s, unnest(CAST(p AS bigint[])), d, CAST(:shown_on AS date) FROM unnest("
    "CAST(:readers AS bigint[]), string_to_array(:papers, ';'), CAST(:deliveries AS bigint[])"
    ") AS new (s, p, d)"
)
INSERT_LIST = (
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) "
    "SELECT ?, value, ?, '{shown_on}' FROM json_each(?)"
)


def record_new(session: Session, shown_papers: Sequence[ShownPapers], *, shown_on: date) -> None:
    """Record the papers of new digests; raise IntegrityError if a reader was shown one of them before.

    On PostgreSQL, ON CONFLICT would make each row cost half as much again.
    """
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        readers, deliveries, papers = zip(*shown_papers, strict=True)
        lists = {
            "readers": db.array_literal(readers),
            "papers": ";".join(map(db.array_literal, papers)),
            "deliveries": db.array_literal(deliveries),
        }
        connection.execute(INSERT_ARRAYS, {**lists, "shown_on": shown_on})
    else:
        rows = [(reader, delivery, str([*papers])) for reader, delivery, papers in shown_papers]
        connection.exec_driver_sql(INSERT_LIST.format(shown_on=shown_on.isoformat()), rows)


def record(session: Session, shown_papers: ShownPapers, *, shown_on: date) -> None:
    """Record the papers of a letter; rows that exist stay as they are."""
    reader, delivery, papers = shown_papers
    shared = {"subscriber_id": reader, "delivery_id": delivery, "shown_on": shown_on}
    if papers:
        statement = db.upsert(session, Shown).on_conflict_do_nothing()
        session.connection().execute(statement, [{**shared, "paper_id": paper} for paper in papers])


def record_followups(session: Session, followups: Sequence[Mapping[str, Any]]) -> None:
    """Record the updates sent; raise IntegrityError if a reader got one of them before."""
    db.insert_many(session, FollowupSent, followups)


def shown_to(session: Session, subscriber_ids: Collection[int], *, since_id: int) -> list[tuple[int, int]]:
    """Return (subscriber id, paper id) of the papers these subscribers were shown, ids from `since_id` on.

    The bound makes a reader of many years as cheap as a new one: their old rows are not read.
    """
    connection = session.connection()
    values = {"ids": subscriber_ids, "since_id": since_id}
    return [
        (row[0], row[1])
        for row in connection.execute(shown_since_query(connection.dialect.name), values).all()
    ]


@lru_cache
def shown_since_query(dialect: str) -> Select[Any]:
    """Return the statement of `shown_to`, built once: building it takes as long as running it."""
    rows = shown_by_subscriber(dialect, SHOWN_TABLE.c.paper_id >= bindparam("since_id")).c
    return select(rows.subscriber_id, rows.paper_id)


def shown_by_subscriber(dialect: str, which: ColumnElement[bool]) -> Subquery:
    """Return the `shown` rows of the readers `ids` that meet the condition, found by primary key.

    With one condition for all readers, PostgreSQL would scan the whole table on a first morning, while its
    statistics still say that the table is empty. A lateral join uses the key whatever the statistics say.
    """
    readers = db.values_param("ids", SHOWN_TABLE.c.subscriber_id)
    if dialect != "postgresql":
        return (
            select(SHOWN_TABLE)
            .where(db.one_of(SHOWN_TABLE.c.subscriber_id, readers), which)
            .subquery("found")
        )
    reader = func.unnest(cast(readers, ARRAY(BigInteger))).table_valued("id", name="reader").render_derived()
    own_rows = select(SHOWN_TABLE).where(SHOWN_TABLE.c.subscriber_id == reader.c.id, which)
    each = own_rows.offset(literal_column("0")).lateral("each")
    return select(each).select_from(reader.join(each, true())).subquery("found")


def release(session: Session, delivery_ids: Iterable[int]) -> int:
    """Release the papers of digests that were certainly not seen, and return how many digests that were.

    Only deliveries that ended unaccepted with no attempt in doubt are released. Their updates will be sent
    again, and their papers are new again: the subscriber's `considered_until` goes back to its earlier value,
    if that is earlier.
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
        restore_considered_until(session, row)
    return len(released)


def restore_considered_until(session: Session, released: Any) -> None:
    """Set the subscriber's `considered_until` back to where the released digest began."""
    session.execute(
        update(Subscriber)
        .where(Subscriber.id == released.subscriber_id, Subscriber.considered_until > released.covers_from)
        .values(considered_until=released.covers_from, considered_paper_id=released.covers_paper_id)
        .execution_options(synchronize_session=False)
    )


def delete_old(session: Session, *, before: date, after: int = 0) -> Iterator[tuple[int, int]]:
    """Delete the `shown` rows and sent updates from before a day, in batches of readers in id order.

    Begins after the reader `after`. Yields, for each batch, the number of `shown` rows and the last reader's
    id; the caller commits. Safe as long as the day is further back than any digest reaches.
    """
    while last := last_of_next_batch(session, after):
        old_shown = (
            SHOWN_TABLE.c.subscriber_id > after,
            SHOWN_TABLE.c.subscriber_id <= last,
            SHOWN_TABLE.c.shown_on < before,
        )
        old_followups = (
            FOLLOWUPS_TABLE.c.subscriber_id > after,
            FOLLOWUPS_TABLE.c.subscriber_id <= last,
            FOLLOWUPS_TABLE.c.sent_on < before,
        )
        session.connection().execute(delete(FOLLOWUPS_TABLE).where(*old_followups))
        yield session.connection().execute(delete(SHOWN_TABLE).where(*old_shown)).rowcount, last
        after = last


def last_of_next_batch(session: Session, after: int) -> int | None:
    """Return the id of the last reader in the next batch, or None if no reader is left."""
    following = (
        select(Subscriber.id).where(Subscriber.id > after).order_by(Subscriber.id).limit(PRUNED_READERS)
    )
    last: int | None = session.scalar(select(func.max(following.subquery().c.id)))
    return last
