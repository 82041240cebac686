"""Write the headers of a message: make untrusted text harmless, encode it, fold it."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from email.header import Header
from email.utils import format_datetime
from functools import lru_cache

from digest.site.site_profile import Site

MAX_HEADER_LENGTH = 200  #: maximum number of characters of untrusted text in one header
MAX_STACKED_MARKS = 3  #: maximum number of combining marks that are kept on one character

#: The Unicode marks, overrides and isolates that change the direction of text.
BIDI_CONTROLS = dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
#: Matches a text of visible Latin letters and punctuation, which needs no normalization.
HARMLESS_TEXT = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e]*\\Z")
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,250}>\Z")  #: matches a message id that is safe in a header
WORD_JOINER = "\u2060"  #: an invisible character that occurs in no web address
#: Matches the positions at which a web or mail address is broken up. They are before ://, after @ and //, and
#: after a dot between letters or digits, except in decimal numbers.
ADDRESS_JOINTS = re.compile(
    r"(?=://)|(?<=@)(?=\w)|(?<=//)(?=\w)|(?<=\w[.\u3002\uff0e\uff61])(?=\w)(?<!\d.)|(?<=\d\.)(?=[^\W\d])"
)
ATOM_TEXT = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]*\Z")

HeaderField = tuple[str, str]


def header_text(text: str) -> str:
    """Return `text` as one harmless line for a header, at most 200 characters long.

    Control characters, bidi overrides and stacked combining marks are removed. `=?` is broken up,
    because Python before 3.13 decodes an encoded word into a line break (CVE-2024-6923).
    """
    line = one_line(text[: MAX_HEADER_LENGTH * 8]).replace("=?", "= ?")
    return line if len(line) <= MAX_HEADER_LENGTH else line[: MAX_HEADER_LENGTH - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Return `text` as one line of visible characters, without control characters."""
    if (text.isascii() and text.isprintable()) or HARMLESS_TEXT.match(text):
        return " ".join(text.split())
    composed = unicodedata.normalize("NFC", text)
    kept: list[str] = []
    stacked = 0
    for char in composed.translate(BIDI_CONTROLS):
        category = unicodedata.category(char)
        stacked = stacked + 1 if category in {"Mn", "Me"} else 0
        if category in {"Cc", "Zl", "Zp"}:
            kept.append(" ")
        elif category not in {"Cs", "Co"} and stacked <= MAX_STACKED_MARKS and not is_no_character(char):
            kept.append(char)
    return " ".join("".join(kept).split())


def break_addresses(text: str) -> str:
    """Return `text` with invisible word joiners in everything that mail programs would turn into a link.

    Names typed by strangers are treated in this way, so that web and mail addresses in them stay plain text.
    """
    return ADDRESS_JOINTS.sub(WORD_JOINER, text)


def is_no_character(char: str) -> bool:
    """Return whether `char` is a Unicode noncharacter; an unassigned code point is not a noncharacter."""
    return ord(char) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF


def list_headers(
    site: Site, unsubscribe_url: str, *, unsubscribe_address: str = "", campaign: str = "digest"
) -> tuple[HeaderField, ...]:
    """Return the headers of list mail, which let readers unsubscribe with one click or by mail.

    `unsubscribe_address` is empty if no incoming mail is accepted; then only the link is included.
    `unsubscribe_url` is empty for a letter to a group, whose members must not unsubscribe the whole group.
    """
    mailto = f",\r\n <mailto:{unsubscribe_address}?subject=unsubscribe>" if unsubscribe_address else ""
    unsubscribe = (("List-Unsubscribe", f"<{unsubscribe_url}>{mailto}"),) if unsubscribe_url else ()
    one_click = (
        (("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),)
        if site.is_https and unsubscribe_url
        else ()
    )
    return (
        ("List-Id", f"{display_name(site.name)} <digest.{site.domain}>"),
        *unsubscribe,
        *one_click,
        ("List-Help", f"<{site.url}/>"),
        ("Auto-Submitted", "auto-generated"),
        ("Precedence", "bulk"),
        ("Feedback-ID", feedback_id(site.domain, campaign)),
    )


def reply_to(address: str) -> tuple[HeaderField, ...]:
    """Return the Reply-To header, or no header if `address` is empty; replies then go to the sender."""
    return (("Reply-To", address),) if address else ()


def reply_headers(answered_id: str = "") -> tuple[HeaderField, ...]:
    """Return the headers of an automatic reply (RFC 3834); such a reply is not list mail.

    `answered_id` is the id of the message that is answered, if any; mail programs then show both as a thread.
    """
    about = (
        (("In-Reply-To", answered_id), ("References", answered_id)) if MESSAGE_ID.match(answered_id) else ()
    )
    return (("Auto-Submitted", "auto-replied"), *about)


@lru_cache(maxsize=256)  # holds the editions and letters of a day
def feedback_id(domain: str, campaign: str) -> str:
    """Return the value of Gmail's Feedback-ID header, whose last field is a permanent id of the sender."""
    sender = "digest" + hashlib.sha256(domain.encode()).hexdigest()[:8]
    return f"{campaign}:digest:{domain}:{sender}"


def header_block(
    *,
    site: Site,
    recipient: str,
    subject: str,
    message_id: str,
    dated_at: datetime,
    headers: Iterable[HeaderField] = (),
) -> bytes:
    """Return the encoded header block of a message, except Content-Type and Content-Transfer-Encoding."""
    lines = (
        ("From", from_address(site.sender_name, site.sender_address)),
        ("To", one_line(recipient)),
        ("Subject", subject_line(subject)),
        ("Date", date_line(dated_at)),
        ("Message-ID", message_id),
        *headers,
        ("MIME-Version", "1.0"),
    )
    return "".join([f"{name}: {value}\r\n" for name, value in lines]).encode()


@lru_cache(maxsize=4096)  # the digests of a press have few combinations of first paper and number of papers
def subject_line(text: str) -> str:
    """Return the value of the Subject header."""
    return encode_header(header_text(text), width=68)


@lru_cache(maxsize=256)  # all digests of a run have the same date
def date_line(moment: datetime) -> str:
    """Return the value of the Date header."""
    return format_datetime(moment.astimezone(UTC))


@lru_cache(maxsize=256)  # holds only the site's own sender
def from_address(name: str, email: str) -> str:
    """Return `Name <email>`, the value of a From header."""
    shown = header_text(name)
    return f"{display_name(shown)} <{email}>" if shown else email


@lru_cache(maxsize=256)  # holds only the site's own name
def display_name(text: str) -> str:
    """Return a display name: bare, quoted, or as encoded words."""
    shown = header_text(text)
    if ATOM_TEXT.match(shown) and "=?" not in shown:
        return shown
    if shown.isascii():
        return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return encode_header(shown, width=60)


def encode_header(text: str, *, width: int) -> str:
    """Return header text folded into lines, as encoded words if it is not ASCII (RFC 2047).

    Text that is mostly ASCII uses the Q encoding, which people and spam filters can read; other text uses B.
    """
    charset = "us-ascii" if text.isascii() else "utf-8"
    return Header(text, charset, maxlinelen=width).encode(splitchars=" ", linesep="\r\n")
