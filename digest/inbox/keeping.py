"""Keeping: every mail has a row from the moment we say yes to it until it is understood."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest import failpoints
from digest.errors import NotFound
from digest.model import MailIn, MailState

KEPT_FOR = timedelta(days=90)  #: how long we wait for somebody to look at what we did not understand


def keep(session: Session, *, sender: str, recipients: list[str], content: bytes, now: datetime) -> list[int]:
    """Keep a mail for each of its recipients, for good, and return the ids."""
    rows = [
        MailIn(
            received_at=now,
            sender=sender[:320],
            recipient=recipient[:320],
            content=content,
            state=MailState.NEW,
        )
        for recipient in recipients
    ]
    session.add_all(rows)
    session.commit()
    failpoints.reach("mail-kept")
    return [row.id for row in rows]


def listing(session: Session, *, limit: int | None = None) -> Iterator[MailIn]:
    """Yield the mails that are kept, oldest first, and hold no more of them than one."""
    yield from session.scalars(
        select(MailIn).order_by(MailIn.id).limit(limit), execution_options={"yield_per": 1}
    )


def count(session: Session) -> int:
    """Return how many mails are kept."""
    return session.scalar(select(func.count()).select_from(MailIn)) or 0


def get(session: Session, number: int) -> MailIn:
    """Return a mail, or raise NotFound."""
    row = session.get(MailIn, number)
    if row is None:
        raise NotFound(f"There is no mail {number}. See: digest inbox list")
    return row


def prune(session: Session, *, now: datetime) -> int:
    """Drop what nobody has looked at for a season; return how many that were."""
    old = delete(MailIn).where(MailIn.state == MailState.SHUNTED, MailIn.received_at < now - KEPT_FOR)
    gone = session.execute(old.returning(MailIn.id)).all()
    session.commit()
    return len(gone)
