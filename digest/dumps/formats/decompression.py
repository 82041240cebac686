"""Decompress dumps (gz, zst) as streams, with limits on their decompressed size.

A compressed file of 200 kB can contain a gigabyte of zeros. Text compresses to between a third and a tenth
of its size, so a file with a far higher ratio is not a dump. Archives are not unpacked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO, Protocol

from digest.dumps.formats.rewindable_stream import RewindableStream, buffered
from digest.errors import UnreadableDump

try:
    from compression import zstd  # in the standard library since Python 3.14
except ImportError:
    from backports import zstd

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MAX_BYTES = 16 * 1024**3  #: size limit of the decompressed content
MAX_RATIO = 100
UNCHECKED_BYTES = 4 * 1024**2  #: decompressed bytes before the ratio is checked
WINDOW_LOG = 26  #: log2 of the memory that a zstd frame may use, which is 64 MiB

DAMAGED_ERRORS = (EOFError, OSError, zlib.error, zstd.ZstdError)


def decompress(stream: BinaryIO) -> BinaryIO:
    """Return the decompressed stream, or the stream itself if it is not compressed."""
    stream.seek(0)
    start = stream.read(4)
    stream.seek(0)
    if start.startswith(GZIP):
        return buffered(LimitedDecompressor(stream, gzip.GzipFile(fileobj=stream)))
    if start == ZSTD:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        return buffered(LimitedDecompressor(stream, zstd.ZstdFile(stream, options=options)))
    return stream


class Decompressor(Protocol):
    """A decompressing file object."""

    def read(self, size: int = -1, /) -> bytes:
        """Return decompressed bytes."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Seek to a position in the decompressed content."""
        ...


class LimitedDecompressor(RewindableStream):
    """A decompressing stream that fails when its content exceeds the limits."""

    def __init__(self, packed: BinaryIO, inner: Decompressor):
        self.packed = packed
        self.inner = inner

    def restart(self) -> None:
        """Decompress from the beginning again."""
        self.inner.seek(0)

    def produce(self, size: int) -> bytes:
        """Decompress up to `size` bytes; raise UnreadableDump if a limit is exceeded or the file is damaged."""
        try:
            found = self.inner.read(size)
        except DAMAGED_ERRORS as error:
            raise UnreadableDump(f"Its compressed content is damaged or truncated ({error}).") from error
        unpacked = self.bytes_read + len(found)
        if unpacked > MAX_BYTES:
            raise UnreadableDump(f"It decompresses to more than {MAX_BYTES // 1024**3} GiB.")
        if unpacked > UNCHECKED_BYTES and unpacked > MAX_RATIO * self.packed.seek(0, io.SEEK_CUR):
            raise UnreadableDump(
                f"It decompresses to more than {MAX_RATIO} times its size, so it cannot be a dump."
            )
        return found
