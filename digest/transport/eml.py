"""A transport that drops messages into a folder, one `.eml` file each, for whoever sends or reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from digest.transport import Message
from digest.transport.maildir import Maildir, put


class Folder(Maildir):
    """Writes each message beside, syncs it, and renames it into the folder: a file with its name is whole.

    A second attempt after a crash finds the first one's file. Who takes files away takes the duty of
    not sending one twice along with them.
    """

    @classmethod
    def from_url(cls, url: str) -> Folder:
        """Return the folder that `eml:///some/path` names; nothing in it is escaped."""
        return cls(Path(url.removeprefix("eml:").removeprefix("//")))

    def make(self) -> None:
        """Make the folder, readable by us alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, message: Message) -> None:
        """Put one message into the folder, unless it is there."""
        target = self.path / f"{message.delivery_id:08d}.{sha256(message.content).hexdigest()[:16]}.eml"
        if target.exists():
            return
        put(message.content, self.path / f".{target.name}.{os.getpid()}", target)

    @property
    def settled(self) -> Sequence[Path]:
        """Return the folders whose names must survive a power cut."""
        return [self.path]
