"""Convert UTF-16 dumps, which spreadsheets and PowerShell produce, to UTF-8 streams."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from digest.dumps.formats.rewindable_stream import BUFFER, RewindableStream, buffered

BIG, LITTLE = codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE
#: The encoding declaration of an XML document, which is wrong after the conversion.
DECLARED_ENCODING = re.compile(r"""\A(\ufeff?\s*<\?xml[^>]*?encoding=["'])[^"']+""")


def utf16_as_utf8(stream: BinaryIO) -> BinaryIO:
    """Return the stream as UTF-8 if it begins with a UTF-16 byte order mark, else the stream itself."""
    stream.seek(0)
    start = stream.read(2)
    stream.seek(0)
    if start not in {BIG, LITTLE}:
        return stream
    return buffered(Utf16Stream(stream))


class Utf16Stream(RewindableStream):
    """A UTF-16 stream converted to UTF-8; a lone surrogate becomes invalid UTF-8."""

    def __init__(self, wide: BinaryIO):
        self.wide = wide
        self.restart()

    def restart(self) -> None:
        """Return to the beginning of the UTF-16 stream."""
        self.wide.seek(0)
        self.decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self.rest = b""  #: converted bytes that have not been returned yet

    def produce(self, size: int) -> bytes:
        """Return up to `size` converted bytes, ignoring an odd byte at the end of a truncated file."""
        while not self.rest and (found := self.wide.read(BUFFER)):
            text = self.decoder.decode(found)
            if not self.bytes_read:
                text = DECLARED_ENCODING.sub(r"\1utf-8", text)
            self.rest = text.encode("utf-8", "surrogatepass")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken
