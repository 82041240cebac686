"""Merge two stored papers by moving the newer paper's rows to the older paper."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, delete, exists, func, literal, select, update
from sqlalchemy.orm import Session, aliased

from digest import db
from digest.db.tables import (
    Alias,
    AppearanceRow,
    ChangeRow,
    FollowupSent,
    PaperRow,
    SavedPaper,
    Shown,
    SignalRow,
    Subscriber,
)

#: The tables that refer to a paper, and their unique keys.
OWNED_TABLES: tuple[tuple[type[db.Base], list[str]], ...] = (
    (AppearanceRow, ["dump_id", "paper_id"]),
    (SignalRow, ["paper_id", "source", "name", "observed_at"]),
    (ChangeRow, ["paper_id", "kind"]),
    (FollowupSent, ["subscriber_id", "paper_id", "kind"]),
    (SavedPaper, ["subscriber_id", "paper_id"]),
)


def merge_into(session: Session, younger: int, elder: int) -> None:
    """Move the newer paper's ids and rows to the older paper; hide it if either is hidden."""
    session.execute(update(ALIAS_TABLE).where(ALIAS_TABLE.c.paper_id == younger).values(paper_id=elder))
    for row, key in OWNED_TABLES:
        move_rows(session, row, key, younger, elder)
    merge_in_shown(session, younger, elder)
    hidden_at = select(PAPER_TABLE.c.hidden_at).where(PAPER_TABLE.c.id == younger).scalar_subquery()
    shown = (PAPER_TABLE.c.id == elder) & PAPER_TABLE.c.hidden_at.is_(None)
    session.execute(update(PAPER_TABLE).where(shown).values(hidden_at=hidden_at))
    both = PAPER_TABLE.c.id == younger, PAPER_TABLE.c.merged_into == younger
    session.execute(update(PAPER_TABLE).where(both[0] | both[1]).values(merged_into=elder))


def move_rows(session: Session, row: type[db.Base], key: list[str], younger: int, elder: int) -> None:
    """Move the newer paper's rows of a table to the older paper; on a conflict, keep the older paper's row."""
    table: Any = row.__table__
    columns = [column.name for column in table.columns]
    of_younger = table.c.paper_id == younger
    rows = select(*(literal(elder) if name == "paper_id" else table.c[name] for name in columns)).where(
        of_younger
    )
    statement = db.upsert(session, row).from_select(columns, rows).on_conflict_do_nothing(index_elements=key)
    session.execute(statement)
    session.execute(delete(table).where(of_younger))


def merge_in_shown(session: Session, younger: int, elder: int) -> None:
    """Replace the newer paper in the lists of shown papers; remove it if the reader was shown both."""
    others = aliased(SHOWN_TABLE, name="others")
    reader = others.c.subscriber_id == SHOWN_TABLE.c.subscriber_id
    has_both = exists().where(reader, others.c.last_paper_id >= elder, is_in_list(others, elder))
    last = SHOWN_TABLE.c.last_paper_id
    replace_in_shown(
        session,
        younger,
        case((has_both, ","), else_=f",{elder},"),
        last_paper_id=case((has_both | (last >= elder), last), else_=elder),
    )


def remove_from_shown(session: Session, paper_id: int) -> None:
    """Remove a paper from the lists of shown papers."""
    replace_in_shown(session, paper_id, literal(","))


def replace_in_shown(session: Session, paper_id: int, new: ColumnElement[str], **changes: Any) -> None:
    """Replace a paper, with the commas around it, in the lists of shown papers, and make these changes.

    The table `shown` has no index by paper, so the statement searches the lists of each subscriber from the
    paper's id on. Maintaining an index would cost more every morning.
    """
    papers = func.trim(func.replace(enclosed_papers(SHOWN_TABLE), f",{paper_id},", new), ",")
    with_paper = (
        SHOWN_TABLE.c.subscriber_id.in_(select(Subscriber.id)),
        SHOWN_TABLE.c.last_paper_id >= paper_id,
        is_in_list(SHOWN_TABLE, paper_id),
    )
    session.execute(update(SHOWN_TABLE).where(*with_paper).values(papers=papers, **changes))


def is_in_list(lists: Any, paper_id: int) -> ColumnElement[bool]:
    """Return the condition that a list of shown papers has this paper."""
    return enclosed_papers(lists).contains(f",{paper_id},")


def enclosed_papers(lists: Any) -> ColumnElement[str]:
    """Return the SQL for the papers of a list with a comma before and after each."""
    enclosed: ColumnElement[str] = "," + lists.c.papers + ","
    return enclosed


ALIAS_TABLE: Any = Alias.__table__
PAPER_TABLE: Any = PaperRow.__table__
SHOWN_TABLE: Any = Shown.__table__
