"""Count the letters that strangers can cause, for each mailbox and network and day."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.limits import DailyCount


def count_today(session: Session, what: str, who: str, *, most: int, now: datetime) -> int | None:
    """Count one more on this day, and return its number; None if `most` is reached."""
    adding = db.upsert(session, DailyCount).values(what=what, who=who, day=now.date(), used=1)
    counting = adding.on_conflict_do_update(
        index_elements=["what", "who", "day"],
        set_={"used": DailyCount.used + 1},
        where=DailyCount.used < most,
    )
    return session.scalar(counting.returning(DailyCount.used))
