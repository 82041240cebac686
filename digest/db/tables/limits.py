"""Define the tables of the limits on sending: what was counted, and who has to wait until when.

A *scope* is what a limit applies to: a domain, a server (`smtp://relay.example.org:25`), or `*` for all mail.
"""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class RateCounter(Base):
    """The tokens left of a speed, or the letters that went out in one part of a quota's hour or day.

    Whoever counts a rate locks its part 0. A speed has no other part.
    """

    __tablename__ = "rate_counter"

    scope: Mapped[str] = mapped_column(String(280), primary_key=True)
    seconds: Mapped[int] = mapped_column(primary_key=True)  #: the period of the rate
    part: Mapped[int] = mapped_column(BigKey, primary_key=True)  #: parts of a quota are numbered from 1970 on
    tokens: Mapped[float]  #: of a speed: left at `counted_at`
    used: Mapped[int]  #: of a quota: letters in this part
    counted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: of a speed


class WarmUpDay(Base):
    """How many letters went out on a day of the warm-up that began on the day `since`."""

    __tablename__ = "warm_up_day"

    since: Mapped[date] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    used: Mapped[int]


class ConversationRow(Base):
    """A conversation that carries letters to a domain; a domain with a limit of 2 has the numbers 0 and 1."""

    __tablename__ = "conversation"

    domain: Mapped[str] = mapped_column(String(255), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)  #: whoever counts them locks number 0
    lease: Mapped[str] = mapped_column(String(32))  #: of the worker that has it
    until: Mapped[datetime] = mapped_column(UtcDateTime)


class DomainPause(Base):
    """Until when a domain or server gets no letters, and what is known about a domain that defers them."""

    __tablename__ = "domain_pause"

    scope: Mapped[str] = mapped_column(String(280), primary_key=True)
    until: Mapped[datetime] = mapped_column(UtcDateTime)
    strikes: Mapped[int]  #: pauses in a row; the next one is twice as long
    greylists: Mapped[bool]  #: it defers first tries and accepts second ones
    deferred: Mapped[list[str]] = mapped_column(
        JSON
    )  #: recipients deferred in a row, with none accepted since
    deferred_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: when the last one was


class CanaryWait(Base):
    """Until when the rest of an edition waits for the results of its first letters."""

    __tablename__ = "canary"

    edition: Mapped[str] = mapped_column(String(40), primary_key=True)
    until: Mapped[datetime] = mapped_column(UtcDateTime)
