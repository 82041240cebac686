"""Dumps in UTF-16, as spreadsheets and PowerShell save them, as streams of UTF-8."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from digest.dumps.rewinding import BUFFER, Rewinding, buffered

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
    return buffered(Respelled(stream))


class Respelled(Rewinding):
    """What a stream of UTF-16 says, in UTF-8; half of a pair becomes bytes that no UTF-8 has."""

    def __init__(self, wide: BinaryIO):
        self.wide = wide
        self.restart()

    def restart(self) -> None:
        """Respell from the beginning."""
        self.wide.seek(0)
        self.decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self.rest = b""  #: respelled, and not yet given out

    def more(self, size: int) -> bytes:
        """Respell a little; an odd byte at the end, where a file was cut off, is no sign and left out."""
        while not self.rest and (found := self.wide.read(BUFFER)):
            text = self.decoder.decode(found)
            if not self.given:
                text = DECLARED.sub(r"\1utf-8", text)
            self.rest = text.encode("utf-8", "surrogatepass")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken
