"""Store incoming mail until it is processed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest import failpoints
from digest.db.tables import InboundMail, MailState
from digest.errors import NotFound

#: How long mail is kept for the operator to read.
KEEP_SHUNTED_FOR = timedelta(days=90)


def store_mail(
    session: Session, *, sender: str, recipients: list[str], content: bytes, now: datetime
) -> list[int]:
    """Store a message once for each recipient, commit, and return the ids."""
    rows = [
        InboundMail(
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
    failpoints.reach("mail-stored")
    return [row.id for row in rows]


def list_mails(session: Session, *, limit: int | None = None) -> Iterator[InboundMail]:
    """Yield the stored messages, oldest first, with only one in memory at a time."""
    yield from session.scalars(
        select(InboundMail).order_by(InboundMail.id).limit(limit), execution_options={"yield_per": 1}
    )


def count_mails(session: Session) -> int:
    """Return the number of stored messages."""
    return session.scalar(select(func.count()).select_from(InboundMail)) or 0


def get_mail(session: Session, number: int) -> InboundMail:
    """Return a message, or raise NotFound."""
    row = session.get(InboundMail, number)
    if row is None:
        raise NotFound(f"There is no message {number}. See: digest inbox list")
    return row


def delete_mail(session: Session, number: int) -> None:
    """Delete a message and commit; raise NotFound if no message has this number."""
    session.delete(get_mail(session, number))
    session.commit()


def delete_old_mails(session: Session, *, now: datetime) -> int:
    """Delete messages kept for the operator that are over 90 days old, and commit; return how many."""
    old = delete(InboundMail).where(
        InboundMail.state == MailState.SHUNTED, InboundMail.received_at < now - KEEP_SHUNTED_FOR
    )
    gone = session.execute(old.returning(InboundMail.id)).all()
    session.commit()
    return len(gone)
