"""Parse mail from strangers in time that grows only with its length. Pure.

The structured headers of Python's parser take time quadratic in the length of a header and in its number of
parameters, and may exceed the recursion limit. Headers are therefore cut before they are parsed, in every part of a
message, and are never parsed as structured headers. The numbers of headers and parts and the depth of parts are limited.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import Compat32
from email.utils import getaddresses
from typing import Any, cast

#: Maximum number of bytes and of lines of a message that are parsed; some patterns are tried on every line.
MAX_BYTES, MAX_LINES = 256 * 1024, 10_000
MAX_HEADERS = 500  #: maximum number of headers of a part
MAX_HEADER_LENGTH = 4096
MAX_PARAMETERS = 20  #: maximum number of parameters of a header such as Content-Type
MAX_PARTS = 500
MAX_DEPTH = 8  #: maximum depth of nested parts

QUOTED_TYPES = frozenset({"message/rfc822", "message/global"})  #: the types of a quoted message
ENCODED_WORD = r"=\?[^?\s]+\?[bq]\?[^?]*\?="
ENCODED_WORDS = re.compile(rf"{ENCODED_WORD}(?:\s*{ENCODED_WORD})*", re.IGNORECASE)
LINE_BREAKS = re.compile(r"[\r\n]+")
#: Character sets whose decoders take quadratic time, and which no mail uses.
SLOW_CHARSETS = frozenset({"punycode", "idna"})


class TooManyParts(Exception):
    """The reason why only the header of a message was parsed."""


class CutHeaders(Compat32):
    """A policy that cuts every header before it is parsed."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return the name and the beginning of a header."""
        name, value = super().header_source_parse(sourcelines)
        value = value[:MAX_HEADER_LENGTH]
        if name.lower().startswith("content-"):
            value = ";".join(value.split(";", MAX_PARAMETERS + 1)[: MAX_PARAMETERS + 1])
        return name[:MAX_HEADER_LENGTH], value


CUT = CutHeaders()


class Part(Message):
    """A message or a part of one."""

    depth = 0

    def set_raw(self, name: str, value: Any) -> None:
        """Add a header, unless the part has too many."""
        if len(self) < MAX_HEADERS:
            super().set_raw(name, value)

    def attach(self, payload: Any) -> None:
        """Add a part; raise TooManyParts if the parts are nested too deeply."""
        payload.depth = self.depth + 1
        if payload.depth > MAX_DEPTH:
            raise TooManyParts
        super().attach(payload)


def parse_message(content: bytes, *, is_whole: bool = False) -> Message:
    """Parse the beginning of a message, or all of it; parse only its header if it has too many parts."""
    numbers = itertools.count()

    def new_part(policy: Compat32 = CUT) -> Part:
        if next(numbers) > MAX_PARTS:
            raise TooManyParts
        return Part(policy=policy)

    try:
        return message_from_bytes(content if is_whole else beginning_of(content), new_part, policy=CUT)
    except TooManyParts:
        return parse_header(content)


def parse_header(content: bytes) -> Message:
    """Parse the header of a message, whose body remains one text."""
    return BytesHeaderParser(Part, policy=CUT).parsebytes(beginning_of(content))


def beginning_of(content: bytes) -> bytes:
    """Return the part of a message that is parsed."""
    return b"".join(content[:MAX_BYTES].splitlines(keepends=True)[:MAX_LINES])


def is_cut(message: Message) -> bool:
    """Return whether the header of a message may have been cut."""
    values = (str(value) for _, value in message.raw_items())
    return len(message) >= MAX_HEADERS or any(len(value) >= MAX_HEADER_LENGTH for value in values)


def raw_headers(message: Message, name: str) -> list[str]:
    """Return the values of a header, unfolded but otherwise as written, one for each of its occurrences."""
    found = (str(value) for each, value in message.raw_items() if each.lower() == name.lower())
    values = (LINE_BREAKS.sub("", value) for value in found)
    return [value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for value in values]


def header_text(message: Message, name: str) -> str:
    """Return the text of a header, or "" if it is missing."""
    return decoded_words(next(iter(raw_headers(message, name)), "")).strip()


def decoded_words(text: str) -> str:
    """Return the text of a header with its encoded words decoded (RFC 2047); unknown encodings are kept as written."""
    return ENCODED_WORDS.sub(lambda found: decoded_run(found[0]), text)


def decoded_run(words: str) -> str:
    """Return adjacent encoded words as text."""
    try:
        decoded = str(make_header(decode_header(words)))
    except (LookupError, ValueError, MessageError):
        return words
    return decoded.encode("utf-8", "replace").decode()  # a lone surrogate could not be stored


def addresses_in(lines: list[str]) -> list[tuple[str, str]]:
    """Return the (name, address) pairs of these header lines; none if Python cannot parse a line."""
    try:
        return [(decoded_words(name), address) for name, address in getaddresses(lines)]
    except RecursionError:
        return []


def parts_of_type(message: Message, types: frozenset[str]) -> Iterator[Message]:
    """Yield the parts of these types, except those inside a quoted message."""
    if message.get_content_type() in types:
        yield message
    elif message.is_multipart() and message.get_content_type() not in QUOTED_TYPES:
        for part in cast("list[Message]", message.get_payload()):
            yield from parts_of_type(part, types)


def text_of(part: Message) -> str:
    """Return the text of a part; text in an unknown character set is read as UTF-8."""
    payload = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    charset = str(part.get_content_charset("utf-8"))
    try:
        return content.decode("utf-8" if charset in SLOW_CHARSETS else charset, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")
