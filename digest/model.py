"""The rows we keep: the schema of the whole product, in reading order.

What must never happen twice is a key here, not an `if` elsewhere. Times are UTC (`*_at`), days are
dates. Migrations are append-only; `tests/test_schema.py` compares them with these classes.
"""

from __future__ import annotations

from datetime import date, datetime, time
from enum import StrEnum

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, LargeBinary, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime

# ── the site ────────────────────────────────────────────────────────────────────────────────────


class Fingerprint(Base):
    """What a second machine must share with the first: keys, pepper, templates."""

    __tablename__ = "fingerprint"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str] = mapped_column(String(200))
    since: Mapped[datetime] = mapped_column(UtcDateTime)


class Pace(Base):
    """A token bucket, or a domain that asked us to slow down (`pause example.org`)."""

    __tablename__ = "pace"

    name: Mapped[str] = mapped_column(String(280), primary_key=True)
    tokens: Mapped[float]  #: left at that moment; of a pause: how many there were in a row
    at: Mapped[datetime] = mapped_column(UtcDateTime)  #: when they were counted; of a pause: its end


class Stop(Base):
    """Mail was stopped: since when, why, and whether that is over. At most one of a kind stands."""

    __tablename__ = "stop"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    covers: Mapped[str] = mapped_column(String(6))  #: bulk: digests; all: also what people wait for
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    said: Mapped[str]  #: why
    lifted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        Index(
            "ix_stop_standing",
            "covers",
            unique=True,
            postgresql_where=text("lifted_at IS NULL"),
            sqlite_where=text("lifted_at IS NULL"),
        ),
    )


class Heartbeat(Base):
    """The last sign of life of a role."""

    __tablename__ = "heartbeat"

    role: Mapped[str] = mapped_column(String(80), primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)


# ── the catalog ─────────────────────────────────────────────────────────────────────────────────


class DumpState(StrEnum):
    """What became of a dump."""

    LOADING = "loading"  #: being stored, or cut off while it was: reading it again goes on with it
    LOADED = "loaded"  #: its good records are in the catalog
    HELD = "held"  #: incomplete by its own count: waits for the operator
    REJECTED = "rejected"  #: unreadable, or too many bad records: nothing of it was loaded


class DumpRow(Base):
    """A dump we met, remembered by the hash of its content."""

    __tablename__ = "dump"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    path: Mapped[str]
    source: Mapped[str] = mapped_column(String(80), default="folder")
    format: Mapped[str | None] = mapped_column(String(40))
    date: Mapped[date | None]  #: the day it was observed
    order: Mapped[str] = mapped_column(String(10), default="none")  #: ranked, relevance or none
    state: Mapped[DumpState] = mapped_column(String(10))
    reason: Mapped[str | None]
    is_history: Mapped[bool] = mapped_column(default=False)
    is_sample: Mapped[bool] = mapped_column(default=False)
    papers: Mapped[int] = mapped_column(default=0)
    new: Mapped[int] = mapped_column(default=0)
    updated: Mapped[int] = mapped_column(default=0)
    unchanged: Mapped[int] = mapped_column(default=0)
    rejected: Mapped[int] = mapped_column(default=0)
    missing: Mapped[int | None]  #: papers it lacks by its own count; 0: it breaks off, nobody knows where
    usual: Mapped[int | None]  #: papers usual on its weekday, where it holds far fewer
    observed_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: the moment its figures hold for
    seen_at: Mapped[datetime | None] = mapped_column(
        UtcDateTime
    )  #: when its papers count as first seen, if that was another moment
    read_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SourceRow(Base):
    """Where dumps come from besides the folder, and when to ask there again."""

    __tablename__ = "source"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)  #: hf-daily, arxiv:cs.CL+cs.LG, ...
    kind: Mapped[str] = mapped_column(String(20))  #: the preset, or url
    url: Mapped[str]  #: what requests begin with
    order: Mapped[str] = mapped_column(String(10), default="none")  #: ranked, relevance or none
    every: Mapped[int]  #: seconds between two polls
    is_on: Mapped[bool] = mapped_column(default=True)
    since: Mapped[date]  #: the day it was turned on: what it tells of earlier days is no news
    next_poll_at: Mapped[datetime] = mapped_column(UtcDateTime)
    polled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    failures: Mapped[int] = mapped_column(default=0)  #: in a row
    result: Mapped[str] = mapped_column(default="")  #: what came of the last poll
    validators: Mapped[dict[str, list[str | None]]] = mapped_column(
        JSON, default=dict
    )  #: ETag and Last-Modified of each URL, to ask for nothing that is known


class HostRow(Base):
    """A server we fetch from: until when everybody leaves it in peace."""

    __tablename__ = "host"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    free_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ProblemRow(Base):
    """A record that could not be read, kept with its place and reason."""

    __tablename__ = "problem"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    dump_id: Mapped[int] = mapped_column(ForeignKey("dump.id", ondelete="CASCADE"), index=True)
    line: Mapped[int]
    reason: Mapped[str]
    excerpt: Mapped[str] = mapped_column(default="")


