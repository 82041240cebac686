"""Record since when no mail server takes letters: it cannot be reached, or refuses TLS or the login.

Such a try is no attempt at any letter, so the attempts do not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, exists, false, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt
from digest.db.tables.service_state import Observation
from digest.delivery.outbox.attempts import printable
from digest.delivery.outbox.open_deliveries import DELIVERY_TABLE, IS_OPEN

NAME = "no mail server"
LAST_REPLY_AT = select(Attempt.ended_at).order_by(Attempt.id.desc()).limit(1).scalar_subquery()
HAS_REPLIED = func.coalesce(Observation.at < LAST_REPLY_AT, false())  #: whether a server replied since then


def note_silence(session: Session, reply: str, *, now: datetime) -> None:
    """Record that no server took a letter now, and the error; the first time counts until a server replies."""
    adding = db.upsert(session, Observation).values(name=NAME, at=now, note=printable(reply))
    since = case((HAS_REPLIED, now), else_=Observation.at)
    changed = {"note": printable(reply), "at": since}
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_=changed))


@dataclass(frozen=True, kw_only=True, slots=True)
class MailSilence:
    """A time in which no mail server takes letters."""

    since: datetime
    error: str


def find_silence(session: Session) -> MailSilence | None:
    """Return the current silence; None if no letter waits or a server has replied."""
    is_silent = Observation.name == NAME, ~HAS_REPLIED, exists(select(DELIVERY_TABLE.c.id).where(IS_OPEN))
    found = session.execute(select(Observation.at, Observation.note).where(*is_silent)).one_or_none()
    return MailSilence(since=found.at, error=found.note) if found else None
