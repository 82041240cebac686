"""Write messages to a Maildir, which any mail program can read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from digest.delivery.transports.transport import Message, Outcome, Verdict, make_outcome


class MaildirTransport:
    """Writes each message to `tmp`, syncs it, and renames it into `new`.

    The file name is derived from the delivery and its content. A second attempt after a crash therefore finds
    the file of the first attempt, so no message is stored twice.
    """

    def __init__(self, path: Path):
        self.path = path
        self.moved: frozenset[str] | None = None  #: the names of messages in `cur`, read on first use

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Store as many messages as fit on the disk; sync all of them before reporting any as accepted."""
        stored, reason = 0, ""
        try:
            self.make_folders()
            for message in window:
                self.store(message)
                stored += 1
        except OSError as error:
            reason = f"{self.path}: {error.strerror}"
        verdict, problem = self.sync_folders()
        yield from (make_outcome(message, verdict, "dot", problem) for message in window[:stored])
        yield from (make_outcome(message, Verdict.UNTRIED, "connect", reason) for message in window[stored:])

    def sync_folders(self) -> tuple[Verdict, str]:
        """Sync the folders and return the verdict on the stored messages.

        If syncing fails, the messages are in doubt, because a mail program may already have read them.
        """
        try:
            for folder in self.synced_folders:
                sync_folder(folder)
        except OSError as error:
            return Verdict.IN_DOUBT, f"{self.path}: {error.strerror}"
        return Verdict.ACCEPTED, ""

    @property
    def synced_folders(self) -> Sequence[Path]:
        """Return the folders that must be synced to the disk."""
        return [self.path / "new"]

    def make_folders(self) -> None:
        """Create the folders of a Maildir, readable only by this user."""
        for name in ("tmp", "new", "cur"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def store(self, message: Message) -> None:
        """Write one message to `new`, unless it is already there or a mail program has moved it to `cur`."""
        name = f"{message.delivery_id:08d}.{sha256(message.content).hexdigest()[:16]}.eml"
        if name in self.moved_names() or (self.path / "new" / name).exists():
            return
        write_synced(message.content, self.path / "tmp" / f"{name}.{os.getpid()}", self.path / "new" / name)

    def moved_names(self) -> frozenset[str]:
        """Return the names of messages that a mail program has moved to `cur`, without the added flags."""
        if self.moved is None:
            self.moved = frozenset(path.name.partition(":")[0] for path in (self.path / "cur").iterdir())
        return self.moved

    def close(self) -> None:
        """Discard the cached names of the messages in `cur`; there is no connection to close."""
        self.moved = None


def open_private(path: str, flags: int) -> int:
    """Open a file that only this user may read."""
    return os.open(path, flags, 0o600)


def write_synced(content: bytes, temporary: Path, target: Path) -> None:
    """Write a temporary file, sync it, and rename it; on an error, remove the temporary file."""
    try:
        with open(temporary, "wb", opener=open_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, so that a power failure cannot lose them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
