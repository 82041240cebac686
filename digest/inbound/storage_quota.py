"""Limit the mail that is stored unprocessed; when a limit is reached, senders are asked to try again later.

Mail that can be processed is deleted immediately, so bounces and commands take up space only briefly. Mail to
our bounce and unsubscribe addresses has a separate limit, so strangers who use up the other limit cannot block bounces.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from digest.db.tables import InboundMail
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


TOTAL_LIMIT = StorageUse(mails=1_000, size=50 * MB)
#: Limit per sender of mail to unsigned addresses, to which anybody may write.
SENDER_LIMIT = StorageUse(mails=50, size=5 * MB)
#: Limit per bounce or unsubscribe address; each belongs to one letter or reader.
RECIPIENT_LIMIT = StorageUse(mails=10, size=5 * MB)

RECIPIENT = func.lower(InboundMail.recipient)
IS_SIGNED = or_(RECIPIENT.startswith("bounce+"), RECIPIENT.startswith("unsubscribe+"))
#: The condition for provider notices, which are not limited because their signatures are verified.
NOTICES = RECIPIENT.startswith("arn:")


class InboxFull(DigestError):
    """The reason why a message cannot be stored now."""


def check_storage(session: Session, *, sender: str, recipients: list[str], size: int = 0) -> None:
    """Raise InboxFull unless a message of `size` bytes can be stored for each recipient."""
    for group in (True, False):
        inside = [each for each in recipients if is_signed_address(each) == group]
        if inside:
            check_storage_of_kind(
                session,
                is_signed=group,
                sender=sender,
                recipients=inside,
                adding=StorageUse(mails=len(inside), size=size * len(inside)),
            )


def check_storage_of_kind(
    session: Session, *, is_signed: bool, sender: str, recipients: list[str], adding: StorageUse
) -> None:
    """Raise InboxFull if storing `adding` would exceed a limit for signed or for other addresses."""
    if not TOTAL_LIMIT.allows(stored_use(session, IS_SIGNED if is_signed else ~IS_SIGNED, ~NOTICES), adding):
        raise InboxFull("too much unread mail is stored")
    if not is_signed and not SENDER_LIMIT.allows(
        stored_use(session, ~IS_SIGNED, func.lower(InboundMail.sender) == sender[:320].lower()), adding
    ):
        raise InboxFull("too much unread mail from this sender is stored")
    one = StorageUse(mails=1, size=adding.size // adding.mails)
    for recipient in recipients if is_signed else ():
        if not RECIPIENT_LIMIT.allows(stored_use(session, RECIPIENT.in_((recipient[:320].lower(),))), one):
            raise InboxFull("too much unread mail to this address is stored")


def is_signed_address(recipient: str) -> bool:
    """Return whether an address that we accept is a bounce or unsubscribe address."""
    return recipient.lower().startswith(("bounce+", "unsubscribe+"))


def stored_use(session: Session, *conditions: ColumnElement[bool]) -> StorageUse:
    """Return the number and size of stored messages that meet the conditions."""
    mails, size = session.execute(
        select(func.count(), func.coalesce(func.sum(func.length(InboundMail.content)), 0)).where(*conditions)
    ).one()
    return StorageUse(mails=mails, size=int(size))


def is_full(session: Session) -> bool:
    """Return whether another message from a stranger might not fit into the storage."""
    return not TOTAL_LIMIT.allows(stored_use(session, ~IS_SIGNED, ~NOTICES), StorageUse(mails=1, size=2 * MB))
