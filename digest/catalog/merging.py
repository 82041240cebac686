"""Two papers that turned out to be one: everything of the younger becomes the elder's."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Alias, Appearance, ChangeRow, PaperRow, Shown, SignalRow, Told

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
    theirs = select(*(literal(elder) if name == "paper_id" else table.c[name] for name in columns)).where(
        table.c.paper_id == younger
    )
    statement = (
        db.upsert(session, row).from_select(columns, theirs).on_conflict_do_nothing(index_elements=key)
    )
    session.execute(statement)
    session.execute(delete(table).where(table.c.paper_id == younger))


ALIAS: Any = Alias.__table__
PAPER: Any = PaperRow.__table__
