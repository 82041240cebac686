"""Read the subject and the text that a message's sender wrote. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.message import Message
from html import unescape
from itertools import dropwhile

from digest.bounces.report_parser import MailReport, read_report
from digest.inbound import words_around_commands
from digest.letters.headers import one_line
from digest.mail import mail_parsing

#: Maximum number of characters that are read of a message's text.
MAX_TEXT_LENGTH = 32 * 1024
#: Maximum number of characters read from a line; more than allowed in a filter, so that a longer filter is
#: reported.
MAX_LINE_LENGTH = 2000
MAX_LINES = 50  #: maximum number of lines in a message that are read
MAX_WRAPPED = 20  #: maximum number of lines into which a mail program is expected to wrap a line

# Each of these patterns ends at the next `<` or consumes the text up to its end, so that none takes quadratic time.
HTML_LINE_BREAK = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?h\d)\b[^<>]*>", re.IGNORECASE)
HIDDEN_HTML = re.compile(
    r"<(style|script|head|blockquote)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)"
    r"|<(\w+)\b[^<>]*\b(?:display\s*:\s*none|visibility\s*:\s*hidden)[^<>]*>.*?(?:</\2>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
#: Outlook draws a line above the letter that it quotes.
HTML_RULE = re.compile(r"<hr\b[^<>]*>", re.IGNORECASE)
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
    subject = one_line(mail_parsing.header_text(mail.message, "Subject"))
    bare = words_around_commands.without_prefixes(subject)
    return ("", True) if words_around_commands.is_forwarded(subject) else (bare, bare != subject)


def written_lines(mail: ReceivedMail, most: int = MAX_LINES) -> list[str]:
    """Return the first lines that the sender wrote, leaving out quotes and signatures; "" ends a paragraph.

    Lines that the sender's mail program wrapped are joined again.
    """
    lines = [one_line(line[:MAX_LINE_LENGTH]) for line in mail.text.splitlines()]
    own, found = below_quote(lines), list[str]()
    for number, line in enumerate(own):
        following = own[number : number + words_around_commands.MAX_ATTRIBUTION]
        if words_around_commands.is_end_of_text(following) or sum(map(bool, found)) == most:
            break
        found += [] if line.startswith(">") else [line]
    return found


def below_quote(lines: list[str]) -> list[str]:
    """Return the lines; if the sender wrote below or between quotes, leave out these and the line above them."""
    lines = list(dropwhile(lambda line: not line, lines))
    rest = list(dropwhile(lambda line: not line, lines[words_around_commands.attribution_length(lines) :]))
    is_below = bool(rest) and rest[0].startswith(">")
    return [line for line in rest if not line.startswith(">")] if is_below else lines


def body_text(message: Message) -> str:
    """Return a message's text as its writer saw it, from the plain part or else the HTML; "" if unreadable."""
    parts = list(mail_parsing.parts_of_type(message, frozenset({"text/plain", "text/html"})))
    shown = [part for part in parts if part.get_content_disposition() != "attachment"]
    plain = next((part for part in shown if part.get_content_subtype() == "plain"), None)
    html = next((part for part in shown if part.get_content_subtype() == "html"), None)
    written = text_of_html(mail_parsing.text_of(html))[:MAX_TEXT_LENGTH] if html is not None else ""
    text = mail_parsing.text_of(plain)[:MAX_TEXT_LENGTH] if plain is not None else ""
    if plain is not None and str(plain.get_param("format")).lower() == "flowed":
        text = unflowed(text, has_extra_spaces=str(plain.get_param("delsp")).lower() == "yes")
    if not text.strip():
        return written
    return unwrapped(text, written) if written else text


def unflowed(text: str, *, has_extra_spaces: bool) -> str:
    """Join the lines of a `format=flowed` text (RFC 3676); extra spaces at line ends are removed (`delsp`)."""
    lines, is_open = list[str](), False
    for written in text.splitlines():
        is_quoted = written.startswith(">")
        line = written.removeprefix(" ")
        if is_open and not is_quoted and line != "-- ":
            lines[-1] += line
        else:
            lines.append(line)
        is_open = line.endswith(" ") and line != "-- " and not is_quoted
        if is_open and has_extra_spaces:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)


def unwrapped(text: str, written: str) -> str:
    """Join the lines of a text that are one line in the other version of the message, which is HTML."""
    whole = {one_line(line) for line in written.splitlines()}
    lines, found = [one_line(line[:MAX_LINE_LENGTH]) for line in text.splitlines()], list[str]()
    while lines:
        parts = (count for count in range(MAX_WRAPPED, 1, -1) if " ".join(lines[:count]) in whole)
        count = next(parts, 1) if lines[0] and lines[0] not in whole else 1
        found.append(" ".join(lines[:count]))
        del lines[:count]
    return "\n".join(found)


def text_of_html(html: str) -> str:
    """Return the text of an HTML mail, with line breaks between its blocks."""
    flat = HTML_RULE.sub("<br>-----<br>", " ".join(HIDDEN_HTML.sub("\n", html).split()))
    return unescape(HTML_TAG.sub("", HTML_LINE_BREAK.sub("\n", flat)))
