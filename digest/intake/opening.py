"""Opening a file that might be anything: no link is followed, no pipe waited for."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from digest.errors import Unreadable


class Changed(Exception):
    """A file that was written to while it was read."""


def opened(path: Path) -> BufferedReader:
    """Open a regular file for reading; never follow a link, never wait for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(refusal_of(path) or f"It cannot be opened: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(refusal_of(path) or "It is not a regular file.")
    return os.fdopen(descriptor, "rb")


def refusal_of(path: Path) -> str:
    """Return why something that is no regular file is not read, or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    kinds = {
        stat.S_IFLNK: "a symbolic link, and links are not followed",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFDIR: "a folder",
        stat.S_IFSOCK: "a socket",
    }
    kind = stat.S_IFMT(mode)
    return "" if kind == stat.S_IFREG else f"It is {kinds.get(kind, 'a device')}, not a regular file."
