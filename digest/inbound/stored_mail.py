"""Store incoming mail until it is processed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from digest import __version__, db
from digest.db.tables.inbound_mail import InboundMail, MailState, ReceivedNotice
from digest.errors import NotFound
from digest.inbound import storage_quota
from digest.inbound.storage_quota import purpose_of
from digest.process import failpoints

log = logging.getLogger(__name__)

#: How long mail is kept for the operator to read.
KEEP_SHUNTED_FOR = timedelta(days=90)
#: How long the ids of notices are stored: longer than a notice stays valid, so that no notice counts twice.
REMEMBER_NOTICES_FOR = timedelta(days=3)
SNS_SENDER = "sns"  #: the value stored as the envelope sender of a notice, which has none


def store_mail(
    session: Session,
    *,
    sender: str,
    recipients: Sequence[str],
    content: bytes,
    network: str = "",
    now: datetime,
) -> list[int]:
    """Store a message once for each recipient, commit, and return the ids."""
    rows = [
        InboundMail(
            received_at=now,
            sender=sender[:320],
            recipient=recipient[:320],
            purpose=purpose_of(recipient),
            network=network,
            content=content,
            state=MailState.NEW,
        )
        for recipient in recipients
    ]
    session.add_all(rows)
    session.commit()
    failpoints.reach("mail-stored")
    return [row.id for row in rows]


def store_notice(session: Session, *, notice_id: str, topic: str, content: str, now: datetime) -> list[int]:
    """Store a provider's verified notice as a message, and return a list with its id; [] for a repeated notice.

    Commits.
    """
    new = db.upsert(session, ReceivedNotice).values(id=notice_id[:100], at=now).on_conflict_do_nothing()
    if session.execute(new.returning(ReceivedNotice.id)).first() is None:
        session.rollback()
        return []
    session.execute(delete(ReceivedNotice).where(ReceivedNotice.at < now - REMEMBER_NOTICES_FOR))
    return store_mail(session, sender=SNS_SENDER, recipients=[topic], content=content.encode(), now=now)


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


def keep(session: Session, row: InboundMail, reason: str) -> None:
    """Keep a message for the operator to read, with the reason; delete older mail above the limit."""
    row.state, row.reason, row.kept_by = MailState.SHUNTED, reason, __version__
    session.flush()
    if deleted := storage_quota.delete_surplus(session, row.purpose):
        log.warning("the inbox is full: %d older messages to %s addresses were deleted", deleted, row.purpose)


def read_again(session: Session) -> None:
    """Set messages that another version kept to new, because this one may understand them; commit."""
    kept = (InboundMail.state == MailState.SHUNTED, InboundMail.kept_by != __version__)
    session.execute(update(InboundMail).where(*kept).values(state=MailState.NEW))
    session.commit()


def find_mails(session: Session, *, sender: str | None = None) -> list[int]:
    """Return the ids of all messages, or of those from an address, from a domain with `@`, or from a network."""
    found = select(InboundMail.id).order_by(InboundMail.id)
    if sender is not None:
        address = func.lower(InboundMail.sender)
        is_from = [address == sender.lower(), InboundMail.network == sender]
        if sender.startswith("@"):
            is_from.append(address.endswith(sender.lower(), autoescape=True))
        found = found.where(or_(*is_from))
    return list(session.scalars(found))


def delete_mails(session: Session, numbers: Sequence[int]) -> None:
    """Delete these messages and commit."""
    session.execute(delete(InboundMail).where(db.one_of(InboundMail.__table__.c.id, numbers)))
    session.commit()


def delete_old_mails(session: Session, *, now: datetime) -> int:
    """Delete messages kept for the operator that are over 90 days old, and commit; return how many."""
    old = delete(InboundMail).where(
        InboundMail.state == MailState.SHUNTED, InboundMail.received_at < now - KEEP_SHUNTED_FOR
    )
    gone = session.execute(old.returning(InboundMail.id)).all()
    session.commit()
    return len(gone)
