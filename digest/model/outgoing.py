"""Mail that goes out: presses, deliveries and their attempts, and what readers have been shown and told."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime
from digest.model.papers import ChangeKind


class PressRow(Base):
    """A press, where every machine can read it, until no delivery made with it can be retried."""

    __tablename__ = "press"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)  #: the hash of its content
    key: Mapped[str] = mapped_column(String(64), index=True)  #: the hash of what it was made from
    made_at: Mapped[datetime] = mapped_column(UtcDateTime)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class DeliveryState(StrEnum):
    """The life of a delivery. The last six are terminal."""

    QUEUED = "queued"  #: decided, waiting for its moment
    CLAIMED = "claimed"  #: a worker holds it under a lease; nothing has been sent
    SENDING = "sending"  #: intent committed: from here to the reply nobody can know
    SENT = "sent"  #: the mail server took responsibility
    FAILED = "failed"  #: the mail server refused for good
    EXPIRED = "expired"  #: too late to be worth sending
    SUPPRESSED = "suppressed"  #: the address must not be written to, or has left
    STUCK = "stuck"  #: too often in doubt, or no longer the same bytes: a person must look
    EMPTY = "empty"  #: nothing to say: recorded, nothing sent


class Lane(StrEnum):
    """Which queue a letter travels in."""

    PROMPT = "prompt"  #: somebody waits for it: confirm, welcome, replies
    BULK = "bulk"  #: the morning's digests


class Delivery(Base):
    """One letter to one address. It keeps the decision, never the bytes."""

    __tablename__ = "delivery"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int | None] = mapped_column(BigKey)
    email: Mapped[str | None] = mapped_column(String(320))  #: None after an erasure
    letter: Mapped[str] = mapped_column(String(20))
    lane: Mapped[Lane] = mapped_column(String(6))
    edition: Mapped[str | None] = mapped_column(String(24))  #: digests only
    dedupe_key: Mapped[str | None] = mapped_column(String(120), unique=True)  #: all other letters
    decision: Mapped[str] = mapped_column(default="{}")  #: JSON: what the letter says
    press: Mapped[str | None] = mapped_column(String(64))
    key_id: Mapped[str] = mapped_column(String(16), default="")  #: the key that signs its links
    dated_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: its Date header, on every attempt
    covers_from: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: papers first seen after this ...
    covers_to: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: ... and up to this
    covers_paper_id: Mapped[int | None] = mapped_column(BigKey)  #: the subscriber's cut_paper_id before it
    state: Mapped[DeliveryState] = mapped_column(String(10))
    reason: Mapped[str] = mapped_column(default="")
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: not before this moment
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: not after this one
    attempts: Mapped[int] = mapped_column(default=0)
    in_doubt: Mapped[int] = mapped_column(default=0)  #: attempts of which nobody can know
    lease: Mapped[str | None] = mapped_column(String(32))  #: the fencing token of who holds it
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    message_id: Mapped[str | None] = mapped_column(String(120))
    provider_id: Mapped[str | None] = mapped_column(String(120))  #: the Message-ID a provider gave it instead
    content_hash: Mapped[str | None] = mapped_column(String(64))  #: of the first attempt's bytes
    settled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: None as long as it is open

    __table_args__ = (
        # PostgreSQL would look up, and lock, the reader of each digest written, a third of what writing it takes.
        # Publishing holds them all, and who erases one waits for that; their ids are never used again.
        ForeignKeyConstraint(["subscriber_id"], ["subscriber.id"], ondelete="SET NULL").ddl_if("sqlite"),
        UniqueConstraint("subscriber_id", "edition"),
        CheckConstraint("edition IS NOT NULL OR dedupe_key IS NOT NULL", name="identity"),
        Index(
            "ix_delivery_open",
            "lane",
            "due_at",
            postgresql_where=text("settled_at IS NULL"),
            sqlite_where=text("settled_at IS NULL"),
        ),
        Index(
            "ix_delivery_provider",
            "provider_id",
            postgresql_where=text("provider_id IS NOT NULL"),
            sqlite_where=text("provider_id IS NOT NULL"),
        ),
        # Each page keeps room for what a claim and an intent make of the rows on it: a little more than they are.
        {"sqlite_autoincrement": True, "postgresql_with": {"fillfactor": 40}},
    )


class Attempt(Base):
    """One try at a delivery: evidence, only ever appended to.

    It carries no foreign key: PostgreSQL would look up, and lock, the delivery of each one written.
    """

    __tablename__ = "attempt"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    delivery_id: Mapped[int] = mapped_column(BigKey, index=True)
    lease: Mapped[str] = mapped_column(String(32))
    began_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    verdict: Mapped[str | None] = mapped_column(String(12))
    phase: Mapped[str] = mapped_column(String(12), default="")
    code: Mapped[int | None]
    reply: Mapped[str] = mapped_column(default="")


class Shown(Base):
    """A paper has been put into a subscriber's digest: the memory behind "never twice".

    A million readers make eight million of these a day, so the row is as small as it can be and
    carries no foreign keys: PostgreSQL would look up three rows for each one written. Nor has it a second
    index, which costs as much as the row itself: who asks by the paper asks for every reader.
    """

    __tablename__ = "shown"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    delivery_id: Mapped[int] = mapped_column(BigKey)
    shown_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False},)


class Told(Base):
    """A subscriber who was sent a paper has been told what became of it: each kind once."""

    __tablename__ = "told"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False, index=True)
    kind: Mapped[ChangeKind] = mapped_column(String(10), primary_key=True)
    delivery_id: Mapped[int] = mapped_column(BigKey, index=True)
    told_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False},)
