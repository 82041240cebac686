"""Messages on the wire: quoted-printable fragments that may be joined in any order.

Two encoded texts joined are the encoding of the two joined, if the first ends at a line's end or
at a soft break. So what stands in many messages is encoded once (and in no other way may a body
be assembled: base64 would only join at every 57th byte).

No line ends in a blank, and no blank follows another: so a body is already what DKIM's `relaxed`
would make of it, and signing need not look at every byte (rendering.dkim). Nor does a line begin
with a dot (RFC 2049), which SMTP would have to double and undouble.
"""

from __future__ import annotations

import hashlib
import re
from binascii import a2b_qp, b2a_qp
from collections.abc import Iterable
from datetime import datetime

from digest.links import Site
from digest.rendering.headers import Header, head
from digest.rendering.letters import Letter

LONGEST_LINE = 76  #: by RFC 2045, the soft break included
SOFT_BREAK = b"=\r\n"
LEADING_DOTS = re.compile(rb"^\.+", re.MULTILINE)


def wire(text: str) -> bytes:
    """Return `text` in quoted-printable with CRLF, ready to be followed by more of it."""
    if text.isascii() and text.isprintable() and "=" not in text and "  " not in text:
        lines = softened(text.encode())  # most links and words stay as they are
    elif "  " in text or "\t" in text:
        lines = closed(b"\r\n".join([spaced(line) for line in text.split("\n")]))
    else:
        lines = b2a_qp(text.replace("\n", "\r\n").encode(), istext=True)
        if "\n" not in text:  # then b2a_qp, which goes by the first line's end, breaks with a bare LF
            lines = lines.replace(b"=\n", b"=\r\n")
        lines = closed(lines)
    if b"\n." in lines or lines[:1] == b".":
        return LEADING_DOTS.sub(lambda dots: b"=2E=\r\n" * len(dots[0]), lines)
    return lines


def softened(octets: bytes) -> bytes:
    """Return what needs no encoding on lines of the longest length, each with a soft break."""
    if len(octets) < LONGEST_LINE:
        return octets + SOFT_BREAK if octets else b""
    lines = [octets[at : at + LONGEST_LINE - 1] for at in range(0, len(octets), LONGEST_LINE - 1)]
    return SOFT_BREAK.join([*lines, b""])


def closed(lines: bytes) -> bytes:
    """Return encoded lines with a soft break behind the last, unless that one has its end."""
    if lines.endswith(b"\r\n"):
        return lines
    if len(lines) - lines.rfind(b"\n") > LONGEST_LINE:  # no room for it: break before the last sign
        last = 3 if lines[-3:-2] == b"=" else 1
        lines = lines[:-last] + SOFT_BREAK + lines[-last:]
    return lines + SOFT_BREAK


def spaced(line: str) -> bytes:
    """Return one line encoded, its blanks too where one follows another or is a tab."""
    has_gaps = "  " in line or "\t" in line
    return b2a_qp(line.encode(), quotetabs=has_gaps, istext=True).replace(b"=\n", b"=\r\n")


def unwired(encoded: bytes) -> str:
    """Return the text that `wire` encoded."""
    return a2b_qp(encoded).decode().replace("\r\n", "\n")


def boundary(message_id: str) -> bytes:
    """Return the line between the parts: the same on every attempt, and impossible in a body.

    Quoted-printable never writes `=_`, since an equals sign is followed by two digits or a line end.
    """
    return b"=_" + hashlib.sha256(message_id.encode()).hexdigest()[:24].encode()


def message(
    letter: Letter,
    *,
    site: Site,
    recipient: str,
    message_id: str,
    dated_at: datetime,
    headers: Iterable[Header] = (),
) -> bytes:
    """Return the whole message (RFC 5322, CRLF): text first, then HTML; the same bytes every time."""
    top = head(
        site=site,
        recipient=recipient,
        subject=letter.subject,
        message_id=message_id,
        dated_at=dated_at,
        headers=headers,
    )
    return b"".join(enveloped(top, boundary(message_id), [wire(letter.text)], [wire(letter.html)]))


def enveloped(top: bytes, line: bytes, text: Iterable[bytes], html: Iterable[bytes]) -> list[bytes]:
    """Return the pieces of a multipart/alternative message around two encoded bodies."""
    return [
        top,
        b'Content-Type: multipart/alternative; boundary="', line, b'"\r\n\r\n--', line,
        b'\r\nContent-Type: text/plain; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n',
        *text,
        b"\r\n--", line,
        b'\r\nContent-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n',
        *html,
        b"\r\n--", line, b"--\r\n",
    ]  # fmt: skip
