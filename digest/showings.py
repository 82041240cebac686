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
from digest.model import Delivery, DeliveryState, Shown, Subscriber, Told

UNACCEPTED = (
    DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
)  # fmt: skip

SHOWN: Any = Shown.__table__
Showing = tuple[int, int, Sequence[int]]  #: subscriber id, delivery id, paper ids

# A digest shows ten papers: a list of them, which the database takes apart, costs half as much as a row each.
# PostgreSQL gets the lists of many readers at once, SQLite is handed one after the other.
PUT_ARRAYS = text(
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) "
    "SELECT s, unnest(CAST(p AS bigint[])), d, CAST(:shown_on AS date) FROM unnest("
    "CAST(:readers AS bigint[]), string_to_array(:papers, ';'), CAST(:deliveries AS bigint[])"
    ") AS new (s, p, d)"
)
PUT_LIST = (
    "INSERT INTO shown (subscriber_id, paper_id, delivery_id, shown_on) "
    "SELECT ?, value, ?, '{shown_on}' FROM json_each(?)"
)


def put_new(session: Session, digests: Sequence[Showing], *, shown_on: date) -> None:
    """Write what digests show; raises IntegrityError if somebody was shown some of it before.

    On PostgreSQL a row that may be there already costs half as much again as one that may not.
    """
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        readers, deliveries, papers = zip(*digests, strict=True)
        lists = {
            "readers": db.braced(readers),
            "papers": ";".join(map(db.braced, papers)),
            "deliveries": db.braced(deliveries),
        }
        connection.execute(PUT_ARRAYS, {**lists, "shown_on": shown_on})
    else:
        rows = [(reader, delivery, str([*papers])) for reader, delivery, papers in digests]
        connection.exec_driver_sql(PUT_LIST.format(shown_on=shown_on.isoformat()), rows)


def put(session: Session, showing: Showing, *, shown_on: date) -> None:
    """Write what a letter shows; what was shown before stays as it is."""
    reader, delivery, papers = showing
    names = ("subscriber_id", "delivery_id", "shown_on")
    same = dict(zip(names, (reader, delivery, shown_on), strict=True))
    if papers:
        adding = db.upsert(session, Shown).on_conflict_do_nothing()
        session.connection().execute(adding, [{**same, "paper_id": paper} for paper in papers])


def tell(session: Session, told: Sequence[Mapping[str, Any]]) -> None:
    """Write who was told what became of a paper; raises IntegrityError if somebody was told it before."""
    db.put_many(session, Told, told)


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
