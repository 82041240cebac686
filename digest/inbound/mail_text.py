"""Read the subject and the text that a message's sender wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from email.utils import getaddresses
from html import unescape
from itertools import dropwhile, islice, zip_longest

from digest.inbound import words_around_commands
from digest.letters.headers import one_line

#: Only this many bytes of a message are parsed, since a message may be crafted to make parsing slow.
MAX_BYTES = 32 * 1024
#: Maximum number of characters read from a line; more than allowed in a filter, so that a longer filter is
#: reported.
MAX_LINE_LENGTH = 2000
MAX_LINES = 20  #: maximum number of lines in a message that are searched for commands

HTML_LINE_BREAK = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?h\d)\b[^>]*>", re.IGNORECASE)
HIDDEN_HTML = re.compile(
    r"<(style|script|head|blockquote)\b.*?(?:</\1>|\Z)|<!--.*?-->", re.IGNORECASE | re.DOTALL
)
HTML_TAG = re.compile(r"<[^>]*>")


def parse_mail(content: bytes) -> EmailMessage:
    """Parse a message, reading only its first bytes."""
    return message_from_bytes(content[:MAX_BYTES], policy=policy.default)


def header_values(message: EmailMessage, name: str) -> list[str]:
    """Return the values of a header, one for each of its occurrences.

    The values are not decoded if Python cannot parse the header, which may be crafted.
    """
    try:
        return [str(value) for value in message.get_all(name, [])]
    except Exception:  # noqa: BLE001  (Python's parser raises almost any exception on a crafted message)
        return [str(value) for each, value in message.raw_items() if each.lower() == name.lower()]


def header_value(message: EmailMessage, name: str) -> str:
    """Return the first value of a header, or ""."""
    return next(iter(header_values(message, name)), "")


def names_of(message: EmailMessage) -> frozenset[str]:
    """Return the words in the writer's name and address, taken from the From line."""
    found = getaddresses([one_line(value) for value in header_values(message, "From")])
    called = (f"{name} {address} {address.rpartition('@')[0]}" for name, address in found)
    return frozenset(word for each in called for word in words_around_commands.words_in(each, polite=False))


def subject_of(message: EmailMessage) -> tuple[str, bool]:
    """Return the subject without its prefixes, and whether the message is a reply.

    For a forwarded message, return ("", True).
    """
    subject = one_line(header_value(message, "Subject"))
    bare = words_around_commands.without_prefixes(subject)
    return ("", True) if words_around_commands.is_forwarded(subject) else (bare, bare != subject)


def written_lines(message: EmailMessage, most: int = MAX_LINES) -> Iterator[str]:
    """Yield the first lines that the sender wrote, leaving out quoted and empty lines."""
    visible = (one_line(line[:MAX_LINE_LENGTH]) for line in body_text(message).splitlines())
    lines = list(islice(below_quote(list(filter(None, visible))), most))
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        if words_around_commands.is_end_of_text(line, following):
            return
        yield line


def below_quote(lines: list[str]) -> Iterator[str]:
    """Yield the lines; if the sender wrote below a quoted letter, leave out the quote at the top."""
    quoted = words_around_commands.attribution_length(lines)
    rest = list(dropwhile(lambda line: line.startswith(">"), lines[quoted:]))
    yield from rest if len(rest) < len(lines) - quoted else lines


def body_text(message: EmailMessage) -> str:
    """Return a message's plain text, or else its HTML converted to text; "" if neither is readable."""
    try:
        body = message.get_body(("plain", "html"))
        text = decoded(body) if body is not None else ""
        is_html = body is not None and body.get_content_subtype() == "html"
    except Exception:  # noqa: BLE001  (Python's parser raises almost any exception on a crafted message)
        return ""
    return text_of_html(text) if is_html else text


def decoded(part: MIMEPart) -> str:
    """Return the text of a part of a message; text in an unknown character set is read as UTF-8."""
    try:
        return str(part.get_content())
    except (LookupError, ValueError):
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def text_of_html(html: str) -> str:
    """Return the text of an HTML mail, with line breaks between its blocks."""
    flat = " ".join(HIDDEN_HTML.sub("\n", html).split())
    return unescape(HTML_TAG.sub("", HTML_LINE_BREAK.sub("\n", flat)))
