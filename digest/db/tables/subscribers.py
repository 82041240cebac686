"""Define the tables of subscribers: settings, consents, topics, filters and packs."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, time
from enum import IntEnum, StrEnum
from typing import ClassVar

from sqlalchemy import JSON, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime, partial_index


class SubscriberState(StrEnum):
    """The states of a subscriber, which decide whether they get mail."""

    #: the owner has not confirmed the address, and gets only a confirmation or invitation, and a reminder
    PENDING = "pending"
    ACTIVE = "active"  #: the address is confirmed and gets digests
    PAUSED = "paused"  #: the digests are paused until a date, or until the subscriber resumes
    UNSUBSCRIBED = "unsubscribed"  #: the address gets no digests, only a goodbye letter and replies


#: The states of subscribers who have confirmed and not unsubscribed since.
SUBSCRIBED = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})


class StillReadingStep(IntEnum):
    """The steps of asking a long-inactive reader whether they still read their digests."""

    NONE = 0
    ASKED = 1  #: the question is in the reader's digests
    LETTER = 2  #: a letter asked the question; without a response, the digests are paused


class Subscriber(Base):
    """An address for which digests were requested, with its settings."""

    __tablename__ = "subscriber"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    email: Mapped[str] = mapped_column(String(320))  #: the address as typed, for the envelope
    #: the folded address, by which different spellings of an address are recognised as the same
    email_key: Mapped[str] = mapped_column(String(320), unique=True)
    name: Mapped[str] = mapped_column(default="")
    #: the address of the person who manages the subscription of a group, such as a mailing list; else None
    owner_email: Mapped[str | None] = mapped_column(String(320))
    state: Mapped[SubscriberState] = mapped_column(String(12))
    cadence: Mapped[str] = mapped_column(String(10), default="daily")
    at: Mapped[time] = mapped_column(default=time(8))  #: the local time of the digest
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    weekday: Mapped[int] = mapped_column(default=0)  #: the day of a weekly digest; 0 is Monday
    #: maximum number of papers in a digest, 1 to 50, for all topics together
    max_papers: Mapped[int] = mapped_column(default=10)
    #: the length of abstracts: `titles` (none), `short` (an excerpt of one or two sentences) or `full`
    abstracts: Mapped[str] = mapped_column(String(6), default="short")
    #: whether a short letter is sent when no paper matched
    wants_nothing_today_letters: Mapped[bool] = mapped_column(default=False)
    #: the version that a valid link must have; incrementing this number revokes all earlier links
    link_version: Mapped[int] = mapped_column(default=0)
    paused_until: Mapped[date | None]
    is_resumed: Mapped[bool] = mapped_column(default=False)  #: whether the next digest is a catch-up
    #: when the next digest is due; None to compute this time from the schedule
    next_due_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: papers first seen up to this time were considered for a digest
    considered_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: the highest id of a paper that was considered for a digest
    considered_paper_id: Mapped[int | None] = mapped_column(BigKey)
    #: when the last letter to the subscriber was created
    last_mail_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: when the subscriber accepted or declined a topic proposed from their saved papers; only papers saved
    #: later lead to a new proposal
    saved_topic_decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: when the subscriber last pressed a button or wrote to the service; opening a page does not count,
    #: because mail scanners open links
    last_active_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    still_reading_step: Mapped[int] = mapped_column(default=0)  #: StillReadingStep
    still_reading_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: when `still_reading_step` began
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    confirmed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: when the subscriber unsubscribed, which the subscriber can undo for 30 days
    unsubscribed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: why the subscriber unsubscribed, if a reason was given
    leaving_reason: Mapped[str] = mapped_column(String(200), default="")
    #: when `subscribers sync` last read a file that listed the address
    synced_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: whether `subscribers sync` unsubscribed the address because its file no longer listed it
    is_removed_by_sync: Mapped[bool] = mapped_column(default=False)
    is_sample: Mapped[bool] = mapped_column(default=False)

    # Ids are never reused, so that an old link cannot open a new subscriber's settings.
    __table_args__ = (
        Index("ix_subscriber_due", "state", "next_due_at"),
        partial_index("ix_subscriber_owner", "owner_email", where="owner_email IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    @property
    def is_group(self) -> bool:
        """Return whether the address belongs to a group, so that nothing personal may be sent to it."""
        return self.owner_email is not None

    @property
    def contact_email(self) -> str:
        """Return the address for personal letters: the owner's for a group, else the subscriber's."""
        return self.owner_email or self.email


class FilterRow(Base):
    """A distinct filter in its canonical form, shared by all topics that use it.

    The form of a topic by example contains the words of its examples, so it can be long.
    """

    __tablename__ = "filter"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    canonical: Mapped[str]
    fingerprint: Mapped[str] = mapped_column(
        String(64),
        unique=True,
        default=lambda row: filter_fingerprint(row.get_current_parameters()["canonical"]),
    )


def filter_fingerprint(canonical: str) -> str:
    """Return the key of a filter; an index of PostgreSQL cannot hold long texts."""
    return hashlib.sha256(canonical.encode()).hexdigest()


class ExampleRow(Base):
    """The words of an example of topics, kept so that the topics stay the same when its paper is removed."""

    __tablename__ = "example"

    reference: Mapped[str] = mapped_column(String(1000), primary_key=True)
    words: Mapped[str]


class PackRow(Base):
    """A version of a pack (named filters that a group shares); rows are only added."""

    __tablename__ = "pack"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    version: Mapped[int]
    description: Mapped[str] = mapped_column(default="")
    filters: Mapped[dict[str, str]] = mapped_column(JSON)  #: canonical filters, keyed by name
    #: the versions that the other packs had when this version was published
    dependency_versions: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)
    text: Mapped[str]  #: the source file
    published_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (UniqueConstraint("name", "version"),)


class ResolvedFilter(Base):
    """The pack-free filter to which a filter that uses packs currently resolves.

    Digests store the resolved filter, so publishing a pack between two attempts does not change a letter.
    """

    __tablename__ = "resolved_filter"

    filter_id: Mapped[int] = mapped_column(ForeignKey("filter.id"), primary_key=True, autoincrement=False)
    resolved_filter_id: Mapped[int] = mapped_column(ForeignKey("filter.id"))


class Subscription(Base):
    """A topic of one subscriber."""

    __tablename__ = "subscription"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"))
    position: Mapped[int]  #: the order of sections in the digest
    name: Mapped[str] = mapped_column(String(80))
    filter_id: Mapped[int] = mapped_column(ForeignKey("filter.id"), index=True)
    typed: Mapped[str] = mapped_column(default="")  #: the filter as its owner typed it
    is_muted: Mapped[bool] = mapped_column(default=False)  #: whether the topic is left out of digests

    __table_args__ = (UniqueConstraint("subscriber_id", "name"),)


class SettingsChange(Base):
    """A change of a subscriber's settings, which can be undone for 30 days."""

    __tablename__ = "settings_change"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)
    before: Mapped[str]  #: JSON (ReaderSettings)
    after: Mapped[str]


