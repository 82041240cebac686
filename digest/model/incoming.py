"""Mail that comes in: letters to us, what came back, and whom we must not write to."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class MailState(StrEnum):
    """How far we have come with a mail that arrived for us. One that was understood is not kept."""

    NEW = "new"  #: kept, not yet looked at
    SHUNTED = "shunted"  #: not understood: a person should look


class MailIn(Base):
    """A mail that arrived for us, kept until it is understood."""

    __tablename__ = "mail_in"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)
    sender: Mapped[str] = mapped_column(String(320), default="")  #: of the envelope; empty: a machine's
    recipient: Mapped[str] = mapped_column(String(320))  #: of the envelope
    content: Mapped[bytes] = mapped_column(LargeBinary)
    state: Mapped[MailState] = mapped_column(String(10), index=True)
    reason: Mapped[str] = mapped_column(default="")


class Notice(Base):
    """A provider's notice that was taken in: it may be sent again, and counts once."""

    __tablename__ = "notice"

    id: Mapped[str] = mapped_column(String(100), primary_key=True)  #: the provider's own
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class BounceRow(Base):
    """A mail of ours that came back, was refused or was reported: evidence, known by the address's hash."""

    __tablename__ = "bounce"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    delivery_id: Mapped[int | None] = mapped_column(
        ForeignKey("delivery.id", ondelete="SET NULL"), index=True
    )
    hmac: Mapped[str] = mapped_column(String(64), index=True)
    domain: Mapped[str] = mapped_column(String(255))  #: of the address: whole domains go wrong together
    kind: Mapped[str] = mapped_column(String(10))  #: hard, soft, policy or complaint
    status: Mapped[str] = mapped_column(String(12), default="")  #: `5.1.1`, where one was told
    said: Mapped[str] = mapped_column(default="")  #: the server's words, addresses taken out
    told_by: Mapped[str] = mapped_column(String(10))  #: smtp, dsn, words or report
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    forgiven_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: it no longer counts
    frozen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: came while its whole domain failed

    __table_args__ = (Index("ix_bounce_domain", "domain", "at"),)


class Suppression(Base):
    """An address we must not write to, known only by its keyed hash."""

    __tablename__ = "suppression"

    hmac: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str] = mapped_column(String(20))  #: operator, bounce, complaint, erased
    note: Mapped[str] = mapped_column(default="")
    since: Mapped[datetime] = mapped_column(UtcDateTime)
