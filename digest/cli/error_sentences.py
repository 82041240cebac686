"""Describe system and database errors, and stops by a signal, in one sentence: what happened and what to do."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from digest.errors import DigestError

if TYPE_CHECKING:
    from digest.db import SQLAlchemyError

STOPPED = 130  #: the exit code after Ctrl-C, as in shells

#: The remedies for database errors, keyed by words in the error's message.
REMEDIES = {
    ("disk is full", "disk i/o error", "no space left", "could not extend", "unable to open"): (
        "Make sure that the disk is not full and that the user who runs digest can write to the database file. "
        "To see the free space, run: digest doctor"
    ),
    ("locked",): "Another process is writing to the database; try again in a moment.",
    ("readonly", "read-only", "permission denied"): "Give the file and folder to the user who runs digest.",
    ("no such table", "no such column", "does not exist"): "Run: digest db upgrade",
    ("not a database", "malformed"): "Restore the file from a backup, or set DIGEST_DATABASE_URL.",
    ("out of range", "too large", "nul"): "Check the values you gave.",
}
DEFAULT_REMEDY = "To find out more, run: digest doctor"


class Stopped(DigestError):
    """Raised after Ctrl-C, with a message about what was completed and what was not."""


@contextmanager
def on_ctrl_c(message: Callable[[], str]) -> Iterator[None]:
    """Raise Stopped with this message if Ctrl-C is pressed in the block."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(message()) from None


@contextmanager
def stop_signals(*numbers: signal.Signals, second_stops: bool = False) -> Iterator[list[int]]:
    """Yield a list to which each of these signals is appended; with `second_stops`, a second one stops at once."""
    received: list[int] = []

    def note_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if second_stops:
            signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note_signal) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe_error(error: BaseException) -> str:
    """Return the message for a system or database error, or "" for any other error, which is a bug."""
    from digest.db import SQLAlchemyError

    match error:
        case OSError():
            return describe_os_error(error)
        case UnicodeError():
            return "A file name or the content of a file is not valid UTF-8. Rename the file, or save it as UTF-8."
        case SQLAlchemyError():
            return describe_database_error(error)
    return ""


def describe_os_error(error: OSError) -> str:
    """Return a message about a system error: what failed, where, and what to do."""
    where = f"{error.filename}: " if error.filename else ""
    message = f"{where}{error.strerror or error}."
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{message} Free some space, then try again; digest doctor shows the free space."
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{message} Give it to the user who runs digest, or choose another path."
    return message


def describe_database_error(error: SQLAlchemyError, where: str = "") -> str:
    """Return the database's error message on one line, and what to do."""
    reason = (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]
    name = f"The database {where}" if where else "The database"
    remedy = next(
        (remedy for words, remedy in REMEDIES.items() if any(word in reason.lower() for word in words)),
        DEFAULT_REMEDY,
    )
    return f"{name} cannot be used ({reason}). {remedy}"
