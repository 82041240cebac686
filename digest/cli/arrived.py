"""Where a letter arrives: a file that was saved from a mail program, or a Maildir in which it is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from digest.errors import BadField

PATIENCE = 60.0  #: seconds in which a letter should reach a mailbox that is ours
PAUSE = 0.5
HEAD = 64 * 1024  #: bytes in which a letter's Message-ID stands


def letter(path: Path, names: tuple[str, ...], *, patience: float = PATIENCE) -> bytes | None:
    """Return the letter as it lies there, in a Maildir the one with any of these names, once it is there.

    None if it does not come.
    """
    if path.is_file():
        return path.read_bytes()
    if not path.is_dir():
        raise BadField("--arrived", f"{path} is not there; name a saved letter, or a Maildir.")
    if not names:
        raise BadField(
            "--arrived", f"{path} is a folder: say which letter to wait for, with --send-test EMAIL."
        )
    until = time.monotonic() + patience
    while (found := next(named(path, names), None)) is None and time.monotonic() < until:
        time.sleep(PAUSE)
    return found


def named(folder: Path, names: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the letters of a Maildir that have one of these names in their head."""
    wanted = [f"<{name.strip('<>')}".encode().lower() for name in names if name]
    for file in (*folder.glob("new/*"), *folder.glob("cur/*"), *folder.glob("*.eml")):
        try:
            content = file.read_bytes()
        except OSError:  # a mail program moves letters from new to cur
            continue
        head = content[:HEAD].lower()
        if any(b"\nmessage-id:" in head and name in head for name in wanted):
            yield content
