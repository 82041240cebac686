"""Merge two stored papers by moving the newer paper's rows to the older paper."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, delete, literal, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import FollowupSent, Shown
from digest.db.tables.papers import (
    AbstractShingle,
    Alias,
    AppearanceRow,
    ChangeRow,
    EarlierVersion,
    PaperRow,
    SignalRow,
)
from digest.db.tables.subscribers import SavedPaper, Subscriber

#: The tables that refer to a paper, and their unique keys.
OWNED_TABLES: tuple[tuple[type[db.Base], list[str]], ...] = (
    (Shown, ["subscriber_id", "paper_id"]),
    (AppearanceRow, ["dump_id", "paper_id"]),
    (SignalRow, ["paper_id", "source", "name", "observed_at"]),
    (ChangeRow, ["paper_id", "kind"]),
    (AbstractShingle, ["hash", "paper_id"]),
    (FollowupSent, ["subscriber_id", "paper_id", "kind"]),
    (SavedPaper, ["subscriber_id", "paper_id"]),
)


def merge_into(session: Session, younger: int, elder: int) -> None:
    """Move the newer paper's ids and rows in `OWNED_TABLES` to the older paper; hide it if either is hidden."""
    session.execute(update(ALIAS_TABLE).where(ALIAS_TABLE.c.paper_id == younger).values(paper_id=elder))
    session.execute(delete(EarlierVersion).where(EarlierVersion.paper_id == younger))
    for row, key in OWNED_TABLES:
        move_rows(session, row, key, younger, elder)
    hidden_at = select(PAPER_TABLE.c.hidden_at).where(PAPER_TABLE.c.id == younger).scalar_subquery()
    shown = (PAPER_TABLE.c.id == elder) & PAPER_TABLE.c.hidden_at.is_(None)
    session.execute(update(PAPER_TABLE).where(shown).values(hidden_at=hidden_at))
    both = PAPER_TABLE.c.id == younger, PAPER_TABLE.c.merged_into == younger
    session.execute(update(PAPER_TABLE).where(both[0] | both[1]).values(merged_into=elder))


def move_rows(session: Session, row: type[db.Base], key: list[str], younger: int, elder: int) -> None:
    """Move the newer paper's rows of a table to the older paper; on a conflict, keep the older paper's row."""
    table: Any = row.__table__
    columns = [column.name for column in table.columns]
    of_younger = rows_of_paper(table, younger)
    rows = select(*(literal(elder) if name == "paper_id" else table.c[name] for name in columns)).where(
        of_younger
    )
    statement = db.upsert(session, row).from_select(columns, rows).on_conflict_do_nothing(index_elements=key)
    session.execute(statement)
    session.execute(delete(table).where(of_younger))


def rows_of_paper(table: Any, paper_id: int) -> ColumnElement[bool]:
    """Return the condition that selects a paper's rows in a table.

    The table `shown` has no index by paper, so this condition searches it by subscriber. With 100,000
    subscribers, a search takes 50 ms; maintaining an index would cost more every morning.
    """
    condition: ColumnElement[bool] = table.c.paper_id == paper_id
    return condition & table.c.subscriber_id.in_(select(Subscriber.id)) if table is SHOWN_TABLE else condition


ALIAS_TABLE: Any = Alias.__table__
PAPER_TABLE: Any = PaperRow.__table__
SHOWN_TABLE: Any = Shown.__table__
