"""Record when a backup was restored.

Papers first seen before the restore may already have been mailed, so they are not mailed again.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.service_state import Observation

NAME = "restored"
RESTORED = "restored"  #: the recorded reason of letters and editions that a restore ended


def set_restore_point(session: Session, now: datetime) -> None:
    """Record `now` as the time of the last restore; the caller commits."""
    adding = db.upsert(session, Observation).values({"name": NAME, "at": now})
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_={"at": now}))


def restore_point(session: Session) -> datetime | None:
    """Return when the database was last restored from a backup, or None if it never was."""
    return session.scalar(select(Observation.at).where(Observation.name == NAME))
