"""What we remember of ourselves: keys, speeds, stops and signs of life."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


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
