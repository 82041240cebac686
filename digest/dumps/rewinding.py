"""Streams that are made from another stream while they are read."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import BinaryIO, cast

BUFFER = 256 * 1024


class Rewinding(io.RawIOBase):
    """A stream that knows how to make more of itself, and goes back to its beginning and nowhere else."""

    given = 0  #: bytes that were read of it

    @abstractmethod
    def more(self, size: int) -> bytes:
        """Return some bytes, `size` at most; none at the end."""

    @abstractmethod
    def restart(self) -> None:
        """Be ready to make all of it once more."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: back to the beginning."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back to the beginning."""
        if (offset, whence) != (0, 0):
            raise io.UnsupportedOperation("such a dump can only be read again from its beginning")
        self.restart()
        self.given = 0
        return 0

    def tell(self) -> int:
        """Return how much was read."""
        return self.given

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Put some more into a buffer, and return how much that is."""
        found = self.more(len(buffer))
        self.given += len(found)
        buffer[: len(found)] = found
        return len(found)


def buffered(raw: Rewinding) -> BinaryIO:
    """Return a raw stream with lines and look-ahead."""
    return cast(BinaryIO, io.BufferedReader(raw, BUFFER))
