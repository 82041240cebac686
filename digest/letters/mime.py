"""Build MIME messages from quoted-printable fragments that can be joined in any order.

Two fragments may be joined if the first ends at a line end or a soft break: the result is the encoding of
the joined text. Text that many messages share is therefore encoded once. (In base64, text could be joined
only after a multiple of 57 bytes.)

No line ends in a space, and no two spaces are adjacent. The body is therefore already in DKIM's `relaxed`
form, and signing need not check every byte (letters.dkim_signing). No line begins with a dot (RFC 2049),
which SMTP would have to escape.
"""

from __future__ import annotations

import re
from binascii import a2b_qp, b2a_qp
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from xxhash import xxh3_64_hexdigest

from digest.letters.headers import HeaderField, header_block
from digest.site.site_profile import Site

MAX_LINE_LENGTH = 76  #: maximum length of a line according to RFC 2045, including the soft break
SOFT_BREAK = b"=\r\n"
LEADING_DOTS = re.compile(rb"^\.+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedLetter:
    """A rendered letter: its subject and both bodies."""

    subject: str
    text: str
    html: str


def encode_quoted_printable(text: str) -> bytes:
    """Return `text` in quoted-printable with CRLF, in a form to which more text may be appended."""
    if text.isascii() and text.isprintable() and "=" not in text and "  " not in text:
        lines = add_soft_breaks(text.encode())  # most links and words need no encoding
    elif "  " in text or "\t" in text:
        lines = end_with_soft_break(b"\r\n".join([encode_line(line) for line in text.split("\n")]))
    else:
        lines = b2a_qp(text.replace("\n", "\r\n").encode(), istext=True)
        if "\n" not in text:  # b2a_qp takes the line ending from the first line, and defaults to a bare LF
            lines = lines.replace(b"=\n", b"=\r\n")
        lines = end_with_soft_break(lines)
    if b"\n." in lines or lines[:1] == b".":
        return LEADING_DOTS.sub(lambda dots: b"=2E=\r\n" * len(dots[0]), lines)
    return lines


def add_soft_breaks(octets: bytes) -> bytes:
    """Split text that needs no encoding into lines of the maximum length, each ending with a soft break."""
    if len(octets) < MAX_LINE_LENGTH:
        return octets + SOFT_BREAK if octets else b""
    if len(octets) < 2 * MAX_LINE_LENGTH - 1:  # most long links
        return octets[: MAX_LINE_LENGTH - 1] + SOFT_BREAK + octets[MAX_LINE_LENGTH - 1 :] + SOFT_BREAK
    lines = [octets[at : at + MAX_LINE_LENGTH - 1] for at in range(0, len(octets), MAX_LINE_LENGTH - 1)]
    return SOFT_BREAK.join([*lines, b""])


def end_with_soft_break(lines: bytes) -> bytes:
    """Return encoded lines with a soft break after the last, unless it ends with CRLF."""
    if lines.endswith(b"\r\n"):
        return lines
    if len(lines) - lines.rfind(b"\n") > MAX_LINE_LENGTH:  # break before the last character
        last = 3 if lines[-3:-2] == b"=" else 1
        lines = lines[:-last] + SOFT_BREAK + lines[-last:]
    return lines + SOFT_BREAK


def encode_line(line: str) -> bytes:
    """Encode one line; if the line has tabs or consecutive spaces, encode all of its whitespace."""
    has_gaps = "  " in line or "\t" in line
    return b2a_qp(line.encode(), quotetabs=has_gaps, istext=True).replace(b"=\n", b"=\r\n")


def decode_quoted_printable(encoded: bytes) -> str:
    """Decode text that `encode_quoted_printable` encoded."""
    return a2b_qp(encoded).decode().replace("\r\n", "\n")


def mime_boundary(message_id: str) -> bytes:
    """Return the MIME boundary, which is the same for every attempt to send and cannot occur in a body.

    Quoted-printable never contains `=_`: after an equals sign come two hex digits or a line end.
    """
    return b"=_" + xxh3_64_hexdigest(message_id.encode()).encode()


def build_message(
    letter: RenderedLetter,
    *,
    site: Site,
    recipient: str,
    message_id: str,
    dated_at: datetime,
    headers: Iterable[HeaderField] = (),
) -> bytes:
    """Return the whole message (RFC 5322, CRLF), text before HTML; the same input gives the same bytes."""
    top = header_block(
        site=site,
        recipient=recipient,
        subject=letter.subject,
        message_id=message_id,
        dated_at=dated_at,
        headers=headers,
    )
    return b"".join(
        multipart_pieces(
            top,
            mime_boundary(message_id),
            [encode_quoted_printable(letter.text)],
            [encode_quoted_printable(letter.html)],
        )
    )


def multipart_pieces(top: bytes, line: bytes, text: Iterable[bytes], html: Iterable[bytes]) -> list[bytes]:
    """Return the pieces of a multipart/alternative message around two encoded bodies."""
    pieces = [
        top,
        b'Content-Type: multipart/alternative; boundary="', line, b'"\r\n\r\n--', line,
        b'\r\nContent-Type: text/plain; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n',
    ]  # fmt: skip
    pieces += text
    pieces += (
        b"\r\n--", line,
        b'\r\nContent-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n',
    )  # fmt: skip
    pieces += html
    pieces += b"\r\n--", line, b"--\r\n"
    return pieces
