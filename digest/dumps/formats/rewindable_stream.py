"""Define streams whose content is derived from another stream, for example by decompression."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import BinaryIO, cast

BUFFER = 256 * 1024
HEAD_BYTES = 64 * 1024  #: number of bytes read to recognise a format


class RewindableStream(io.RawIOBase):
    """A stream that produces its bytes on demand and can seek only to its beginning."""

    bytes_read = 0

    @abstractmethod
    def produce(self, size: int) -> bytes:
        """Return at most `size` bytes, or no bytes at the end."""

    @abstractmethod
    def restart(self) -> None:
        """Prepare to produce the content again from the beginning."""

    def readable(self) -> bool:
        """Return True, since every stream of this kind can be read."""
        return True

    def seekable(self) -> bool:
        """Return True, since the stream can seek to its beginning."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek to the beginning or to the current position; raise UnsupportedOperation for other positions."""
        if (offset, whence) == (0, io.SEEK_CUR):
            return self.bytes_read
        if (offset, whence) != (0, io.SEEK_SET):
            raise io.UnsupportedOperation("this stream can only seek to its beginning")
        self.restart()
        self.bytes_read = 0
        return 0

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read bytes into a buffer and return their number."""
        found = self.produce(len(buffer))
        self.bytes_read += len(found)
        buffer[: len(found)] = found
        return len(found)


def buffered(raw: RewindableStream) -> BinaryIO:
    """Return a raw stream wrapped in a buffer."""
    return cast(BinaryIO, io.BufferedReader(raw, BUFFER))


class CrLinesStream(RewindableStream):
    """A stream that replaces the CR line ends of another stream with LF."""

    def __init__(self, inner: BinaryIO):
        self.inner = inner

    def restart(self) -> None:
        """Return to the beginning of the other stream."""
        self.inner.seek(0)

    def produce(self, size: int) -> bytes:
        """Read up to `size` bytes, replacing each CR with LF."""
        return self.inner.read(size).replace(b"\r", b"\n")


def with_lf_line_ends(stream: BinaryIO) -> BinaryIO:
    """Return the stream with LF line ends if its first lines end with CR alone, else the stream itself."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return buffered(CrLinesStream(stream)) if b"\r" in head and b"\n" not in head else stream
