"""Two papers that turned out to be one: everything of the younger becomes the elder's."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, delete, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Alias, Appearance, ChangeRow, PaperRow, Shown, SignalRow, Subscriber, Told

#: What is kept of a paper, by the key it is kept under.
KEPT: tuple[tuple[type[db.Base], list[str]], ...] = (
    (Shown, ["subscriber_id", "paper_id"]),
    (Appearance, ["dump_id", "paper_id"]),
    (SignalRow, ["paper_id", "source", "name", "observed_at"]),
    (ChangeRow, ["paper_id", "kind"]),
    (Told, ["subscriber_id", "paper_id", "kind"]),
)


def repoint(session: Session, younger: int, elder: int) -> None:
    """Make everything that was the younger paper's the elder's: ids, showings, figures, places, changes."""
    session.execute(update(ALIAS).where(ALIAS.c.paper_id == younger).values(paper_id=elder))
    for row, key in KEPT:
        move(session, row, key, younger, elder)
    both = PAPER.c.id == younger, PAPER.c.merged_into == younger
    session.execute(update(PAPER).where(both[0] | both[1]).values(merged_into=elder))


def move(session: Session, row: type[db.Base], key: list[str], younger: int, elder: int) -> None:
    """Give the younger paper's rows of a table to the elder, which keeps its own where both have one."""
    table: Any = row.__table__
    columns = [column.name for column in table.columns]
    of_younger = kept_of(table, younger)
    theirs = select(*(literal(elder) if name == "paper_id" else table.c[name] for name in columns)).where(
        of_younger
    )
    statement = (
        db.upsert(session, row).from_select(columns, theirs).on_conflict_do_nothing(index_elements=key)
    )
    session.execute(statement)
    session.execute(delete(table).where(of_younger))


def kept_of(table: Any, paper_id: int) -> ColumnElement[bool]:
    """Return the condition for a paper's rows of a table; showings are looked up for one reader after the other.

    For 100,000 readers that takes a twentieth of a second. An index would cost more every morning.
    """
    theirs: ColumnElement[bool] = table.c.paper_id == paper_id
    return theirs & table.c.subscriber_id.in_(select(Subscriber.id)) if table is SHOWN else theirs


ALIAS: Any = Alias.__table__
PAPER: Any = PaperRow.__table__
SHOWN: Any = Shown.__table__
