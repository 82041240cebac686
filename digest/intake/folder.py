"""The folder: files are read once nobody writes to them any more, and put aside, never deleted."""

from __future__ import annotations

import os
import time
from datetime import datetime
from itertools import chain
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.orm import Session

from digest.intake.loading import load
from digest.intake.reports import LATEST, Loaded
from digest.model import DumpRow

ACCEPTED, REFUSED = "done", "rejected"  #: where files of the folder go
UNFINISHED = (".part", ".partial", ".tmp", ".crdownload", ".swp", "~")


def collect(
    session: Session,
    folder: Path,
    *,
    now: datetime,
    settle_seconds: float = 2.0,
    incomplete_ok: bool = False,
) -> list[Loaded]:
    """Load every complete file in the folder, oldest first, and move it to `done/` or `rejected/`.

    A file is complete once its size and time have stood still for `settle_seconds`; hidden files and
    those with the names of unfinished downloads wait until they are renamed. Folders are left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loaded = []
    for path in complete(folder, now, settle_seconds):
        found = load(session, path, now=now, incomplete_ok=incomplete_ok, still_news=LATEST)
        is_gone = found.id is None and not os.path.lexists(path)  # another worker was faster
        if not is_gone and not found.reason.startswith("It was written to"):
            remember_place(session, found, put_aside(folder, found))
            loaded.append(found)
    return loaded


def remember_place(session: Session, loaded: Loaded, moved: Path | None) -> None:
    """Write down where a dump's file lies now, and commit; of a dump that came twice, the first file."""
    if moved is not None and loaded.id is not None and not loaded.is_known:
        session.execute(update(DumpRow).where(DumpRow.id == loaded.id).values(path=str(moved)))
        session.commit()


def complete(folder: Path, now: datetime, settle_seconds: float) -> list[Path]:
    """Return the files that nobody is writing to any more, oldest first."""
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
    """Return what might be a dump, with its size and time; folders are none."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(UNFINISHED):
                continue
            if not entry.is_dir(follow_symlinks=False):
                try:
                    state = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another worker was faster
                found[folder / entry.name] = (state.st_size, state.st_mtime_ns)
    return found


def put_aside(folder: Path, loaded: Loaded) -> Path | None:
    """Move a file that was dealt with, and put the reason beside one that was refused; return where it is."""
    target = folder / (ACCEPTED if loaded.is_loaded else REFUSED)
    target.mkdir(exist_ok=True)
    moved = free_name(target, loaded.path.name)
    try:
        loaded.path.rename(moved)
    except FileNotFoundError:
        return None  # another worker was faster
    if not loaded.is_loaded:
        lines = (f"line {problem.line}: {problem.reason}" for problem in loaded.problems if problem.line)
        text = "\n".join(chain([loaded.reason], lines)) + "\n"
        (target / f"{moved.name}.reason.txt").write_text(text, encoding="utf-8", errors="replace")
    return moved


def free_name(folder: Path, name: str) -> Path:
    """Return a path in the folder that nothing stands at."""
    path, number = folder / name, 1
    while os.path.lexists(path) or os.path.lexists(folder / f"{path.name}.reason.txt"):
        number += 1
        path = folder / f"{Path(name).stem}.{number}{Path(name).suffix}"
    return path
