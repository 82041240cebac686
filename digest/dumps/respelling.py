"""Dumps in UTF-16, as spreadsheets and PowerShell save them, as streams of UTF-8."""

from __future__ import annotations

import codecs
import io
import re
from typing import BinaryIO, cast

BUFFER = 256 * 1024
BIG, LITTLE = codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE
#: What the beginning of an XML document says of the bytes that it was saved in; ours are others.
DECLARED = re.compile(r"""\A(\ufeff?\s*<\?xml[^>]*?encoding=["'])[^"']+""")


def in_utf8(stream: BinaryIO) -> BinaryIO:
    """Return the stream itself, or where it begins as UTF-16 does, its text in UTF-8."""
    stream.seek(0)
    start = stream.read(2)
    stream.seek(0)
    if start not in {BIG, LITTLE}:
        return stream
    return cast(BinaryIO, io.BufferedReader(Respelled(stream), BUFFER))


class Respelled(io.RawIOBase):
    """What a stream of UTF-16 says, in UTF-8; half of a pair becomes bytes that no UTF-8 has."""

    def __init__(self, wide: BinaryIO):
        self.wide = wide
        self.seek(0)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: back to the beginning, and nowhere else."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back to the beginning."""
        if (offset, whence) != (0, 0):
            raise io.UnsupportedOperation("a dump in UTF-16 can only be read again from its beginning")
        self.decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self.rest = b""  #: respelled, and not yet given out
        self.given = 0
        return self.wide.seek(0)

    def tell(self) -> int:
        """Return how much was given out."""
        return self.given

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Give out a little; an odd byte at the end, where a file was cut off, is no sign and left out."""
        while not self.rest and (found := self.wide.read(BUFFER)):
            text = self.decoder.decode(found)
            if not self.given:
                text = DECLARED.sub(r"\1utf-8", text)
            self.rest = text.encode("utf-8", "surrogatepass")
        taken, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(taken)] = taken
        self.given += len(taken)
        return len(taken)
