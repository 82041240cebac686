"""Define streams whose content is derived from another stream, for example by decompression."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

BUFFER = 256 * 1024
HEAD_BYTES = 64 * 1024  #: number of bytes read to recognise a format


class RewindableStream(io.RawIOBase):
    """A stream of pieces that are made on demand, anew after each return to the beginning."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]):
        self.pieces = pieces
        self.restart()

    def restart(self) -> None:
        """Return to the beginning."""
        self.coming = self.pieces()
        self.rest = b""  #: the part of a piece that was not read yet
        self.bytes_read = 0

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
        return 0

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read bytes into a buffer and return their number."""
        rest = self.rest or next(filter(None, self.coming), b"")
        found, self.rest = rest[: len(buffer)], rest[len(buffer) :]
        self.bytes_read += len(found)
        buffer[: len(found)] = found
        return len(found)


def buffered(raw: RewindableStream) -> BinaryIO:
    """Return a raw stream wrapped in a buffer."""
    return cast(BinaryIO, io.BufferedReader(raw, BUFFER))


def blocks_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a stream from its beginning."""
    stream.seek(0)
    return iter(lambda: stream.read(BUFFER), b"")


def with_lf_line_ends(stream: BinaryIO) -> BinaryIO:
    """Return the stream with LF line ends if its first lines end with CR alone, else the stream itself."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    if b"\r" not in head or b"\n" in head:
        return stream
    return buffered(RewindableStream(lambda: (block.replace(b"\r", b"\n") for block in blocks_of(stream))))
