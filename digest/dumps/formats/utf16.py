"""Convert UTF-16 dumps, which spreadsheets and PowerShell produce, to UTF-8 streams."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from digest.dumps.formats.rewindable_stream import RewindableStream, blocks_of, buffered

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
    return buffered(RewindableStream(lambda: as_utf8(stream)))


def as_utf8(wide: BinaryIO) -> Iterator[bytes]:
    """Yield UTF-16 as UTF-8; a lone surrogate becomes invalid UTF-8, and an odd last byte is ignored."""
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    for number, block in enumerate(blocks_of(wide)):
        text = decoder.decode(block)
        text = text if number else DECLARED_ENCODING.sub(r"\1utf-8", text)
        yield text.encode("utf-8", "surrogatepass")
