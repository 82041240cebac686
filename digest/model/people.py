"""The people: who asked for digests and how they agreed, their topics, and the filters these stand on."""

from __future__ import annotations

from datetime import date, datetime, time
from enum import StrEnum

from sqlalchemy import JSON, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class SubscriberState(StrEnum):
    """Whether we may write to an address."""

    PENDING = "pending"  #: asked for, not yet confirmed by its owner: nothing but one confirmation goes there
    ACTIVE = "active"  #: confirmed: gets digests
    PAUSED = "paused"  #: on leave, until a date or until it says so
    UNSUBSCRIBED = "unsubscribed"  #: left: gets nothing


class Subscriber(Base):
    """An address that asked for digests, and how it wants them."""

    __tablename__ = "subscriber"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    email: Mapped[str] = mapped_column(String(320))  #: as typed, for the envelope
    email_key: Mapped[str] = mapped_column(String(320), unique=True)  #: folded: one person, one row
    name: Mapped[str] = mapped_column(default="")
    state: Mapped[SubscriberState] = mapped_column(String(12))
    cadence: Mapped[str] = mapped_column(String(10), default="daily")
    at: Mapped[time] = mapped_column(default=time(8))  #: the local hour of the digest
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    weekday: Mapped[int] = mapped_column(default=0)  #: for weekly: 0 is Monday
    not_after: Mapped[time | None]
    language: Mapped[str] = mapped_column(String(12), default="en")
    max_papers: Mapped[int] = mapped_column(default=10)
    max_per_topic: Mapped[int] = mapped_column(default=10)
    min_papers: Mapped[int] = mapped_column(default=1)  #: fewer than this: no digest
    max_age_days: Mapped[int | None]  #: only papers published within so many days
    wants_trending: Mapped[bool] = mapped_column(default=False)  #: a trending section beside the topics
    wants_quiet_letters: Mapped[bool] = mapped_column(default=False)  #: a word where nothing matched
    epoch: Mapped[int] = mapped_column(default=0)  #: raising it revokes every link mailed before
    paused_until: Mapped[date | None]
    is_back: Mapped[bool] = mapped_column(default=False)  #: from a leave: the next digest catches up
    next_due_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: None: look at the schedule
    cut_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: papers up to here were considered
    cut_paper_id: Mapped[int | None] = mapped_column(BigKey)  #: and, for late dumps, up to this paper
    heard_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: when we last had something to say
    full_in_a_row: Mapped[str | None] = mapped_column(
        String(50)
    )  #: for each topic, in order: digests in a row, up to three, that had no room for all of it
    offered_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: when a narrower topic was offered
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    confirmed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    left_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: an unsubscribe can be undone for a while
    is_sample: Mapped[bool] = mapped_column(default=False)

    # An id is never used again: an old link must not open a newcomer's door.
    __table_args__ = (Index("ix_subscriber_due", "state", "next_due_at"), {"sqlite_autoincrement": True})


class FilterRow(Base):
    """A distinct filter in its canonical form, whoever holds it."""

    __tablename__ = "filter"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    canonical: Mapped[str] = mapped_column(String(2000), unique=True)


class PackRow(Base):
    """A version of a pack: named filters that a group shares. Only ever added."""

    __tablename__ = "pack"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    version: Mapped[int]
    description: Mapped[str] = mapped_column(default="")
    filters: Mapped[dict[str, str]] = mapped_column(JSON)  #: canonical filters by name
    stood_on: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)  #: versions of other packs, then
    text: Mapped[str]  #: the file
    published_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (UniqueConstraint("name", "version"),)


class Meaning(Base):
    """What a filter that uses packs stands for now: a filter without packs, which never changes.

    Digests keep the second, so a letter says the same whatever is published between its attempts.
    """

    __tablename__ = "meaning"

    filter_id: Mapped[int] = mapped_column(ForeignKey("filter.id"), primary_key=True, autoincrement=False)
    stands_for_id: Mapped[int] = mapped_column(ForeignKey("filter.id"))


class Subscription(Base):
    """One subscriber's interest in one topic."""

    __tablename__ = "subscription"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"))
    position: Mapped[int]  #: the order of sections in the digest
    name: Mapped[str] = mapped_column(String(80))
    filter_id: Mapped[int] = mapped_column(ForeignKey("filter.id"), index=True)
    typed: Mapped[str] = mapped_column(default="")  #: the filter as its owner spelled it

    __table_args__ = (UniqueConstraint("subscriber_id", "name"),)


class Consent(Base):
    """How somebody agreed: the proof that a mail was asked for."""

    __tablename__ = "consent"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    given_at: Mapped[datetime] = mapped_column(UtcDateTime)
    how: Mapped[str]  #: "confirmed by link", or the operator's own words
    address: Mapped[str | None] = mapped_column(String(64))  #: the network it came from, truncated


class Confirmation(Base):
    """A confirmation we asked for; the token in the letter is derived from it and never stored."""

    __tablename__ = "confirmation"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    made_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    wishes: Mapped[str] = mapped_column(default="{}")  #: JSON: what was asked for; applied when confirmed

    __table_args__ = (Index("ix_confirmation_made", "made_at"), {"sqlite_autoincrement": True})