class PaperRow(Base):
    """A paper in the catalog; its ids of the world are in `alias`."""

    __tablename__ = "paper"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    title: Mapped[str]
    abstract: Mapped[str] = mapped_column(default="")
    abstract_is_summary: Mapped[bool] = mapped_column(default=False)
    authors: Mapped[list[str]] = mapped_column(JSON, default=list)
    n_authors: Mapped[int | None]
    organization_handle: Mapped[str | None]
    organization_name: Mapped[str | None]
    published: Mapped[date | None]
    published_inferred: Mapped[bool] = mapped_column(default=False)
    posted: Mapped[date | None]  #: the day a page featured it
    categories: Mapped[list[str]] = mapped_column(JSON, default=list)
    urls: Mapped[list[str]] = mapped_column(JSON, default=list)
    announcement: Mapped[str] = mapped_column(String(10), default="new")
    comment: Mapped[str] = mapped_column(default="")
    journal: Mapped[str] = mapped_column(default="")
    first_seen_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    is_history: Mapped[bool] = mapped_column(default=False)  #: back-filled: in the catalog, never news
    is_sample: Mapped[bool] = mapped_column(default=False)
    merged_into: Mapped[int | None] = mapped_column(
        ForeignKey("paper.id")
    )  #: the paper this turned out to be

    __table_args__ = ({"sqlite_autoincrement": True},)  # an id is never used again


class Alias(Base):
    """An id of the world, or the strict title key, and the one paper it belongs to."""

    __tablename__ = "alias"

    scheme: Mapped[str] = mapped_column(String(20), primary_key=True)  #: arxiv, doi, pmid, ..., title
    value: Mapped[str] = mapped_column(String(500), primary_key=True)
    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), index=True)


class Appearance(Base):
    """A paper stood in a dump, at this place."""

    __tablename__ = "appearance"

    dump_id: Mapped[int] = mapped_column(ForeignKey("dump.id", ondelete="CASCADE"), primary_key=True)
    paper_id: Mapped[int] = mapped_column(
        ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    position: Mapped[int]
    line: Mapped[int]


class SignalRow(Base):
    """An observed figure of attention at a moment; history, never only the last value."""

    __tablename__ = "signal"

    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True)
    source: Mapped[str] = mapped_column(String(80), primary_key=True)
    name: Mapped[str] = mapped_column(String(20), primary_key=True)  #: upvotes, comments, stars, ...
    observed_at: Mapped[datetime] = mapped_column(UtcDateTime, primary_key=True)
    value: Mapped[float]


class ChangeKind(StrEnum):
    """What may become of a paper after it was told of."""

    WITHDRAWN = "withdrawn"  #: taken back by its authors
    PUBLISHED = "published"  #: a journal took it
    REWRITTEN = "rewritten"  #: a new version that changed much


class ChangeRow(Base):
    """What became of a paper that the catalog had: each kind once."""

    __tablename__ = "change"

    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[ChangeKind] = mapped_column(String(10), primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    says: Mapped[str]  #: where it was published, what it was called before, why it was taken back


# ── the people ──────────────────────────────────────────────────────────────────────────────────


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

    __table_args__ = ({"sqlite_autoincrement": True},)


class Suppression(Base):
    """An address we must not write to, known only by its keyed hash."""

    __tablename__ = "suppression"

    hmac: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str] = mapped_column(String(20))  #: operator, bounce, complaint, erased
    note: Mapped[str] = mapped_column(default="")
    since: Mapped[datetime] = mapped_column(UtcDateTime)


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


# ── the mail ────────────────────────────────────────────────────────────────────────────────────


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
    subscriber_id: Mapped[int | None] = mapped_column(ForeignKey("subscriber.id", ondelete="SET NULL"))
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
    settled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        UniqueConstraint("subscriber_id", "edition"),
        CheckConstraint("edition IS NOT NULL OR dedupe_key IS NOT NULL", name="identity"),
        Index(
            "ix_delivery_open",
            "lane",
            "due_at",
            postgresql_where=text("state IN ('queued', 'claimed', 'sending')"),
            sqlite_where=text("state IN ('queued', 'claimed', 'sending')"),
        ),
        Index(
            "ix_delivery_provider",
            "provider_id",
            postgresql_where=text("provider_id IS NOT NULL"),
            sqlite_where=text("provider_id IS NOT NULL"),
        ),
        {"sqlite_autoincrement": True},
    )


class Attempt(Base):
    """One try at a delivery: evidence, only ever appended to."""

    __tablename__ = "attempt"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    delivery_id: Mapped[int] = mapped_column(ForeignKey("delivery.id", ondelete="CASCADE"), index=True)
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
    carries no foreign keys: PostgreSQL would look up three rows for each one written.
    """

    __tablename__ = "shown"

    subscriber_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False, index=True)
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
