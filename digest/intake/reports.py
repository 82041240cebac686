"""What the operator wishes of a dump, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from digest.dumps import Problem
from digest.model import DumpState

LATEST = timedelta(days=7)  #: after its day, for which a list that comes late is still news


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What became of one dump."""

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
    rejected: int = 0  #: bad records, and a missing end
    problems: tuple[Problem, ...] = ()
    is_known: bool = False  #: the same bytes had been loaded before

    @property
    def is_loaded(self) -> bool:
        """Return whether its papers are in the catalog."""
        return self.state is DumpState.LOADED

    def to_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
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
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What the operator says of a dump."""

    date: date | None = None
    format: str | None = None
    order: str | None = None
    as_history: bool = False
    is_sample: bool = False
    incomplete_ok: bool = False
    dry_run: bool = False
    source: str | None = None
    figures_at: datetime | None = None
    still_news: timedelta = timedelta()


def whole(reason: str) -> tuple[Problem, ...]:
    """Return a reason that concerns the whole dump as a problem."""
    return (Problem(line=0, reason=reason),)
