"""Read the subject and the text that a message's sender wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from html import unescape
from itertools import dropwhile, islice, zip_longest

from digest import mail_parsing
from digest.bounces.report_parser import MailReport, read_report
from digest.inbound import words_around_commands
from digest.letters.headers import one_line

#: Maximum number of characters that are read of a message's text.
MAX_TEXT_LENGTH = 32 * 1024
#: Maximum number of characters read from a line; more than allowed in a filter, so that a longer filter is
#: reported.
MAX_LINE_LENGTH = 2000
MAX_LINES = 20  #: maximum number of lines in a message that are searched for commands

# Each of these patterns ends at the next `<` or consumes the text up to its end, so that none takes quadratic time.
HTML_LINE_BREAK = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?h\d)\b[^<>]*>", re.IGNORECASE)
HIDDEN_HTML = re.compile(
    r"<(style|script|head|blockquote)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL
)
HTML_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedMail:
    """A received message, parsed once, before a transaction begins."""

    content: bytes  #: the message as it arrived
    message: Message  #: its headers, as written
    text: str  #: its plain text, or else its HTML converted to text; "" if neither is readable
    report: MailReport | None  #: the bounce or complaint that it reports


def read_mail(content: bytes) -> ReceivedMail:
    """Parse a message, in time that grows only with its length."""
    message = mail_parsing.parse_message(content)
    return ReceivedMail(
        content=content, message=message, text=body_text(message), report=read_report(message)
    )


def header_values(mail: ReceivedMail, name: str) -> list[str]:
    """Return the decoded values of a header, one for each of its occurrences."""
    return [mail_parsing.decoded_words(value) for value in mail_parsing.raw_headers(mail.message, name)]


def header_value(mail: ReceivedMail, name: str) -> str:
    """Return the first value of a header, or ""."""
    return next(iter(header_values(mail, name)), "")


def writers_of(mail: ReceivedMail) -> list[tuple[str, str]]:
    """Return the (name, address) pairs of the From lines."""
    return mail_parsing.addresses_in(mail_parsing.raw_headers(mail.message, "From"))


def names_of(mail: ReceivedMail) -> frozenset[str]:
    """Return the words in the writer's name and address, taken from the From line."""
    called = (
        f"{one_line(name)} {address} {address.rpartition('@')[0]}" for name, address in writers_of(mail)
    )
    return frozenset(word for each in called for word in words_around_commands.words_in(each, polite=False))


def subject_of(mail: ReceivedMail) -> tuple[str, bool]:
    """Return the subject without its prefixes, and whether the message is a reply.

    For a forwarded message, return ("", True).
    """
    subject = one_line(header_value(mail, "Subject"))
    bare = words_around_commands.without_prefixes(subject)
    return ("", True) if words_around_commands.is_forwarded(subject) else (bare, bare != subject)


def written_lines(mail: ReceivedMail, most: int = MAX_LINES) -> Iterator[str]:
    """Yield the first lines that the sender wrote, leaving out quoted and empty lines."""
    visible = (one_line(line[:MAX_LINE_LENGTH]) for line in mail.text.splitlines())
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


def body_text(message: Message) -> str:
    """Return a message's plain text, or else its HTML converted to text; "" if neither is readable."""
    parts = list(mail_parsing.parts_of_type(message, frozenset({"text/plain", "text/html"})))
    shown = [part for part in parts if part.get_content_disposition() != "attachment"]
    shown.sort(key=lambda part: part.get_content_subtype() != "plain")
    if not shown:
        return ""
    text = mail_parsing.text_of(shown[0])
    is_html = shown[0].get_content_subtype() == "html"
    return (text_of_html(text) if is_html else text)[:MAX_TEXT_LENGTH]


def text_of_html(html: str) -> str:
    """Return the text of an HTML mail, with line breaks between its blocks."""
    flat = " ".join(HIDDEN_HTML.sub("\n", html).split())
    return unescape(HTML_TAG.sub("", HTML_LINE_BREAK.sub("\n", flat)))
