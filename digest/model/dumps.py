"""Where papers come from: dumps, the sources we fetch them from, and what could not be read."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


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
