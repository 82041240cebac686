"""Write each message to its own `.eml` file in a folder, for another program to send or read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from digest.delivery.transports.maildir import MaildirTransport, write_synced
from digest.delivery.transports.transport import Message


class EmlFolderTransport(MaildirTransport):
    """Writes each message to a hidden file, syncs it, and renames it.

    A file with its final name is complete. A second attempt after a crash finds the file of the first attempt.
    A program that removes files must itself ensure that no message is sent twice.
    """

    def make_folders(self) -> None:
        """Create the folder, readable only by this user."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def store(self, message: Message) -> None:
        """Write one message to the folder, unless it is already there."""
        target = self.path / f"{message.delivery_id:08d}.{sha256(message.content).hexdigest()[:16]}.eml"
        if target.exists():
            return
        write_synced(message.content, self.path / f".{target.name}.{os.getpid()}", target)

    @property
    def synced_folders(self) -> Sequence[Path]:
        """Return the folders that must be synced to the disk."""
        return [self.path]
