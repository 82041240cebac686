"""Read the dumps folder of the scheduler's machine in a separate process.

A folder belongs to one machine, so a task cannot read it: a worker on another machine could take the task
and read its own folder. A large dump takes minutes and a malicious dump may crash its reader, so the
scheduler does not read dumps itself.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from pathlib import Path

from digest.app_context import AppContext
from digest.dumps.intake import dumps_folder
from digest.process import child_processes

log = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0  #: a file counts as complete if it was not modified for this long
RETRY_SECONDS = 60.0  #: number of seconds after which unread files are tried again


class FolderReader:
    """Reads the folder in child processes, one at a time."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.unread: dict[Path, tuple[int, int]] = {}
        self.tried_at = 0.0

    def read_new_files(self, folder: Path) -> None:
        """Start a reader process if the folder has new files, or files to try again, and wait until it ends."""
        folder.mkdir(parents=True, exist_ok=True)
        found = {path: state for path, state in dumps_folder.candidates(folder).items() if is_settled(state)}
        if not found or (found == self.unread and time.monotonic() - self.tried_at < RETRY_SECONDS):
            return
        self.process = subprocess.Popen(  # noqa: S603  (a fixed command)
            child_processes.python_command("workers", "folder"),
            env=child_processes.python_environment(os.environ),
            stdin=subprocess.DEVNULL,
            preexec_fn=child_processes.end_with_parent,  # noqa: PLW1509  (one system call)
        )
        self.process.wait()
        self.unread, self.tried_at = dumps_folder.candidates(folder), time.monotonic()

    def stop(self) -> None:
        """End the reader process; the next reader process resumes loading the dump."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def is_settled(state: tuple[int, int]) -> bool:
    """Return whether a file was not modified recently; a modification time in the future counts as old."""
    return not 0 <= time.time() - state[1] / 1e9 < SETTLED_SECONDS


def load_dumps(context: AppContext) -> None:
    """Load all dumps in the folder; the scheduler then finds the digests that are due."""
    with context.write_session() as session:
        loads = dumps_folder.load_folder(
            session,
            context.settings.dumps,
            now=context.clock(),
            incomplete_ok=context.settings.sends_short_dumps,
        )
    for loaded in loads:
        log.info("dump %s: %s, %d papers, %d new", loaded.path.name, loaded.state, loaded.papers, loaded.new)
