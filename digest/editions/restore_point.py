"""Record when a backup was restored, because papers first seen earlier may already have been mailed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Observation

NAME = "restored"


def set_restore_point(session: Session, now: datetime) -> None:
    """Record that the database was restored now; the caller commits."""
    adding = db.upsert(session, Observation).values({"name": NAME, "at": now})
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_={"at": now}))


def restore_point(session: Session) -> datetime | None:
    """Return when the database was last restored, or None."""
    return session.scalar(select(Observation.at).where(Observation.name == NAME))
