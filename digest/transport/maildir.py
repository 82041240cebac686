"""A transport that drops messages into a Maildir, where any mail program can read them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from digest.transport import Message, Outcome, Verdict


class Maildir:
    """Writes each message to `tmp`, syncs it, and renames it into `new`.

    The name is made of the delivery and its content, so a second attempt after a crash finds the first
    one's file and is never in doubt: a Maildir holds no message twice.
    """

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def from_url(cls, url: str) -> Maildir:
        """Return the Maildir that `maildir:///some/path` names; nothing in it is escaped."""
        return cls(Path(url.removeprefix("maildir:").removeprefix("//")))

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Keep what there is room for; all of that is on disk before the first is called accepted."""
        kept, why = 0, ""
        try:
            self.make()
            for message in window:
                self.keep(message)
                kept += 1
        except OSError as error:
            why = f"{self.path}: {error.strerror}"
        fate = self.fate()
        yield from (outcome(message, *fate) for message in window[:kept])
        yield from (outcome(message, Verdict.UNTRIED, why) for message in window[kept:])

    def fate(self) -> tuple[Verdict, str]:
        """Return what has become of what was kept: a mail program sees it already, whether or not it will last."""
        try:
            for folder in self.settled:
                sync(folder)
        except OSError as error:
            return Verdict.IN_DOUBT, f"{self.path}: {error.strerror}"
        return Verdict.ACCEPTED, ""

    @property
    def settled(self) -> Sequence[Path]:
        """Return the folders whose names must survive a power cut."""
        return [self.path / "new"]

    def make(self) -> None:
        """Make the folders of a Maildir, readable by us alone."""
        for name in ("tmp", "new", "cur"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, message: Message) -> None:
        """Put one message into `new`, unless it is there or a mail program has moved it to `cur`."""
        name = f"{message.delivery_id:08d}.{sha256(message.content).hexdigest()[:16]}.eml"
        if name in self.read or (self.path / "new" / name).exists():
            return
        put(message.content, self.path / "tmp" / f"{name}.{os.getpid()}", self.path / "new" / name)

    @cached_property
    def read(self) -> frozenset[str]:
        """Return the names of the messages that a mail program has moved away, without its flags."""
        return frozenset(path.name.partition(":")[0] for path in (self.path / "cur").iterdir())

    def close(self) -> None:
        """Nothing is held open; what a mail program moves from now on is looked at anew."""
        self.__dict__.pop("read", None)


def private(path: str, flags: int) -> int:
    """Open a file that only we may read."""
    return os.open(path, flags, 0o600)


def put(content: bytes, passing: Path, target: Path) -> None:
    """Write a file beside, sync it, and give it its name; what cannot be finished leaves nothing behind."""
    try:
        with open(passing, "wb", opener=private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        passing.rename(target)
    except OSError:
        with suppress(OSError):
            passing.unlink()
        raise


def sync(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def outcome(message: Message, verdict: Verdict, reply: str = "") -> Outcome:
    """Return how one message fared."""
    phase = "connect" if verdict is Verdict.UNTRIED else "dot"
    return Outcome(delivery_id=message.delivery_id, verdict=verdict, phase=phase, reply=reply)
