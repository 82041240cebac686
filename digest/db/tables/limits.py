"""Define the tables of the limits on sending: counters, conversations and pauses.

The *scope* of a limit is a domain, a server (`smtp://relay.example.org:25`), or `*` for all mail.
"""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class RateCounter(Base):
    """The counter of one rate limit, such as a number of letters per hour.

    A rate per second or minute is a token bucket: one row, for part 0, stores the tokens left. A rate per
    hour or day is a quota: its period is divided into 24 parts, and each row counts the letters sent in one
    part. Every rate has a row for part 0, which is locked while letters are counted.
    """

    __tablename__ = "rate_counter"

    scope: Mapped[str] = mapped_column(String(280), primary_key=True)
    seconds: Mapped[int] = mapped_column(primary_key=True)  #: the length of the rate's period
    #: for a quota, the number of this part, counted from 1970; 0 for the row that is locked
    part: Mapped[int] = mapped_column(BigKey, primary_key=True)
    tokens: Mapped[float]  #: for a token bucket, the tokens left at `counted_at`
    used: Mapped[int]  #: for a quota, the number of letters sent in this part
    counted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: set only for a token bucket


class DailyCount(Base):
    """The number of letters that one mailbox or network has caused on a day (UTC)."""

    __tablename__ = "daily_count"

    what: Mapped[str] = mapped_column(String(40), primary_key=True)  #: the kind of letters
    who: Mapped[str] = mapped_column(String(64), primary_key=True)  #: a keyed hash; "" for everybody together
    day: Mapped[date] = mapped_column(primary_key=True)
    used: Mapped[int]


class WarmUpDay(Base):
    """The number of letters sent on a day of the warm-up that began on `since`."""

    __tablename__ = "warm_up_day"

    since: Mapped[date] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    used: Mapped[int]


class ConversationRow(Base):
    """An SMTP conversation with a domain; if two are allowed at a time, they have the numbers 0 and 1."""

    __tablename__ = "conversation"

    domain: Mapped[str] = mapped_column(String(255), primary_key=True)
    #: a domain's conversations are counted while its row with number 0 is locked
    number: Mapped[int] = mapped_column(primary_key=True)
    #: the fencing token of the worker that holds the conversation
    lease: Mapped[str] = mapped_column(String(32))
    until: Mapped[datetime] = mapped_column(UtcDateTime)


class DomainPause(Base):
    """A pause in sending to a domain or server, and the deferrals observed for a domain."""

    __tablename__ = "domain_pause"

    scope: Mapped[str] = mapped_column(String(280), primary_key=True)
    until: Mapped[datetime] = mapped_column(UtcDateTime)
    #: number of consecutive pauses; each is twice as long as the previous one, up to an hour
    strikes: Mapped[int]
    #: the recipients deferred since the domain last accepted a letter
    deferred: Mapped[list[str]] = mapped_column(JSON)
    deferred_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: the time of the last deferral


class CanaryWait(Base):
    """The time until which the rest of an edition waits for the results of its first letters."""

    __tablename__ = "canary"

    edition: Mapped[str] = mapped_column(String(40), primary_key=True)
    until: Mapped[datetime] = mapped_column(UtcDateTime)
