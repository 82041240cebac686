"""The header lines of a message: text from outside made harmless, encoded and folded."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache

from digest.links import Site

LONGEST = 200  #: characters of outside text that one header may carry
STACKED = 3  #: combining marks that may sit on one letter; more is zalgo

#: Marks, overrides and isolates that turn the reading order around.
BIDI = dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
#: Characters of Latin scripts and of punctuation that stand for themselves: nothing to compose, none hidden.
HARMLESS = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e]*\\Z")
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,250}>\Z")  #: one that a header can carry as it is
ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]*\Z")

Header = tuple[str, str]


def header_text(text: str) -> str:
    """Return `text` as one harmless line for a header, at most 200 characters long.

    Python before 3.13 turns an encoded word into the line break it stands for (CVE-2024-6923), so
    no `=?` is left; nor is a control character, a bidi override, or a tower of combining marks.
    """
    line = one_line(text[: LONGEST * 8]).replace("=?", "= ?")
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Return `text` as one line of readable characters; what it says stays, what it does not."""
    if (text.isascii() and text.isprintable()) or HARMLESS.match(text):
        return " ".join(text.split())
    composed = unicodedata.normalize("NFC", text)
    kept: list[str] = []
    stacked = 0
    for char in composed.translate(BIDI):
        category = unicodedata.category(char)
        stacked = stacked + 1 if category in {"Mn", "Me"} else 0
        if category in {"Cc", "Zl", "Zp"}:
            kept.append(" ")
        elif category not in {"Cs", "Co"} and stacked <= STACKED and not is_no_character(char):
            kept.append(char)
    return " ".join("".join(kept).split())


def is_no_character(char: str) -> bool:
    """Return whether Unicode will never make a character of it; what it has not yet named may be one."""
    return ord(char) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF


def list_headers(
    site: Site, unsubscribe_url: str, *, leave_address: str = "", campaign: str = "digest"
) -> tuple[Header, ...]:
    """Return what tells a mail program that this is a list, and how to leave it: in one click, or by a mail.

    Without a `leave_address` no mail is taken in, and none is asked for.
    """
    by_mail = f",\r\n <mailto:{leave_address}?subject=unsubscribe>" if leave_address else ""
    one_click = (("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),) if site.is_https else ()
    return (
        ("List-Id", f"{phrase(site.name)} <digest.{site.domain}>"),
        ("List-Unsubscribe", f"<{unsubscribe_url}>{by_mail}"),
        *one_click,
        ("List-Help", f"<{site.url}/>"),
        ("Auto-Submitted", "auto-generated"),
        ("Precedence", "bulk"),
        ("Feedback-ID", feedback_id(site.domain, campaign)),
    )


def reply_headers(answers: str = "") -> tuple[Header, ...]:
    """Return what stands on a letter that answers somebody: no list, no bulk (RFC 3834).

    `answers` is the id of the mail it answers, if there was one: mail programs show the two together.
    """
    about = (("In-Reply-To", answers), ("References", answers)) if MESSAGE_ID.match(answers) else ()
    return (("Auto-Submitted", "auto-replied"), *about)


@lru_cache(maxsize=256)
def feedback_id(domain: str, campaign: str) -> str:
    """Return Gmail's four fields; the last names the sender for ever and says nothing of a reader."""
    sender = "digest" + hashlib.sha256(domain.encode()).hexdigest()[:8]
    return f"{campaign}:digest:{domain}:{sender}"


def head(
    *,
    site: Site,
    recipient: str,
    subject: str,
    message_id: str,
    dated_at: datetime,
    headers: Iterable[Header] = (),
) -> bytes:
    """Return the header block of a message without the lines that describe its body."""
    lines = (
        ("From", address(site.sender_name, site.sender_address)),
        ("To", one_line(recipient)),
        ("Subject", subject_line(subject)),
        ("Date", date_line(dated_at)),
        ("Message-ID", message_id),
        *headers,
        ("MIME-Version", "1.0"),
    )
    return "".join([f"{name}: {value}\r\n" for name, value in lines]).encode()


@lru_cache(maxsize=4096)
def subject_line(text: str) -> str:
    """Return a subject as its header has it."""
    return encoded(header_text(text), room=68)


@lru_cache(maxsize=256)
def date_line(moment: datetime) -> str:
    """Return a moment as the Date header has it."""
    return format_datetime(moment.astimezone(UTC))


@lru_cache(maxsize=256)
def address(name: str, email: str) -> str:
    """Return `Name <email>` as a From header has it."""
    shown = header_text(name)
    return f"{phrase(shown)} <{email}>" if shown else email


@lru_cache(maxsize=256)
def phrase(text: str) -> str:
    """Return a display name: bare, quoted, or as encoded words."""
    shown = header_text(text)
    if ATOMS.match(shown) and "=?" not in shown:
        return shown
    if shown.isascii():
        return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return encoded(shown, room=60)


def encoded(text: str, *, room: int = 66) -> str:
    """Return header text folded into lines, as encoded words where it is not ASCII (RFC 2047).

    Text that is mostly ASCII is spelled in Q, which people and spam filters can read; all else in B.
    """
    if text.isascii():
        return folded(text, room=room)
    if sum(map(str.isascii, text)) * 4 >= len(text) * 3:
        return "\r\n ".join(f"=?utf-8?Q?{chunk}?=" for chunk in chunks(map(quoted, text), 52))
    return "\r\n ".join(
        f"=?utf-8?B?{b64encode(chunk.encode()).decode()}?=" for chunk in chunks(text, 39, octets)
    )


def quoted(char: str) -> str:
    """Return a character as the Q encoding spells it in any header."""
    if char == " ":
        return "_"
    if char.isascii() and char.isalnum():
        return char
    return "".join(f"={octet:02X}" for octet in char.encode())


def octets(char: str) -> int:
    """Return how many bytes a character takes."""
    return len(char.encode())


def folded(text: str, *, room: int) -> str:
    """Return ASCII text on lines of at most `room` characters, where it has spaces to fold at."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\r\n ".join([*lines, line])


def chunks(signs: Iterable[str], room: int, size: Callable[[str], int] = len) -> Iterator[str]:
    """Yield the signs joined to pieces of at most `room`, never cutting inside one."""
    piece, taken = "", 0
    for sign in signs:
        if taken + size(sign) > room:
            yield piece
            piece, taken = "", 0
        piece, taken = piece + sign, taken + size(sign)
    yield piece