class OperatorAct(Base):
    """What an operator did to a subscriber with a command."""

    __tablename__ = "operator_act"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    operator: Mapped[str] = mapped_column(String(80))  #: the operator's account on the machine
    act: Mapped[str]


class SavedPaper(Base):
    """A paper in a subscriber's list of saved papers."""

    __tablename__ = "saved_paper"

    subscriber_id: Mapped[int] = mapped_column(
        ForeignKey("subscriber.id", ondelete="CASCADE"), primary_key=True
    )
    paper_id: Mapped[int] = mapped_column(
        ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    saved_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Consent(Base):
    """A subscriber's consent, stored as proof that mail was requested."""

    __tablename__ = "consent"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    given_at: Mapped[datetime] = mapped_column(UtcDateTime)
    how: Mapped[str]  #: such as "confirmed by link", or the operator's own words
    address: Mapped[str | None] = mapped_column(String(64))  #: the network address of the request, truncated


class Confirmation(Base):
    """A requested confirmation; the token in the letter is derived from the row and never stored."""

    __tablename__ = "confirmation"
    BY_OPERATOR: ClassVar = "operator"  #: the `network` of requests of the operator, which need not wait

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    subscriber_id: Mapped[int] = mapped_column(ForeignKey("subscriber.id", ondelete="CASCADE"), index=True)
    made_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    #: the address to which the letter goes, as typed in this request
    email: Mapped[str] = mapped_column(String(320), default="")
    #: JSON: the settings to apply when the request is confirmed
    requested_settings: Mapped[str] = mapped_column(default="{}")
    #: the signed message that requested the confirmation; copied to the consent
    evidence: Mapped[str] = mapped_column(default="")
    #: keyed hash of the network that sent the form, or of the domain that signed the message; deleted
    #: after 72 hours
    network: Mapped[str] = mapped_column(String(16), default="")
    #: whether the address was suppressed at sign-up, so that confirming lifts the suppression
    lifts_suppression: Mapped[bool] = mapped_column(default=False)

    __table_args__ = (Index("ix_confirmation_made", "made_at"), {"sqlite_autoincrement": True})


class SignUp(Base):
    """A sign-up waiting for its confirmation letter; deleted when the letter is queued, or after 48 hours."""

    __tablename__ = "sign_up"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    email: Mapped[str] = mapped_column(String(320))  #: as typed
    email_key: Mapped[str] = mapped_column(String(320))  #: folded
    #: a keyed hash of the network that sent the request
    network: Mapped[str] = mapped_column(String(16), index=True)
    requested_settings: Mapped[str] = mapped_column(default="{}")  #: JSON
    asked_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)

    # An address has one row for each network that entered it, so that a sign-up by a stranger cannot delay
    # the sign-up of the address's owner.
    __table_args__ = (UniqueConstraint("email_key", "network"), {"sqlite_autoincrement": True})
