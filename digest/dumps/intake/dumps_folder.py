"""Load the complete files of the dumps folder and move them to `done/` or `rejected/`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from digest.db.tables.dumps import DumpRow, DumpState, UnreadDump
from digest.dumps.intake.load_dump import load
from digest.dumps.intake.load_report import LATEST, LoadResult

DONE_FOLDER, REJECTED_FOLDER = "done", "rejected"
UNREAD_AFTER = timedelta(minutes=5)  #: a file that is still in the folder after this time is reported
LONGEST_LOAD = timedelta(hours=1)  #: a dump that has been loading for less than this is not reported
UNFINISHED_SUFFIXES = (".part", ".partial", ".tmp", ".crdownload", ".swp", "~")


def load_folder(
    session: Session,
    folder: Path,
    *,
    now: datetime,
    settle_seconds: float = 2.0,
    incomplete_ok: bool = False,
) -> list[LoadResult]:
    """Load every complete file in the folder, oldest first, and move it to `done/` or `rejected/`.

    A file is complete when its size and modification time have not changed for `settle_seconds`. Hidden
    files and files named like unfinished downloads are ignored until they are renamed; all
    subfolders are ignored. Commits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loaded = []
    for path in complete_files(folder, now, settle_seconds):
        found = load(session, path, now=now, incomplete_ok=incomplete_ok, still_news=LATEST)
        is_gone = found.id is None and not os.path.lexists(path)  # another worker has moved it
        if not is_gone and not found.is_being_written:
            record_moved_path(session, found, move_aside(folder, found))
            loaded.append(found)
    return loaded


def record_moved_path(session: Session, loaded: LoadResult, moved: Path | None) -> None:
    """Record the new path of a dump's file and commit; the path of a duplicate is not recorded."""
    if moved is not None and loaded.id is not None and not loaded.is_known:
        session.execute(update(DumpRow).where(DumpRow.id == loaded.id).values(path=str(moved)))
        session.commit()


def complete_files(folder: Path, now: datetime, settle_seconds: float) -> list[Path]:
    """Return the files that no process is still writing, oldest first."""
    seen = candidates(folder)
    young = [
        path for path, (_, modified) in seen.items() if now.timestamp() - modified / 1e9 < settle_seconds
    ]
    if young and settle_seconds > 0:
        time.sleep(settle_seconds)
        later = candidates(folder)
        seen = {path: state for path, state in seen.items() if later.get(path) == state}
    return sorted(seen, key=lambda path: (seen[path][1], path.name))


def candidates(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the files that may be dumps, with their size and modification time in nanoseconds."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(UNFINISHED_SUFFIXES):
                continue
            if not entry.is_dir(follow_symlinks=False):
                try:
                    state = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another worker has moved it
                found[folder / entry.name] = (state.st_size, state.st_mtime_ns)
    return found


def move_aside(folder: Path, loaded: LoadResult) -> Path | None:
    """Move a processed file and return its new path; for a rejected file, also write the reason next to it."""
    target = folder / (DONE_FOLDER if loaded.is_loaded else REJECTED_FOLDER)
    target.mkdir(exist_ok=True)
    moved = free_name(target, loaded.path.name)
    try:
        loaded.path.rename(moved)
    except FileNotFoundError:
        return None  # another worker has moved it
    if not loaded.is_loaded:
        lines = (f"line {problem.line}: {problem.reason}" for problem in loaded.problems if problem.line)
        text = "\n".join(chain([loaded.reason], lines)) + "\n"
        (target / f"{moved.name}.reason.txt").write_text(text, encoding="utf-8", errors="replace")
    return moved


def free_name(folder: Path, name: str) -> Path:
    """Return an unused path in the folder."""
    path, number = folder / name, 1
    while os.path.lexists(path) or os.path.lexists(folder / f"{path.name}.reason.txt"):
        number += 1
        path = folder / f"{Path(name).stem}.{number}{Path(name).suffix}"
    return path


def prune_done(folder: Path, *, before: datetime) -> int:
    """Delete the files moved to `done/` before the given time and return their number."""
    done = folder / DONE_FOLDER
    past = (
        [path for path in candidates(done) if (at := arrived_at(path)) and at < before]
        if done.is_dir()
        else []
    )
    for path in past:
        path.unlink(missing_ok=True)
    return len(past)


# ── unread files ────────────────────────────────────────────────────────────────────────────────


def report_unread(session: Session, folder: Path, *, now: datetime) -> None:
    """Record which files have been unread in this machine's folder for at least five minutes, and commit.

    Each machine reports its own folder, so that any machine can read all reports from the database.
    """
    where = {"machine": socket.gethostname()[:255], "folder": str(folder.absolute())[:1000]}
    found = unread_files(folder, paths_being_loaded(session, now), now=now)
    known = session.scalar(select(UnreadDump.name).filter_by(**where).limit(1))
    if found or known is not None:
        session.execute(delete(UnreadDump).filter_by(**where))
        session.add_all(
            UnreadDump(**where, name=name[:255], since=since, seen_at=now) for name, since in found.items()
        )
        session.commit()


def unread_files(folder: Path, loading: Collection[str], *, now: datetime) -> dict[str, datetime]:
    """Return {file: time of arrival} for the files that have been in the folder for five minutes."""
    try:
        names = [path.name for path in candidates(folder) if str(path) not in loading]
    except FileNotFoundError:
        return {}
    came = {name: arrived_at(folder / name) for name in names}
    return {name: at for name, at in came.items() if at is not None and now - at >= UNREAD_AFTER}


def arrived_at(path: Path) -> datetime | None:
    """Return when a file was moved to its folder or last written, or None if the file no longer exists."""
    try:
        return datetime.fromtimestamp(path.stat(follow_symlinks=False).st_ctime, UTC)
    except FileNotFoundError:
        return None


def paths_being_loaded(session: Session, now: datetime) -> set[str]:
    """Return the paths of the dumps that are being loaded now.

    They are not reported as unread, although loading a large dump may take more than five minutes.
    """
    loading = (DumpRow.state == DumpState.LOADING, DumpRow.read_at > now - LONGEST_LOAD)
    return set(session.scalars(select(DumpRow.path).where(*loading)))
