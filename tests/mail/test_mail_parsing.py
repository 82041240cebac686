"""Mail from strangers is parsed in time that grows with its length alone, whatever it contains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from digest.dumps.formats import mail_page
from digest.inbound import find_commands, sender_proof, writer_checks
from digest.inbound.mail_text import read_mail
from digest.inbound.writer_checks import MailIgnored
from digest.mail import mail_parsing
from digest.site.site_profile import Site
from tests.conftest import NOW

US, BOB = "digest@example.org", "bob@uni.example"
SITE = Site(url="https://digest.example.org", sender_address=US, keys=(b"k",), inbound_domain="example.org")
HEAD = f"From: {BOB}\r\nTo: {US}\r\nSubject: help\r\n".encode()
MULTIPART = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"


def typed(value: bytes) -> bytes:
    return HEAD + b"Content-Type: text/plain" + value + b"\r\n\r\nhelp\r\n"


def nested(count: int) -> bytes:
    part = b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n"
    return HEAD + b"".join(part % (number, number) for number in range(count)) + b"x\r\n" * count


#: Mail that takes Python's parser quadratic time or breaks its recursion limit, by its size.
GROWN: dict[str, Callable[[int], bytes]] = {
    "parameters": lambda size: typed(b";" * size),
    "named parameters": lambda size: typed(b"; a=b" * size),
    "pieces of a parameter": lambda size: typed(b"".join(b"; a*%d*=x" % number for number in range(size))),
    "quotes in a parameter": lambda size: typed(b'; a="' + b'\\"' * size),
    "comments": lambda size: typed(b"(" * size),
    "dots before the domain": lambda size: b"From: a" + b"." * size + b"@b\r\n\r\nhelp\r\n",
    "quoted names": lambda size: b"From: " + b'"a"' * size + b"\r\n\r\nhelp\r\n",
    "comments in From": lambda size: b"From: " + b"(" * size + b"\r\n\r\nhelp\r\n",
    "groups in From": lambda size: b"From: " + b"a:;" * size + b"\r\n\r\nhelp\r\n",
    "encoded words": lambda size: b"Subject: " + b"=?x?q?" * size + b"\r\n\r\nhelp\r\n",
    "more encoded words": lambda size: b"Subject: " + b"=?utf-8?q?a?= " * size + b"\r\n\r\nhelp\r\n",
    "lines of a header": lambda size: b"Subject: a\r\n" + b" ;b\r\n" * size + b"\r\nhelp\r\n",
    "headers": lambda size: HEAD + b"Content-Type: text/plain\r\n" * size + b"\r\nhelp\r\n",
    "parts": lambda size: HEAD + MULTIPART + b"--b\r\n\r\n" * size,
    "parts with parameters": lambda size: HEAD + MULTIPART + (b"--b\r\nContent-Type: a/b" + b";" * 99 + b"\r\n\r\n") * size,
    "parts in parts": nested,
    "messages in messages": lambda size: HEAD + b"Content-Type: message/rfc822\r\n\r\n" * size,
    "delivery reports": lambda size: HEAD + b"Content-Type: message/delivery-status\r\n\r\n" + b"a: b\r\n\r\n" * size,
}  # fmt: skip


def steps_of(content: bytes) -> int:
    """Return the number of functions called to read a mail, its writer, commands and proof, and as a list of papers."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        mail_page.page_in_mail(content)
        mail = read_mail(content)
        find_commands.read_commands(mail)
        writer_checks.is_marked_as_spam(mail)
        sender_proof.usable_signatures(mail, BOB, to=US, now=NOW)
        writer_checks.address_of_writer(SITE, mail)
    except MailIgnored:
        pass
    finally:
        sys.setprofile(before)
    return count


def test_a_mail_of_twice_the_length_takes_at_most_twice_the_steps() -> None:
    for name, grown in GROWN.items():
        half, whole = steps_of(grown(500)), steps_of(grown(1_000))
        assert whole < 2.2 * half, f"{name}: {half} steps, then {whole}"
        assert whole < 600 * 1_000, f"{name}: {whole} steps"


def test_a_header_is_cut_in_every_part() -> None:
    part = (
        b"--b\r\nContent-Type: text/plain"
        + b"; a=b" * 1_000
        + b"\r\nX: "
        + b"x" * 9_000
        + b"\r\n\r\nhelp\r\n"
    )
    message = mail_parsing.parse_message(HEAD + b"Y: 1\r\n" * 1_000 + MULTIPART + part)
    (inside,) = mail_parsing.parts_of_type(
        mail_parsing.parse_message(HEAD + MULTIPART + part), frozenset({"text/plain"})
    )

    assert len(message) == mail_parsing.MAX_HEADERS
    assert len(inside.get_params([])) == 1 + mail_parsing.MAX_PARAMETERS
    assert len(inside["X"]) == mail_parsing.MAX_HEADER_LENGTH


def test_a_header_that_was_cut_proves_no_sender() -> None:
    """The second From line, which a signature may cover, would be out of sight."""
    signed = b"DKIM-Signature: a=rsa-sha256; d=uni.example; h=from:to:subject; s=s; b=x; bh=x\r\n" + HEAD

    def usable(content: bytes) -> int:
        return len(sender_proof.usable_signatures(read_mail(content), BOB, to=US, now=NOW))

    assert usable(signed + b"\r\nhelp") == 1
    assert usable(signed + b"X: 1\r\n" * mail_parsing.MAX_HEADERS + b"From: eve@uni.example\r\n\r\nhelp") == 0
    assert usable(signed + b"X: " + b"x" * mail_parsing.MAX_HEADER_LENGTH + b"\r\n\r\nhelp") == 0


def test_a_mail_with_too_many_parts_has_a_header_and_no_text() -> None:
    mail = read_mail(nested(1_000))

    assert (writer_checks.address_of_writer(SITE, mail), mail.text, mail.report) == (BOB, "", None)


def test_encoded_words_are_decoded_and_unknown_ones_kept() -> None:
    for written, shown in {
        "=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?= from us": "Grüße from us",
        "Müller =?utf-8?b?w7w=?= Müller": "Müller ü Müller",
        "=?x-unknown?q?a?= b": "=?x-unknown?q?a?= b",
        "=?utf-7?q?+2AA-?=": "?",
        "=?utf-8?q?a": "=?utf-8?q?a",
    }.items():
        assert mail_parsing.decoded_words(written) == shown, written
