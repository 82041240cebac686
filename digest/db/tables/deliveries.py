"""Define the tables of outgoing mail: presses, deliveries, attempts, shown papers and updates sent."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    DDL,
    CheckConstraint,
    ForeignKeyConstraint,
    LargeBinary,
    String,
    UniqueConstraint,
    event,
)
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime, partial_index
from digest.db.tables.papers import ChangeKind

#: Old rows are deleted every day. With this setting, PostgreSQL reuses the space of deleted rows sooner.
VACUUMED = {"autovacuum_vacuum_scale_factor": 0.02}


class PressRow(Base):
    """A press (the prepared content of one publication), stored so that any machine can retry its letters."""

    __tablename__ = "press"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)  #: the hash of the press's content
    key: Mapped[str] = mapped_column(String(64), index=True)  #: the hash of the press's inputs
    made_at: Mapped[datetime] = mapped_column(UtcDateTime)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class DeliveryState(StrEnum):
    """The states of a delivery; all states from SENT on are terminal."""

    QUEUED = "queued"  #: the letter waits until it is due
    CLAIMED = "claimed"  #: a worker holds a lease; nothing has been sent
    #: the intent to send is committed; until the server replies, it is unknown whether the letter was sent
    SENDING = "sending"
    SENT = "sent"  #: the mail server accepted the letter
    FAILED = "failed"  #: the mail server permanently refused the letter, or the operator gave it up
    EXPIRED = "expired"  #: the letter was not sent in time, or was open when a backup was restored
    SUPPRESSED = "suppressed"  #: the letter was not sent, because the recipient must not get it any more
    #: the letter was in doubt too often, its bytes would differ now, or it cannot be rendered; the operator
    #: decides
    STUCK = "stuck"
    EMPTY = "empty"  #: the edition had no papers, so no letter was sent


class Lane(StrEnum):
    """The queue in which a letter waits."""

    PROMPT = "prompt"  #: letters that a person is waiting for, such as confirmations and replies
    BULK = "bulk"  #: digests, and other letters that nobody is waiting for


class Delivery(Base):
    """A letter to one address; the row stores what the letter must contain, not the letter's bytes."""

    __tablename__ = "delivery"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int | None] = mapped_column(BigKey)
    email: Mapped[str | None] = mapped_column(String(320))  #: None after the reader's data is erased
    letter: Mapped[str] = mapped_column(String(20))
    lane: Mapped[Lane] = mapped_column(String(6))
    edition: Mapped[str | None] = mapped_column(String(24))  #: set only for digests
    dedupe_key: Mapped[str | None] = mapped_column(String(120))  #: set for all other letters
    decision: Mapped[str] = mapped_column(default="{}")  #: JSON: what the letter must contain
    press: Mapped[str | None] = mapped_column(String(64))
    key_id: Mapped[str] = mapped_column(String(16), default="")  #: the key that signs the letter's links
    dated_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: the Date header of every attempt
    #: the digest covers the papers first seen after `covers_from` and no later than `dated_at`; None if it has
    #: none, so that later editions cover them
    covers_from: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: the subscriber's `considered_paper_id` before this edition
    covers_paper_id: Mapped[int | None] = mapped_column(BigKey)
    state: Mapped[DeliveryState] = mapped_column(String(10))
    reason: Mapped[str] = mapped_column(default="")
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: the letter is not sent before this time
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: the letter is not sent after this time
    attempts: Mapped[int] = mapped_column(default=0)
    in_doubt: Mapped[int] = mapped_column(default=0)  #: number of attempts with an unknown outcome
    lease: Mapped[str | None] = mapped_column(String(32))  #: the fencing token of the leasing worker
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    message_id: Mapped[str | None] = mapped_column(String(120))
    #: the id that the mail server gave the letter: Amazon SES's Message-ID, or Postfix's queue id
    provider_id: Mapped[str | None] = mapped_column(String(120))
    #: the hash of the bytes of the first attempt
    content_hash: Mapped[str | None] = mapped_column(String(64))
    settled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: None while the delivery is open

    __table_args__ = (
        # A foreign key would make PostgreSQL look up and lock the reader of each new digest, which takes a
        # third as long as writing the digest. PostgreSQL needs no foreign key here: an erasure waits until
        # publishing, which locks all readers, has ended, and the ids of erased readers are never reused.
        ForeignKeyConstraint(["subscriber_id"], ["subscriber.id"], ondelete="SET NULL").ddl_if("sqlite"),
        UniqueConstraint("subscriber_id", "edition"),
        CheckConstraint("edition IS NOT NULL OR dedupe_key IS NOT NULL", name="identity"),
        partial_index(  # digests have no `dedupe_key`, so they need no entry
            "uq_delivery_dedupe_key",
            "dedupe_key",
            unique=True,
            where="dedupe_key IS NOT NULL",
        ),
        partial_index("ix_delivery_open", "lane", "due_at", where="settled_at IS NULL"),
        partial_index("ix_delivery_provider", "provider_id", where="provider_id IS NOT NULL"),
        partial_index("ix_delivery_in_doubt", "in_doubt", where="in_doubt > 0"),
        # Each page keeps free space for the new row versions that a claim and an intent to send write.
        {"sqlite_autoincrement": True, "info": {"postgresql": {"with": {"fillfactor": 40, **VACUUMED}}}},
    )


for index in ("pk_delivery", "uq_delivery_subscriber_id_edition"):
    # Settling a delivery adds a second entry to these indexes. Without free space for that entry, PostgreSQL
    # searches the page for old entries and splits the page, which takes 14% of the time per delivery.
    half_full: Any = DDL(f"ALTER INDEX {index} SET (fillfactor = 50)")  # type: ignore[no-untyped-call]
    event.listen(Delivery.__table__, "after_create", half_full.execute_if(dialect="postgresql"))


class Attempt(Base):
    """An attempt at a delivery; rows are only appended.

    The table has no foreign key, because PostgreSQL would look up and lock the delivery of each new row.
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

    __table_args__ = ({"info": {"postgresql": {"with": VACUUMED}}},)


class Shown(Base):
    """A paper that was included in a subscriber's digest, recorded so that no digest shows the paper again.

    A million readers cause eight million new rows a day, so the row is as small as possible. The table has no
    foreign keys, because PostgreSQL would then look up three rows for each new row, and no second index,
    because the index would cost as much as the row.
    """

    __tablename__ = "shown"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    delivery_id: Mapped[int] = mapped_column(BigKey)
    shown_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False, "info": {"postgresql": {"with": VACUUMED}}},)


class FollowupSent(Base):
    """An update about a shown paper, sent to a subscriber; each kind of update is sent once per paper."""

    __tablename__ = "followup_sent"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False, index=True)
    kind: Mapped[ChangeKind] = mapped_column(String(10), primary_key=True)
    delivery_id: Mapped[int] = mapped_column(BigKey, index=True)
    sent_on: Mapped[date]

    __table_args__ = ({"sqlite_with_rowid": False},)
