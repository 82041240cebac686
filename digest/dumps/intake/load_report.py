"""Define the options and the result of loading a dump."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from digest.db.tables.dumps import DumpState
from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Record

LATEST = timedelta(days=7)  #: papers of a list that arrives up to this long after its day still count as new


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadResult:
    """The result of loading one dump."""

    path: Path
    state: DumpState
    id: int | None = None
    reason: str = ""
    format: str | None = None
    date: date | None = None
    papers: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected: int = 0  #: number of bad records; a truncated end counts as one
    problems: tuple[RecordProblem, ...] = ()
    is_known: bool = False  #: whether the same bytes were loaded before
    is_being_written: bool = False  #: whether the file was written to while it was being read
    shown: tuple[Record, ...] | None = None  #: the dump's first papers, if they were requested

    @property
    def is_loaded(self) -> bool:
        """Return whether the dump's papers are in the catalog."""
        return self.state is DumpState.LOADED

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
        return {
            "id": self.id,
            "path": str(self.path),
            "format": self.format,
            "date": self.date.isoformat() if self.date else None,
            "state": self.state.value,
            "reason": self.reason,
            "papers": self.papers,
            "new": self.new,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "rejected": self.rejected,
            "problems": [{"line": problem.line, "reason": problem.reason} for problem in self.problems],
            **({} if self.shown is None else {"shown": [record_to_json(one) for one in self.shown]}),
        }


def failed_load(path: Path, reason: str, *, show: int = 0) -> LoadResult:
    """Return the result for a dump that could not be opened or fetched."""
    return LoadResult(
        path=path,
        state=DumpState.REJECTED,
        reason=reason,
        problems=whole_dump_problem(reason),
        shown=() if show else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadOptions:
    """The options that the operator or the source sets for a dump; see `load`."""

    date: date | None = None
    format: str | None = None
    order: str | None = None
    as_history: bool = False
    is_sample: bool = False
    incomplete_ok: bool = False
    dry_run: bool = False  #: whether every step is performed and then rolled back
    source: str | None = None
    figures_at: datetime | None = None  #: when the signals were observed, if after the day of the list
    still_news: timedelta = (
        timedelta()
    )  #: up to so long after its day, a list's papers count as first seen now


def record_to_json(record: Record) -> dict[str, Any]:
    """Return the fields of a paper as read from the dump, under the column names of the format `json`."""
    organization = record.organization
    return {
        "line": record.line,
        "title": record.title,
        "abstract": record.abstract,
        "summary_by": record.summary_by,
        "ids": dict(record.ids),
        "authors": list(record.authors),
        "n_authors": record.n_authors,
        "organization": organization and {"handle": organization.handle, "name": organization.name},
        "published": record.published.isoformat() if record.published else None,
        "published_inferred": record.published_inferred,
        "categories": list(record.categories),
        "journal": record.journal,
        "comment": record.comment,
        "announcement": record.announcement.value,
        "urls": list(record.urls),
        "signals": dict(record.signals),
    }


def whole_dump_problem(reason: str) -> tuple[RecordProblem, ...]:
    """Return a problem that concerns the whole dump."""
    return (RecordProblem(line=0, reason=reason),)
