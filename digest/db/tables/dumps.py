"""Define the tables of dumps: dumps, their sources, and records that could not be read."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class DumpState(StrEnum):
    """The states of a dump."""

    #: the dump is being loaded, or loading was interrupted and continues when the file is read again
    LOADING = "loading"
    LOADED = "loaded"  #: the valid records are in the catalog
    HELD = "held"  #: the dump is probably incomplete; the operator decides whether to load it
    REJECTED = "rejected"  #: the dump is unreadable or has too many bad records; nothing was loaded


class DumpRow(Base):
    """A dump, identified by the hash of its content."""

    __tablename__ = "dump"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    path: Mapped[str]
    source: Mapped[str] = mapped_column(String(80), default="folder")
    format: Mapped[str | None] = mapped_column(String(40))
    date: Mapped[date | None]  #: the dump's own date, else the operator's, else the day of the file
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
    #: number of papers missing according to the dump's own count; 0 if the number is unknown
    missing_papers: Mapped[int | None]
    #: the usual number of papers on the dump's weekday, if the dump has far fewer
    usual_papers: Mapped[int | None]
    observed_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: when the dump's signals were observed
    #: when the dump's papers count as first seen; None if that is at `observed_at`
    seen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    read_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SourceRow(Base):
    """A source that is polled for dumps, and when to poll it again."""

    __tablename__ = "source"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)  #: hf-daily, arxiv:cs.CL+cs.LG, ...
    kind: Mapped[str] = mapped_column(String(20))  #: the name of the preset, or `url`
    url: Mapped[str]  #: the beginning of the URLs of all requests
    order: Mapped[str] = mapped_column(String(10), default="none")  #: ranked, relevance or none
    interval_seconds: Mapped[int]  #: seconds between two polls
    is_on: Mapped[bool] = mapped_column(default=True)
    since: Mapped[date]  #: the day the source was enabled; papers of earlier days do not count as new
    next_poll_at: Mapped[datetime] = mapped_column(UtcDateTime)
    polled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    failures: Mapped[int] = mapped_column(default=0)  #: number of consecutive failed polls
    result: Mapped[str] = mapped_column(default="")  #: the result of the last poll, in words
    #: ETag and Last-Modified of each URL, for conditional requests
    validators: Mapped[dict[str, list[str | None]]] = mapped_column(JSON, default=dict)


class HostRow(Base):
    """A server from which dumps are fetched, and the time from which the next request to it is allowed."""

    __tablename__ = "host"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    next_request_at: Mapped[datetime] = mapped_column(UtcDateTime)


class UnreadDump(Base):
    """An unread file in the dumps folder of one machine."""

    __tablename__ = "unread_dump"

    machine: Mapped[str] = mapped_column(String(255), primary_key=True)
    folder: Mapped[str] = mapped_column(String(1000), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)  #: when the machine last saw the file


class ProblemRow(Base):
    """A record that could not be read, with its line and the reason."""

    __tablename__ = "problem"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    dump_id: Mapped[int] = mapped_column(ForeignKey("dump.id", ondelete="CASCADE"), index=True)
    line: Mapped[int]
    reason: Mapped[str]
    excerpt: Mapped[str] = mapped_column(default="")
