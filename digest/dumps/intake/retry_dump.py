"""Load a held or rejected dump again at the operator's request."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables.dumps import DumpRow, DumpState
from digest.dumps.intake.dumps_folder import REJECTED_FOLDER, move_aside, record_moved_path
from digest.dumps.intake.load_dump import load, result_of_known_dump
from digest.dumps.intake.load_report import LoadResult
from digest.errors import NotFound


def retry(
    session: Session,
    dump_id: int,
    *,
    now: datetime,
    incomplete_ok: bool = False,
    as_history: bool = False,
    dry_run: bool = False,
) -> LoadResult:
    """Load a held or rejected dump again from its file, and commit.

    With `incomplete_ok`, a dump that was held is loaded too. Unless `as_history` is set, the dump's
    papers count as first seen now, regardless of its day, because no reader could have seen them before. If
    the dump is loaded, its file moves from `rejected/` to `done/`. `dry_run` stores and moves nothing. Raises
    NotFound if the dump or its file does not exist.
    """
    row = session.get(DumpRow, dump_id, populate_existing=True)
    if row is None:
        raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
    path = Path(row.path)
    if row.state == DumpState.LOADED:
        return result_of_known_dump(session, row, path)
    if not os.path.lexists(path):
        raise NotFound(f"The file of dump {dump_id} is no longer at {path}; load it with digest intake PATH.")
    options = original_options(row) | ({"as_history": True} if as_history else {})
    options |= {"incomplete_ok": incomplete_ok, "still_news": timedelta.max, "dry_run": dry_run}
    loaded = load(session, path, now=now, **options)
    if dry_run:
        return replace(loaded, id=dump_id)
    if loaded.is_loaded and path.parent.name == REJECTED_FOLDER:
        record_moved_path(session, loaded, move_aside(path.parent.parent, loaded))
        path.with_name(f"{path.name}.reason.txt").unlink(missing_ok=True)
    return loaded


def original_options(row: DumpRow) -> dict[str, Any]:
    """Return the options of the previous attempt to load a dump."""
    has_newer_figures = row.is_history and row.seen_at is not None
    seen_at = row.seen_at if has_newer_figures else row.observed_at
    is_dated = row.date is not None and seen_at == datetime.combine(row.date, time_of_day(), UTC)
    return {
        "date": row.date if is_dated else None,
        "format": row.format,
        "order": row.order if row.format else None,
        "as_history": row.is_history,
        "is_sample": row.is_sample,
        "source": row.source,
        "figures_at": row.observed_at if has_newer_figures else None,
    }
