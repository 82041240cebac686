"""Define the tables of the service's own state: fingerprints, emergency stops, heartbeats and kept pages."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime, partial_index


class Fingerprint(Base):
    """A fingerprint of the keys, the pepper or the templates, which must be the same on all machines."""

    __tablename__ = "fingerprint"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str] = mapped_column(String(200))
    since: Mapped[datetime] = mapped_column(UtcDateTime)


class EmergencyStop(Base):
    """An emergency stop of all mail or of digests; at most one stop of each scope is in force."""

    __tablename__ = "emergency_stop"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    scope: Mapped[str] = mapped_column(String(6))  #: `bulk` stops digests, `all` stops all mail
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    reason: Mapped[str]  #: shown to the operator
    lifted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (partial_index("ix_stop_standing", "scope", unique=True, where="lifted_at IS NULL"),)


class Heartbeat(Base):
    """The last heartbeat of a process; a process that stops cleanly removes its row."""

    __tablename__ = "heartbeat"

    role: Mapped[str] = mapped_column(String(80), primary_key=True)
    host: Mapped[str] = mapped_column(String(255), primary_key=True, server_default="")
    pid: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, server_default="0")
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  #: None for the row of the task queue


class Observation(Base):
    """A condition to be reported to the operator, and when a process last observed it."""

    __tablename__ = "observation"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    note: Mapped[str] = mapped_column(default="")  #: what exactly was observed


class KeptPage(Base):
    """The page that answers a form, encrypted with a key that only the page's address contains."""

    __tablename__ = "kept_page"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)  #: a hash of the key
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    #: the keyed hash of the visitor's network; "" if it is unknown
    network: Mapped[str] = mapped_column(String(16), default="", index=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
