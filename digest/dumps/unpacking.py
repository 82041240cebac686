"""Compressed dumps (gz, zst) as streams, with limits on what may come out of them.

Two hundred kilobytes can hold a gigabyte of zeros. Text is packed three to ten times, so a ratio
far beyond that is no dump. Nothing is looked for inside what was unpacked: archives are no dumps.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import BinaryIO, Protocol

from digest.dumps.rewinding import Rewinding, buffered
from digest.errors import Unreadable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MOST_BYTES = 16 * 1024**3  #: unpacked
MOST_RATIO = 100
FREE = 4 * 1024**2  #: bytes that may come out before the ratio counts
WINDOW_LOG = 26  #: 64 MiB of memory is what a zstd frame may ask for

DAMAGED = (EOFError, OSError, zlib.error, zstd.ZstdError)


def unpacked(stream: BinaryIO) -> BinaryIO:
    """Return the stream itself, or what is packed in it."""
    stream.seek(0)
    start = stream.read(4)
    stream.seek(0)
    if start.startswith(GZIP):
        return buffered(Limited(stream, gzip.GzipFile(fileobj=stream)))
    if start == ZSTD:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        return buffered(Limited(stream, zstd.ZstdFile(stream, options=options)))
    return stream


class Inner(Protocol):
    """What unpacks a stream."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some of what is packed."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place."""
        ...


class Limited(Rewinding):
    """What comes out of a packed stream, until it is too much."""

    def __init__(self, packed: BinaryIO, inner: Inner):
        self.packed = packed
        self.inner = inner

    def restart(self) -> None:
        """Unpack from the beginning."""
        self.inner.seek(0)

    def more(self, size: int) -> bytes:
        """Unpack a little; raise Unreadable beyond the limits, or where the file is damaged."""
        try:
            found = self.inner.read(size)
        except DAMAGED as error:
            raise Unreadable(f"It is packed, and damaged or cut off ({error}).") from error
        unpacked = self.given + len(found)
        if unpacked > MOST_BYTES:
            raise Unreadable(f"It unpacks to more than {MOST_BYTES // 1024**3} GiB.")
        if unpacked > FREE and unpacked > MOST_RATIO * self.packed.tell():
            raise Unreadable(f"It unpacks to more than {MOST_RATIO} times its size: this is no dump.")
        return found
