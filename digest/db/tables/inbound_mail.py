"""Define the tables of incoming mail: stored mail, provider notices, bounces and suppressions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime, partial_index


class MailState(StrEnum):
    """The states of an incoming message. Processed messages are deleted."""

    NEW = "new"  #: the message is stored, but not processed yet
    SHUNTED = "shunted"  #: the message is stored for the operator to read


class MailPurpose(StrEnum):
    """The purposes of our addresses; each has its own limits on stored mail."""

    NOTICE = "notice"  #: a provider's notices, whose signatures are verified
    SIGNED = "signed"  #: the signed addresses in our letters
    ROLE = "role"  #: the addresses that every domain must have (RFC 2142); the operator reads mail to them
    COMMANDS = "commands"  #: the address of the service


class InboundMail(Base):
    """An incoming message, stored until it is processed, or until the operator deletes it."""

    __tablename__ = "inbound_mail"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)
    #: the envelope sender, which is empty for bounces
    sender: Mapped[str] = mapped_column(String(320), default="")
    recipient: Mapped[str] = mapped_column(String(320))  #: the envelope recipient
    purpose: Mapped[MailPurpose] = mapped_column(String(10), index=True)  #: the purpose of the recipient
    network: Mapped[str] = mapped_column(
        String(60), default=""
    )  #: the network that sent it; empty if unknown
    content: Mapped[bytes] = mapped_column(LargeBinary)
    state: Mapped[MailState] = mapped_column(String(10), index=True)
    reason: Mapped[str] = mapped_column(default="")
    #: the version of Digest that kept the message for the operator; a later version reads it again
    kept_by: Mapped[str] = mapped_column(String(40), default="")

    __table_args__ = ({"sqlite_autoincrement": True},)  # the log names messages that are deleted


class ReceivedNotice(Base):
    """The id of a notice from a mail provider, stored so that a repeated notice is counted only once."""

    __tablename__ = "received_notice"

    id: Mapped[str] = mapped_column(String(100), primary_key=True)  #: the provider's id
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class BounceRow(Base):
    """A letter that bounced, was refused or was reported as spam; the address is stored as a keyed hash."""

    __tablename__ = "bounce"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    delivery_id: Mapped[int | None] = mapped_column(
        ForeignKey("delivery.id", ondelete="SET NULL"), index=True
    )
    hmac: Mapped[str] = mapped_column(String(64), index=True)
    #: the domain of the address, stored to detect domains at which many deliveries fail
    domain: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(10))  #: the kind of failure: hard, soft, policy or complaint
    status: Mapped[str] = mapped_column(
        String(12), default=""
    )  #: enhanced status code such as `5.1.1`; empty if unknown
    diagnostic: Mapped[str] = mapped_column(default="")  #: the server's reply, without addresses
    #: the origin of the failure report: smtp, dsn, words, report or notice
    reported_by: Mapped[str] = mapped_column(String(10))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    #: when the failure was forgiven; forgiven failures do not count
    forgiven_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: when the failure was frozen, because many addresses of the domain failed; frozen failures do not count
    frozen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_bounce_domain", "domain", "at"),)


class Suppression(Base):
    """A suppressed address, stored only as a keyed hash."""

    __tablename__ = "suppression"

    hmac: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str] = mapped_column(String(20))  #: operator, bounce, full, complaint or erased
    note: Mapped[str] = mapped_column(default="")
    since: Mapped[datetime] = mapped_column(UtcDateTime)


class OptOut(Base):
    """An opt-out or the end of one, such as a suppression, recorded so that no restored backup undoes it.

    The rows are appended to a file outside the database, because a restore replaces the database.
    """

    __tablename__ = "opt_out"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    kind: Mapped[str] = mapped_column(String(12))
    #: the keyed hash of a suppressed address, or the hash that identifies an erased subscriber
    hmac: Mapped[str] = mapped_column(String(64), default="")
    reason: Mapped[str] = mapped_column(String(20), default="")  #: why the address was suppressed
    #: the subscriber who unsubscribed or was erased
    subscriber_id: Mapped[int | None] = mapped_column(BigKey)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    #: when the opt-out was appended to the file
    saved_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        partial_index("ix_opt_out_unsaved", "id", where="saved_at IS NULL"),
        {"sqlite_autoincrement": True},
    )
