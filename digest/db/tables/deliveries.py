"""Define the tables of outgoing mail: presses, deliveries, attempts, shown papers and updates sent."""

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
from digest.db.tables.papers import ChangeKind

#: Old rows are deleted every day: PostgreSQL should reuse their space before it takes more.
VACUUMED = {"autovacuum_vacuum_scale_factor": 0.02}


class PressRow(Base):
    """A press, stored for all machines until no delivery made with it can be retried."""

    __tablename__ = "press"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)  #: the hash of its content
    key: Mapped[str] = mapped_column(String(64), index=True)  #: the hash of what it was made from
    made_at: Mapped[datetime] = mapped_column(UtcDateTime)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class DeliveryState(StrEnum):
    """The life of a delivery. The last six are terminal."""

    QUEUED = "queued"  #: decided, waiting until it is due
    CLAIMED = "claimed"  #: a worker holds it under a lease; nothing has been sent
    SENDING = "sending"  #: intent committed: until the reply comes, it is unknown whether it was sent
    SENT = "sent"  #: the mail server accepted it
    FAILED = "failed"  #: the mail server refused it for good
    EXPIRED = "expired"  #: too late to be worth sending
    SUPPRESSED = "suppressed"  #: the address is suppressed or unsubscribed
    STUCK = "stuck"  #: too often in doubt, or the bytes would differ: a person must decide
    EMPTY = "empty"  #: no papers: recorded, nothing sent


class Lane(StrEnum):
    """The queue of a letter."""

    PROMPT = "prompt"  #: letters that somebody waits for: confirm, welcome, replies
    BULK = "bulk"  #: digests


class Delivery(Base):
    """One letter to one address; it stores the decision, never the bytes."""

    __tablename__ = "delivery"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int | None] = mapped_column(BigKey)
    email: Mapped[str | None] = mapped_column(String(320))  #: None after an erasure
    letter: Mapped[str] = mapped_column(String(20))
    lane: Mapped[Lane] = mapped_column(String(6))
    edition: Mapped[str | None] = mapped_column(String(24))  #: digests only
    dedupe_key: Mapped[str | None] = mapped_column(String(120), unique=True)  #: all other letters
    decision: Mapped[str] = mapped_column(default="{}")  #: JSON: the content of the letter
    press: Mapped[str | None] = mapped_column(String(64))
    key_id: Mapped[str] = mapped_column(String(16), default="")  #: the key that signs its links
    dated_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: its Date header, on every attempt
    covers_from: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: papers first seen after this ...
    covers_to: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: ... and up to this
    covers_paper_id: Mapped[int | None] = mapped_column(
        BigKey
    )  #: the subscriber's considered_paper_id before it
    state: Mapped[DeliveryState] = mapped_column(String(10))
    reason: Mapped[str] = mapped_column(default="")
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: not before this moment
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: not after this one
    attempts: Mapped[int] = mapped_column(default=0)
    in_doubt: Mapped[int] = mapped_column(default=0)  #: attempts with an unknown outcome
    lease: Mapped[str | None] = mapped_column(String(32))  #: the fencing token of the worker that holds it
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    message_id: Mapped[str | None] = mapped_column(String(120))
    provider_id: Mapped[str | None] = mapped_column(
        String(120)
    )  #: the Message-ID that a provider gave it instead
    content_hash: Mapped[str | None] = mapped_column(String(64))  #: of the first attempt's bytes
    settled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: None as long as it is open

    __table_args__ = (
        # On PostgreSQL the key would look up and lock the reader of each new digest, a third of the cost of writing it.
        # Publishing locks all readers, so an erasure waits for it; ids are never reused.
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
        # Each page has free space for the new row versions that a claim and an intent write.
        {"sqlite_autoincrement": True, "postgresql_with": {"fillfactor": 40, **VACUUMED}},
    )


class Attempt(Base):
    """One try at a delivery; rows are only appended.

    It has no foreign key, because PostgreSQL would look up and lock the delivery of each new row.
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

    __table_args__ = ({"postgresql_with": VACUUMED},)


class Shown(Base):
    """A paper has been put into a subscriber's digest: the memory behind "never twice".

    A million readers make eight million rows a day, so the row is as small as possible and has no
    foreign keys: PostgreSQL would look up three rows for each new one. A second index would cost as much
    as the row itself, and queries by paper read all readers anyway.
    """

    __tablename__ = "shown"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    delivery_id: Mapped[int] = mapped_column(BigKey)
    shown_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False, "postgresql_with": VACUUMED},)


class FollowupSent(Base):
    """A subscriber was sent an update to a paper they had been shown: each kind once."""

    __tablename__ = "followup_sent"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False, index=True)
    kind: Mapped[ChangeKind] = mapped_column(String(10), primary_key=True)
    delivery_id: Mapped[int] = mapped_column(BigKey, index=True)
    sent_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False},)
