"""Showings: which paper was put into whose digest. The memory behind "never twice".

They are written in the transaction that writes the delivery, and taken back only where it is certain
that nobody has seen it. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
    TextClause,
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
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from digest import db
from digest.model import Delivery, DeliveryState, Shown, Subscriber, Told

UNACCEPTED = (
    DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
)  # fmt: skip

SHOWN: Any = Shown.__table__
TOLD: Any = Told.__table__
Showing = tuple[int, int, int]  #: subscriber id, paper id, delivery id

# Eight showings a digest: on PostgreSQL three arrays are four times as fast as a row of parameters
# each (and as text, "{1, 2}", five times as fast as value by value), on SQLite the driver's own loop is
# as fast as it gets.
PUT_ARRAYS = (
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) "
    "SELECT s, p, d, CAST(:shown_on AS date) FROM unnest("
    "CAST(:subscribers AS bigint[]), CAST(:papers AS bigint[]), CAST(:deliveries AS bigint[])"
    ") AS new (s, p, d)"
)
PUT_NEW = text(PUT_ARRAYS)
PUT_MISSING = text(f"{PUT_ARRAYS} ON CONFLICT DO NOTHING")
PUT_ROW = (
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) VALUES (?, ?, ?, '{shown_on}') "
    "ON CONFLICT DO NOTHING"
)


def put(session: Session, showings: Sequence[Showing], *, shown_on: date) -> int:
    """Write showings and return how many are new: what was shown before stays as it is."""
    return put_with(PUT_MISSING, session, showings, shown_on)


def put_new(session: Session, showings: Sequence[Showing], *, shown_on: date) -> bool:
    """Write showings and return whether all are new; if somebody was faster, the caller rolls back.

    On PostgreSQL a row that may be there already costs half as much again as one that may not.
    """
    try:
        return put_with(PUT_NEW, session, showings, shown_on) == len(showings)
    except IntegrityError:
        return False


def put_with(arrays: TextClause, session: Session, showings: Sequence[Showing], shown_on: date) -> int:
    """Write showings, on PostgreSQL by that statement, and return how many were written."""
    if not showings:
        return 0
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        columns = (f"{{{str(column)[1:-1].rstrip(',')}}}" for column in zip(*showings, strict=True))
        given = dict(zip(("subscribers", "papers", "deliveries"), columns, strict=True))
        return connection.execute(arrays, {**given, "shown_on": shown_on}).rowcount
    adding = PUT_ROW.format(shown_on=shown_on.isoformat())
    return connection.exec_driver_sql(adding, list(showings)).rowcount


def tell(session: Session, told: Sequence[Mapping[str, Any]]) -> int:
    """Write who was told what became of a paper, and return how much of it is new."""
    if not told:
        return 0
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        key = ("subscriber_id", "paper_id", "kind")
        return len(db.insert_arrays(connection, TOLD, told, key=key, returning=("paper_id",)))
    return connection.execute(db.upsert(session, Told).on_conflict_do_nothing(), list(told)).rowcount


def of(session: Session, subscriber_ids: Collection[int], *, since_id: int) -> list[tuple[int, int]]:
    """Return (subscriber id, paper id) of what these were shown, papers from `since_id` on.

    The bound lets a reader of many years cost as little as a new one: their old showings are never read.
    """
    connection = session.connection()
    asked = {"ids": subscriber_ids, "since_id": since_id}
    return [(row[0], row[1]) for row in connection.execute(since(connection.dialect.name), asked).all()]


@lru_cache
def since(dialect: str) -> Select[Any]:
    """Return the statement of `of`, put together once: that takes as long as sending it."""
    theirs = by_reader(dialect, SHOWN.c.paper_id >= bindparam("since_id")).c
    return select(theirs.subscriber_id, theirs.paper_id)


def by_reader(dialect: str, which: ColumnElement[bool]) -> Subquery:
    """Return the showings of the readers `ids` for which the condition holds, found by the readers' own key.

    Asked of all at once, PostgreSQL reads the whole table on a first morning, while its figures still say
    that nobody was shown anything. Asked of one after the other, the key is the shortest way whatever it knows.
    """
    readers = db.many("ids", SHOWN.c.subscriber_id)
    if dialect != "postgresql":
        return select(SHOWN).where(db.among(SHOWN.c.subscriber_id, readers), which).subquery("theirs")
    asked = func.unnest(cast(readers, ARRAY(BigInteger))).table_valued("id", name="asked").render_derived()
    theirs = select(SHOWN).where(SHOWN.c.subscriber_id == asked.c.id, which).offset(literal_column("0"))
    each = theirs.lateral("each")
    return select(each).select_from(asked.join(each, true())).subquery("theirs")


def release(session: Session, delivery_ids: Iterable[int]) -> int:
    """Take back what certainly nobody saw, and return how many digests that were.

    Only what ended unaccepted with no attempt in doubt is released. What a letter told of earlier papers
    will be told again, and the papers of a digest are news again: the subscriber's cut goes back to where
    it stood before, if that is earlier.
    """
    delivery_ids = list(delivery_ids)
    unseen = Delivery.id.in_(delivery_ids), Delivery.state.in_(UNACCEPTED), Delivery.in_doubt == 0
    session.execute(
        delete(Told)
        .where(Told.delivery_id.in_(select(Delivery.id).where(*unseen)))
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
        move_back(session, row)
    return len(released)


def move_back(session: Session, released: Any) -> None:
    """Let the subscriber's next digest begin where the released one did."""
    session.execute(
        update(Subscriber)
        .where(Subscriber.id == released.subscriber_id, Subscriber.cut_at > released.covers_from)
        .values(cut_at=released.covers_from, cut_paper_id=released.covers_paper_id)
        .execution_options(synchronize_session=False)
    )


def prune(session: Session, *, before: date) -> int:
    """Forget showings, and what was told, from before that day; return how many showings.

    Safe as long as the day lies further back than any digest reaches: a paper that old is no news.
    """
    session.execute(delete(Told).where(Told.told_on < before).execution_options(synchronize_session=False))
    forgetting = delete(Shown).where(Shown.shown_on < before).execution_options(synchronize_session=False)
    return session.connection().execute(forgetting).rowcount
