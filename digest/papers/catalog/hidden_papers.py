"""Hide papers from pages, feeds and new digests, and show them again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.orm import Session, aliased

from digest.db.tables.papers import AppearanceRow, PaperRow
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper


def hide(session: Session, reference: str, *, now: datetime, undo: bool = False) -> tuple[Paper, bool]:
    """Hide a paper, or show it again; return the paper and whether this changed anything.

    Raises NotFound if there is no such paper.
    """
    found = queries.find(session, reference)
    is_changed = found.is_hidden == undo
    if is_changed:
        hidden_at = None if undo else now
        session.execute(update(PaperRow).where(PaperRow.id == found.id).values(hidden_at=hidden_at))
    return found, is_changed


def hide_dump(session: Session, dump_id: int, *, now: datetime, undo: bool = False) -> int:
    """Hide the papers that only this dump lists, or show them again; return how many changed.

    Raises NotFound for an unknown dump.
    """
    queries.require_dump(session, dump_id)
    listed = papers_in(AppearanceRow.dump_id == dump_id)
    elsewhere = papers_in(AppearanceRow.dump_id != dump_id)
    is_only_here = PaperRow.id.in_(listed) & PaperRow.id.not_in(elsewhere.intersect(listed))
    changes = PaperRow.hidden_at.is_not(None) if undo else PaperRow.hidden_at.is_(None)
    changing = update(PaperRow).where(is_only_here, changes).values(hidden_at=None if undo else now)
    return session.connection().execute(changing).rowcount


def papers_in(dumps: ColumnElement[bool]) -> Select[int]:
    """Return the query for the papers of these dumps; a merged paper counts as the paper it was merged into."""
    listed = aliased(PaperRow)
    return (
        select(func.coalesce(listed.merged_into, listed.id))
        .join_from(listed, AppearanceRow, AppearanceRow.paper_id == listed.id)
        .where(dumps)
    )
