"""Mail with any mistake is read without an error: some senders write what no parser expects."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from digest.inbound import find_commands, mail_text, sender_proof, writer_checks
from digest.inbound.writer_checks import MailIgnored
from digest.site.site_profile import Site
from tests.inbound.command_corpus import ALL, READER, US
from tests.inbound.mail_corpus import MUST_ACT, MUST_NOT

SITE = Site(url="https://digest.example.org", sender_address=US, keys=(b"k",), inbound_domain="example.org")
CONTENTS = [*(case.content() for case in [*MUST_ACT, *MUST_NOT]), *(case.content() for case in ALL)]
MAILS = [mail for mail in CONTENTS if len(mail) < 20_000]
INSERTED = (
    b"\r\n", b"\n", b"\x00", b"=?utf-8?q?", b"?=", b"From: ", b"Subject: ", b"Content-Type: multipart/mixed; boundary=b\r\n",
    b"--b", b"Authentication-Results: mx; dmarc=pass header.from=uni.example\r\n", b"(", b'"', b";", b"charset=", b"\xff\xfe",
    b"Re: " * 50, b"add ", b"a " * 500, b"<style>", b">" * 200, b"until ", b"99999999999", b"at ", b":",
)  # fmt: skip


def mutated(seed: int, count: int = 100) -> Iterator[bytes]:
    """Yield mails of the corpora, each with up to eight mistakes."""
    chance = random.Random(seed)
    for _ in range(count):
        mail = bytearray(chance.choice(MAILS))
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(mail) + 1)
            kind = chance.randrange(3)
            if kind == 0:
                mail[place:place] = chance.choice(INSERTED)
            elif kind == 1:
                del mail[place : place + chance.randint(1, 40)]
            else:
                mail[place : place + 1] = bytes([chance.randrange(256)])
        yield bytes(mail)


def test_a_mail_with_mistakes_is_read_without_an_error() -> None:
    for content in mutated(0, count=200):
        message = mail_text.read_mail(content)

        with suppress(MailIgnored):
            writer_checks.address_of_writer(SITE, message)
        read = find_commands.read_commands(message)
        proof = sender_proof.trusted_result(message, READER, to=US, authserv_id="mx.example.org")

        assert len(read.commands) <= find_commands.MAX_COMMANDS
        assert all(
            isinstance(found, bool)
            for found in (writer_checks.is_marked_as_spam(message), writer_checks.is_automatic(message))
        )
        assert set(writer_checks.answered_mail(message)) == {"answered_subject", "answered_id"}
        assert proof is None


def test_a_from_line_that_python_cannot_parse_has_no_writer() -> None:
    content = f"From: results: mx; .x\r\nA Reader <{READER}>\r\nTo: {US}\r\n\r\nhelp\r\n".encode()

    with pytest.raises(MailIgnored):
        writer_checks.address_of_writer(SITE, mail_text.read_mail(content))
