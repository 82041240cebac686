"""Limit the mail that is stored, separately for each purpose of our addresses.

Mail that can be processed is deleted immediately, so commands and reports take up space only briefly. They are
never refused because of mail that is kept for the operator, which has limits per sender and per network. Above
the total limit, the network that sent most gives way, so a flood displaces itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from digest.db.tables.inbound_mail import InboundMail, MailPurpose, MailState
from digest.errors import DigestError

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
NETWORK_LIMIT = StorageUse(mails=200, size=10 * MB)
SENDER_LIMIT = StorageUse(mails=50, size=5 * MB)

SIZE = func.length(InboundMail.content)


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
        shares[network] += share_of(size)
    left = list(kept)
    while not TOTAL_LIMIT.allows(StorageUse(mails=len(left), size=sum(size for _, _, size in left)), NOTHING):
        largest = max(shares, key=lambda network: shares[network])
        oldest = next(message for message in left if message[1] == largest)
        left.remove(oldest)
        gone.append(oldest[0])
        shares[largest] -= share_of(oldest[2])
    return gone


def share_of(size: int) -> int:
    """Return a message's share of the total limit, which counts both messages and bytes."""
    return size + TOTAL_LIMIT.size // TOTAL_LIMIT.mails


def is_full(session: Session) -> bool:
    """Return whether so much mail is kept that old mail must be deleted for new mail."""
    kept = InboundMail.state == MailState.SHUNTED
    return any(
        not TOTAL_LIMIT.allows(
            stored_use(session, kept, InboundMail.purpose == purpose), StorageUse(mails=1, size=2 * MB)
        )
        for purpose in MailPurpose
    )
