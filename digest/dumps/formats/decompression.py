"""Decompress dumps (gz, zst) as streams, with limits on their decompressed size.

A compressed file of 200 kB can contain a gigabyte of zeros. Compressed text has between a third and a tenth
of its original size, so a file that is compressed far more is not a dump. Archives are not unpacked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from digest.dumps.formats.reader_interface import Items, RecordProblem
from digest.dumps.formats.rewindable_stream import RewindableStream, buffered
from digest.errors import UnreadableDump

try:
    from compression import zstd  # in the standard library since Python 3.14
except ImportError:
    from backports import zstd

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MAX_BYTES = 16 * 1024**3  #: maximum number of decompressed bytes
MAX_RATIO = 100
UNCHECKED_BYTES = 4 * 1024**2  #: the compression ratio is checked only after this many decompressed bytes
WINDOW_LOG = 26  #: log2 of the memory in bytes that decompressing a zstd frame may use (64 MiB)

PIECE = 256 * 1024
MAX_PENDING = 1024**2  #: maximum number of bytes in a line; a longer line is returned in pieces
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


class LimitedDecompressor(RewindableStream):
    """A decompressing stream that fails when its content exceeds the limits.

    If the file is damaged or truncated, the content ends with the last whole line before the damage.
    """

    def __init__(self, packed: BinaryIO, inner: Any):
        self.packed = packed
        self.inner = inner  #: the file object that decompresses `packed`
        super().__init__(self.whole_lines)

    def whole_lines(self) -> Iterator[bytes]:
        """Yield the content in pieces of whole lines; raise UnreadableDump if nothing can be read."""
        self.inner.seek(0)
        self.unpacked = 0  #: decompressed bytes
        self.lines = 0  #: number of whole lines read so far
        self.damage = ""  #: why the rest of the content cannot be read; empty if the file is undamaged
        pending = b""  #: the beginning of a line whose end has not been read
        while piece := self.unpack():
            whole, end, pending = (pending + piece).rpartition(b"\n")
            whole += end
            if len(pending) > MAX_PENDING:
                whole, pending = whole + pending, b""
            self.lines += whole.count(b"\n")
            yield whole
        if not self.damage:
            yield pending

    def unpack(self) -> bytes:
        """Return the next piece, or no bytes after damage; raise UnreadableDump if a limit is exceeded."""
        try:
            found: bytes = self.inner.read1(PIECE)
        except DAMAGED_ERRORS as error:
            if not self.unpacked:
                raise UnreadableDump(f"The compressed content is damaged or truncated ({error}).") from error
            self.damage = str(error)
            return b""
        self.unpacked += len(found)
        if self.unpacked > MAX_BYTES:
            raise UnreadableDump(f"It decompresses to more than {MAX_BYTES // 1024**3} GiB.")
        if self.unpacked > UNCHECKED_BYTES and self.unpacked > MAX_RATIO * self.packed.seek(0, io.SEEK_CUR):
            raise UnreadableDump(
                f"It decompresses to more than {MAX_RATIO} times its size, so it cannot be a dump."
            )
        return found


def with_damage(found: Items, stream: BinaryIO) -> Items:
    """Yield the items of a dump, followed by a problem if the dump's compressed file is damaged."""
    yield from found
    raw = getattr(stream, "raw", None)
    if isinstance(raw, LimitedDecompressor) and raw.damage:
        reason = f"the compressed file is damaged or truncated after {raw.unpacked:,} bytes of its content ({raw.damage})"
        yield RecordProblem(line=raw.lines + 1, reason=reason, is_truncation=True)
