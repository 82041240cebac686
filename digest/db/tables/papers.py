"""Define the tables of papers: papers, their ids, appearances in dumps, signals and changes."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from digest.db import Base, BigKey, UtcDateTime


class PaperRow(Base):
    """A paper in the catalog; its public ids are in `alias`."""

    __tablename__ = "paper"

    id: Mapped[int] = mapped_column(BigKey, primary_key=True)
    title: Mapped[str]
    abstract: Mapped[str] = mapped_column(default="")
    #: who wrote the AI summary used as the abstract; "" for the authors' own abstract
    summary_by: Mapped[str] = mapped_column(String(40), default="")
    authors: Mapped[list[str]] = mapped_column(JSON, default=list)
    n_authors: Mapped[int | None]
    organization_handle: Mapped[str | None]
    organization_name: Mapped[str | None]
    published: Mapped[date | None]
    published_inferred: Mapped[bool] = mapped_column(default=False)
    posted: Mapped[date | None]  #: the day a page featured the paper
    categories: Mapped[list[str]] = mapped_column(JSON, default=list)
    urls: Mapped[list[str]] = mapped_column(JSON, default=list)
    announcement: Mapped[str] = mapped_column(String(10), default="new")
    comment: Mapped[str] = mapped_column(default="")
    journal: Mapped[str] = mapped_column(default="")
    first_seen_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    #: whether the paper was loaded as history, or was already replaced or withdrawn when first seen; if so, no
    #: digest shows it as new
    is_history: Mapped[bool] = mapped_column(default=False)
    is_sample: Mapped[bool] = mapped_column(default=False)
    #: when the operator hid the paper
    hidden_at: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)
    #: the paper that replaced this paper in a merge
    merged_into: Mapped[int | None] = mapped_column(ForeignKey("paper.id"))

    __table_args__ = ({"sqlite_autoincrement": True},)  # ids are never reused


class Alias(Base):
    """A public id or a strict title key, and the paper that it identifies."""

    __tablename__ = "alias"

    scheme: Mapped[str] = mapped_column(String(20), primary_key=True)  #: arxiv, doi, pmid, ..., title
    value: Mapped[str] = mapped_column(String(500), primary_key=True)
    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), index=True)


class AppearanceRow(Base):
    """The position of a paper in a dump."""

    __tablename__ = "appearance"

    dump_id: Mapped[int] = mapped_column(ForeignKey("dump.id", ondelete="CASCADE"), primary_key=True)
    paper_id: Mapped[int] = mapped_column(
        ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    position: Mapped[int]
    line: Mapped[int]


class SignalRow(Base):
    """A measure of attention, such as upvotes, observed at one time; all observations are kept."""

    __tablename__ = "signal"

    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True)
    source: Mapped[str] = mapped_column(String(80), primary_key=True)
    name: Mapped[str] = mapped_column(String(20), primary_key=True)  #: upvotes, comments, stars, ...
    observed_at: Mapped[datetime] = mapped_column(UtcDateTime, primary_key=True)
    value: Mapped[float]


class AbstractShingle(Base):
    """The hash of a few words in a row in a paper's abstract, by which its other versions are found."""

    __tablename__ = "abstract_shingle"

    hash: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    paper_id: Mapped[int] = mapped_column(
        ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True, index=True, autoincrement=False
    )


class EarlierVersion(Base):
    """Another paper that is certainly an earlier version of the same work; the papers are not merged."""

    __tablename__ = "earlier_version"

    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True)
    earlier_id: Mapped[int] = mapped_column(
        ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class ChangeKind(StrEnum):
    """The kinds of changes of a paper about which its readers are notified."""

    WITHDRAWN = "withdrawn"  #: withdrawn by its authors
    PUBLISHED = "published"  #: published in a journal, or with a publisher's DOI
    REWRITTEN = "rewritten"  #: replaced by a new version whose title or abstract is largely different


class ChangeRow(Base):
    """A change of a paper in the catalog; each kind of change is recorded once per paper."""

    __tablename__ = "change"

    paper_id: Mapped[int] = mapped_column(ForeignKey("paper.id", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[ChangeKind] = mapped_column(String(10), primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    detail: Mapped[str]  #: the journal or DOI, the previous title, or the reason for the withdrawal
