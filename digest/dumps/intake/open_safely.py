"""Open regular files without following links or blocking on pipes."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from digest.errors import UnreadableDump


class FileChanged(Exception):
    """Raised if a file was written to while it was being read."""


def open_regular_file(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises UnreadableDump for a link, a pipe or any other file type, and for a file that cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableDump(
            refusal_reason(path) or f"The file cannot be opened: {error.strerror}."
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableDump(refusal_reason(path) or "The path is not a regular file.")
    return os.fdopen(descriptor, "rb")


def refusal_reason(path: Path) -> str:
    """Return the reason why a file is not read, or an empty string if it is a regular file."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFDIR: "a folder",
        stat.S_IFSOCK: "a socket",
    }
    kind = stat.S_IFMT(mode)
    return "" if kind == stat.S_IFREG else f"The path is {kinds.get(kind, 'a device')}, not a regular file."
