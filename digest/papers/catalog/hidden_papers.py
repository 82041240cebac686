"""Hide papers from pages, feeds and new digests, and show them again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.orm import Session, aliased

from digest.db.tables import AppearanceRow, PaperRow
from digest.papers import Paper
from digest.papers.catalog import queries


def hide(session: Session, reference: str, *, now: datetime) -> tuple[Paper, bool]:
    """Hide a paper and commit; return the paper and whether it was visible before.

    Raises NotFound if there is no such paper.
    """
    return set_hidden(session, reference, now)


def unhide(session: Session, reference: str) -> tuple[Paper, bool]:
    """Show a paper again and commit; return the paper and whether it was hidden before.

    Raises NotFound if there is no such paper.
    """
    return set_hidden(session, reference, None)


def hide_dump(session: Session, dump_id: int, *, now: datetime) -> int:
    """Hide the papers that only this dump lists, and commit; return the number of papers changed.

    Raises NotFound for an unknown dump.
    """
    return set_dump_hidden(session, dump_id, now)


def unhide_dump(session: Session, dump_id: int) -> int:
    """Show again the papers that only this dump lists, and commit; return the number of papers changed.

    Raises NotFound for an unknown dump.
    """
    return set_dump_hidden(session, dump_id, None)


def set_dump_hidden(session: Session, dump_id: int, at: datetime | None) -> int:
    """Hide the papers that only this dump lists, or show them again if `at` is None.

    Returns the number of papers changed.
    """
    queries.require_dump(session, dump_id)
    listed = papers_in(AppearanceRow.dump_id == dump_id)
    elsewhere = papers_in(AppearanceRow.dump_id != dump_id)
    is_only_here = PaperRow.id.in_(listed) & PaperRow.id.not_in(elsewhere.intersect(listed))
    changes = PaperRow.hidden_at.is_not(None) if at is None else PaperRow.hidden_at.is_(None)
    changing = update(PaperRow).where(is_only_here, changes).values(hidden_at=at)
    changed = session.connection().execute(changing).rowcount
    session.commit()
    return changed


def papers_in(dumps: ColumnElement[bool]) -> Select[int]:
    """Return the query for the papers of these dumps; a merged paper counts as the paper it was merged into."""
    listed = aliased(PaperRow)
    return (
        select(func.coalesce(listed.merged_into, listed.id))
        .join_from(listed, AppearanceRow, AppearanceRow.paper_id == listed.id)
        .where(dumps)
    )


def set_hidden(session: Session, reference: str, at: datetime | None) -> tuple[Paper, bool]:
    """Hide a paper, or show it again if `at` is None; return the paper and whether its visibility changed."""
    found = queries.find(session, reference)
    is_changed = found.is_hidden != (at is not None)
    if is_changed:
        session.execute(update(PaperRow).where(PaperRow.id == found.id).values(hidden_at=at))
    session.commit()
    return found, is_changed
