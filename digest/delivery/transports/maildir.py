"""Write messages into a Maildir, where any mail program can read them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from digest.delivery.transports import Message, Outcome, Verdict


class MaildirTransport:
    """Writes each message to `tmp`, syncs it, and renames it into `new`.

    The file name is derived from the delivery and its content, so a second attempt after a crash finds the file of
    the first and is never in doubt: a Maildir holds no message twice.
    """

    def __init__(self, path: Path):
        self.path = path
        self.moved: frozenset[str] | None = None  #: the names in `cur`, read when first needed

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Store as many messages as fit on the disk; all of them are synced before the first is reported as
        accepted.
        """
        stored, reason = 0, ""
        try:
            self.make_folders()
            for message in window:
                self.store(message)
                stored += 1
        except OSError as error:
            reason = f"{self.path}: {error.strerror}"
        verdict = self.sync_folders()
        yield from (make_outcome(message, *verdict) for message in window[:stored])
        yield from (make_outcome(message, Verdict.UNTRIED, reason) for message in window[stored:])

    def sync_folders(self) -> tuple[Verdict, str]:
        """Sync the folders and return the verdict on the stored messages; a mail program sees them already,
        synced or not.
        """
        try:
            for folder in self.synced_folders:
                sync_folder(folder)
        except OSError as error:
            return Verdict.IN_DOUBT, f"{self.path}: {error.strerror}"
        return Verdict.ACCEPTED, ""

    @property
    def synced_folders(self) -> Sequence[Path]:
        """Return the folders whose entries must survive a power cut."""
        return [self.path / "new"]

    def make_folders(self) -> None:
        """Create the folders of a Maildir, readable only by us."""
        for name in ("tmp", "new", "cur"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def store(self, message: Message) -> None:
        """Write one message into `new`, unless it is there or a mail program has moved it to `cur`."""
        name = f"{message.delivery_id:08d}.{sha256(message.content).hexdigest()[:16]}.eml"
        if name in self.moved_names() or (self.path / "new" / name).exists():
            return
        write_synced(message.content, self.path / "tmp" / f"{name}.{os.getpid()}", self.path / "new" / name)

    def moved_names(self) -> frozenset[str]:
        """Return the names of messages that a mail program has moved to `cur`, without its flags."""
        if self.moved is None:
            self.moved = frozenset(path.name.partition(":")[0] for path in (self.path / "cur").iterdir())
        return self.moved

    def close(self) -> None:
        """Forget which messages were moved to `cur`; nothing is open."""
        self.moved = None


def open_private(path: str, flags: int) -> int:
    """Open a file that only we may read."""
    return os.open(path, flags, 0o600)


def write_synced(content: bytes, temporary: Path, target: Path) -> None:
    """Write a temporary file, sync it, and rename it; on an error nothing is left behind."""
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
    """Make the entries of a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_outcome(message: Message, verdict: Verdict, reply: str = "") -> Outcome:
    """Return the outcome of one message."""
    phase = "connect" if verdict is Verdict.UNTRIED else "dot"
    return Outcome(delivery_id=message.delivery_id, verdict=verdict, phase=phase, reply=reply)
