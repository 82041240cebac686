"""Store incoming mail until it is processed, and limit it, separately for each purpose of our addresses.

Mail that can be processed is deleted immediately, so commands and reports take up space only briefly. They are
never refused because of mail that is kept for the operator, which has limits per sender and per network. Above
the total limit, the network that sent most gives way, so a flood displaces itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from digest import __version__, db
from digest.db.tables.inbound_mail import InboundMail, MailPurpose, MailState, ReceivedNotice
from digest.errors import DigestError, NotFound
from digest.process import failpoints

log = logging.getLogger(__name__)

#: How long mail is kept for the operator to read.
KEEP_SHUNTED_FOR = timedelta(days=90)
#: How long the ids of notices are stored: longer than a notice stays valid, so that no notice counts twice.
REMEMBER_NOTICES_FOR = timedelta(days=3)
SNS_SENDER = "sns"  #: the value stored as the envelope sender of a notice, which has none

MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageUse:
    """A number of messages, and their total size in bytes."""

    mails: int
    size: int

    def allows(self, used: StorageUse, adding: StorageUse) -> bool:
        """Return whether `used` and `adding` together stay within this limit."""
        return used.mails + adding.mails <= self.mails and used.size + adding.size <= self.size


NOTHING = StorageUse(mails=0, size=0)
#: Limit per purpose: of mail that waits to be processed, and of mail that is kept.
TOTAL_LIMIT = StorageUse(mails=1_000, size=50 * MB)
SHARE_OF_A_MAIL = TOTAL_LIMIT.size // TOTAL_LIMIT.mails  #: the total limit counts both messages and bytes
NETWORK_LIMIT = StorageUse(mails=200, size=10 * MB)
SENDER_LIMIT = StorageUse(mails=50, size=5 * MB)

SIZE = func.length(InboundMail.content)


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
    if deleted := delete_surplus(session, row.purpose):
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


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


class InboxFull(DigestError):
    """The reason why a message cannot be stored now."""


def purpose_of(recipient: str) -> MailPurpose:
    """Return the purpose of an address that we accept."""
    if recipient.startswith("arn:"):
        return MailPurpose.NOTICE
    local = recipient.lower().rpartition("@")[0]
    if local in {"postmaster", "abuse"}:
        return MailPurpose.ROLE
    is_signed = local.startswith(("bounce+", "unsubscribe+", "reply+")) or "-confirm+" in local
    return MailPurpose.SIGNED if is_signed else MailPurpose.COMMANDS


def check_storage(
    session: Session, *, sender: str, network: str, recipient: str, size: int, may_be_kept: bool
) -> None:
    """Raise InboxFull unless a message of `size` bytes can be stored for this recipient.

    Mail that is kept for the operator counts only if this message may be kept, too.
    """
    adding, of_purpose = StorageUse(mails=1, size=size), InboundMail.purpose == purpose_of(recipient)
    waits = InboundMail.state == MailState.NEW
    if not TOTAL_LIMIT.allows(stored_use(session, of_purpose, waits), adding):
        raise InboxFull("too much mail waits to be processed")
    counted = [of_purpose] if may_be_kept else [of_purpose, waits]
    is_same_sender = func.lower(InboundMail.sender) == sender[:320].lower()
    if sender and not SENDER_LIMIT.allows(stored_use(session, *counted, is_same_sender), adding):
        raise InboxFull("too much unread mail from this sender is stored")
    if not NETWORK_LIMIT.allows(stored_use(session, *counted, InboundMail.network == network), adding):
        raise InboxFull("too much unread mail from this network is stored")


def stored_use(session: Session, *conditions: ColumnElement[bool]) -> StorageUse:
    """Return the number and size of stored messages that meet the conditions."""
    mails, size = session.execute(
        select(func.count(), func.coalesce(func.sum(SIZE), 0)).where(*conditions)
    ).one()
    return StorageUse(mails=mails, size=int(size))


def delete_surplus(session: Session, purpose: MailPurpose) -> int:
    """Delete kept mail above the total limit, the oldest of the network that sent most; return how many."""
    is_kept = InboundMail.purpose == purpose, InboundMail.state == MailState.SHUNTED
    kept = session.execute(
        select(InboundMail.id, InboundMail.network, SIZE).where(*is_kept).order_by(InboundMail.id)
    ).all()
    gone = surplus_of([(row.id, row.network, row[2]) for row in kept])
    session.execute(delete(InboundMail).where(InboundMail.id.in_(gone)))
    return len(gone)


def surplus_of(kept: Sequence[tuple[int, str, int]]) -> list[int]:
    """Return the ids to delete from messages given as (id, network, size), oldest first."""
    shares, gone = Counter[str](), list[int]()
    for _, network, size in kept:
        shares[network] += size + SHARE_OF_A_MAIL
    left = list(kept)
    while not TOTAL_LIMIT.allows(StorageUse(mails=len(left), size=sum(size for _, _, size in left)), NOTHING):
        largest = max(shares, key=lambda network: shares[network])
        oldest = next(message for message in left if message[1] == largest)
        left.remove(oldest)
        gone.append(oldest[0])
        shares[largest] -= oldest[2] + SHARE_OF_A_MAIL
    return gone


def is_full(session: Session) -> bool:
    """Return whether so much mail is kept that old mail must be deleted for new mail."""
    kept = InboundMail.state == MailState.SHUNTED
    return any(
        not TOTAL_LIMIT.allows(
            stored_use(session, kept, InboundMail.purpose == purpose), StorageUse(mails=1, size=2 * MB)
        )
        for purpose in MailPurpose
    )
