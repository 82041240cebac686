"""Store the papers that a subscriber saved."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import SavedPaper
from digest.errors import UsageError
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper

MAX_SAVED = 2000  #: maximum number of papers in one list


def save(session: Session, subscriber_id: int, paper_id: int, *, now: datetime) -> bool:
    """Add a paper to the subscriber's list; return False if the list already contains it.

    Raises UsageError if the list is full.
    """
    if is_saved(session, subscriber_id, paper_id):
        return False
    count = session.scalar(select(func.count()).where(SavedPaper.subscriber_id == subscriber_id)) or 0
    if count >= MAX_SAVED:
        raise UsageError(f"Your list has {MAX_SAVED:,} papers, the most it can hold. Remove some first.")
    session.add(SavedPaper(subscriber_id=subscriber_id, paper_id=paper_id, saved_at=now))
    session.flush()
    return True


def remove(session: Session, subscriber_id: int, paper_id: int) -> bool:
    """Remove a paper from the subscriber's list; return whether the list contained it."""
    is_it = SavedPaper.subscriber_id == subscriber_id, SavedPaper.paper_id == paper_id
    was_saved = is_saved(session, subscriber_id, paper_id)
    session.execute(delete(SavedPaper).where(*is_it))
    return was_saved


def is_saved(session: Session, subscriber_id: int, paper_id: int) -> bool:
    """Return whether a subscriber has saved a paper."""
    return session.get(SavedPaper, (subscriber_id, paper_id)) is not None


def list_saved(session: Session, subscriber_id: int) -> list[tuple[Paper, datetime]]:
    """Return the saved papers and the time each was saved, latest first; hidden papers are left out."""
    query = select(SavedPaper.paper_id, SavedPaper.saved_at).where(SavedPaper.subscriber_id == subscriber_id)
    saved_at = dict(session.execute(query.order_by(SavedPaper.saved_at.desc(), SavedPaper.paper_id)).all())
    found = {paper.id: paper for paper in queries.papers(session, ids=saved_at) if not paper.is_hidden}
    return [(found[number], at) for number, at in saved_at.items() if number in found]
