"""Hide papers from pages, feeds and new digests, and show them again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from digest.db.tables import PaperRow
from digest.papers import Paper
from digest.papers.catalog import queries


def hide(session: Session, reference: str, *, now: datetime) -> tuple[Paper, bool]:
    """Hide a paper; return the paper and whether it was shown before; raise NotFound if there is none; commits."""
    return set_hidden(session, reference, now)


def unhide(session: Session, reference: str) -> tuple[Paper, bool]:
    """Show a paper again; return the paper and whether it was hidden; raise NotFound if there is none; commits."""
    return set_hidden(session, reference, None)


def set_hidden(session: Session, reference: str, at: datetime | None) -> tuple[Paper, bool]:
    """Set when the paper was hidden; return the paper and whether this changed it."""
    found = queries.find(session, reference)
    is_changed = found.is_hidden != (at is not None)
    if is_changed:
        session.execute(update(PaperRow).where(PaperRow.id == found.id).values(hidden_at=at))
    session.commit()
    return found, is_changed
