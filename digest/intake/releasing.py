"""Reading a dump again that was held or rejected, because somebody says so."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from digest.errors import NotFound
from digest.intake.folder import REFUSED, put_aside, remember_place
from digest.intake.loading import load, remembered
from digest.intake.reports import Loaded
from digest.model import DumpRow, DumpState


def retry(
    session: Session,
    dump_id: int,
    *,
    now: datetime,
    incomplete_ok: bool = False,
    as_history: bool = False,
) -> Loaded:
    """Read a dump again that was held or rejected, from where its file lies, and commit.

    With `incomplete_ok` one that is short is loaded as far as it goes. However old its day, its papers
    count as first seen now, since no reader could have been told of them before, unless it is released
    `as_history`. A file that had been put into `rejected/` and is loaded now moves to `done/`. Raises
    NotFound without the file.
    """
    row = session.get(DumpRow, dump_id, populate_existing=True)
    if row is None:
        raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
    path = Path(row.path)
    if row.state == DumpState.LOADED:
        return remembered(session, row, path)
    if not os.path.lexists(path):
        raise NotFound(
            f"The file of dump {dump_id} is not at {path} any more: digest intake it from where it is."
        )
    wishes = as_before(row) | ({"as_history": True} if as_history else {})
    loaded = load(session, path, now=now, incomplete_ok=incomplete_ok, still_news=timedelta.max, **wishes)
    if loaded.is_loaded and path.parent.name == REFUSED:
        remember_place(session, loaded, put_aside(path.parent.parent, loaded))
        path.with_name(f"{path.name}.reason.txt").unlink(missing_ok=True)
    return loaded


def as_before(row: DumpRow) -> dict[str, Any]:
    """Return what was wished of a dump when it was read first."""
    has_figures_of_its_own = row.is_history and row.seen_at is not None
    seen_at = row.seen_at if has_figures_of_its_own else row.observed_at
    is_dated = row.date is not None and seen_at == datetime.combine(row.date, time_of_day(), UTC)
    return {
        "date": row.date if is_dated else None,
        "format": row.format,
        "order": row.order if row.format else None,
        "as_history": row.is_history,
        "is_sample": row.is_sample,
        "source": row.source,
        "figures_at": row.observed_at if has_figures_of_its_own else None,
    }
