"""Read a received letter from a saved file, or wait for it in a Maildir."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from digest.errors import BadField

WAIT_SECONDS = 60.0  #: how long to wait for a letter to reach the Maildir
PAUSE_SECONDS = 0.5
HEAD_BYTES = 64 * 1024  #: number of bytes at the start of a file that are searched for the Message-ID


def read_letter(path: Path, message_ids: tuple[str, ...], *, timeout: float = WAIT_SECONDS) -> bytes | None:
    """Return the letter in a file, or wait until a Maildir has a letter with one of these Message-IDs.

    Returns None if no such letter arrives in time. Raises BadField if the path does not exist, or if it is a
    folder and no Message-ID is given.
    """
    if path.is_file():
        return path.read_bytes()
    if not path.is_dir():
        raise BadField("--received", f"{path} does not exist; name a saved letter, or a Maildir.")
    if not message_ids:
        raise BadField(
            "--received", f"{path} is a folder; to wait for a letter there, add --send-test EMAIL."
        )
    until = time.monotonic() + timeout
    while (found := next(find_letters(path, message_ids), None)) is None and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
    return found


def find_letters(folder: Path, message_ids: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the letters of a Maildir that have one of these Message-IDs."""
    starts = [f"<{message_id.strip('<>')}".encode().lower() for message_id in message_ids if message_id]
    for file in (*folder.glob("new/*"), *folder.glob("cur/*"), *folder.glob("*.eml")):
        try:
            content = file.read_bytes()
        except OSError:  # a mail program moves letters from new to cur
            continue
        head = content[:HEAD_BYTES].lower()
        if b"\nmessage-id:" in head and any(start in head for start in starts):
            yield content
