"""Sample messages in the formats of mail servers and mailbox providers, with invented content."""

from __future__ import annotations

import base64
import quopri
from textwrap import dedent


def wire(text: str) -> bytes:
    """Return the text as bytes with CRLF."""
    return dedent(text).lstrip("\n").replace("\n", "\r\n").encode()


def dsn(
    *,
    status: str = "5.1.1",
    diagnostic: str = "550 5.1.1 <ada@uni.example>: Recipient address rejected: User unknown",
    action: str = "failed",
    recipient: str = "ada@uni.example",
    quoted: str = "",
    encoding: str = "",
) -> bytes:
    """Return an RFC 3464 report as Postfix writes it, optionally in base64 or quoted-printable."""
    status_part = dedent(f"""\
        Reporting-MTA: dns; relay.example
        X-Postfix-Queue-ID: 4Fk2

        Final-Recipient: rfc822; {recipient}
        Original-Recipient: rfc822;{recipient}
        Action: {action}
        Status: {status}
        Diagnostic-Code: smtp; {diagnostic}
        """)
    content = wire(f"""
        From: MAILER-DAEMON@relay.example (Mail Delivery System)
        To: bounces@example.org
        Subject: Undelivered Mail Returned to Sender
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type=delivery-status; boundary="cut"

        --cut
        Content-Type: text/plain; charset=us-ascii

        I'm sorry to have to inform you that your message could not be delivered.

        --cut
        Content-Type: message/delivery-status
        Content-Transfer-Encoding: {encoding or "8bit"}

        REPORT

        --cut
        Content-Type: text/rfc822-headers

        Subject: Three papers for you
        {quoted}

        --cut--
        """)
    report = status_part.replace("\n", "\r\n").encode()
    encode = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}.get(encoding, bytes)
    return content.replace(b"REPORT\r\n", encode(report))


def complaint(*, quoted: str = "", kind: str = "abuse") -> bytes:
    """Return an RFC 5965 report, which mailbox providers send when a user presses "this is spam"."""
    return wire(f"""
        From: <feedback@mailbox.example>
        To: abuse@example.org
        Subject: FW: Three papers for you
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type=feedback-report; boundary="cut"

        --cut
        Content-Type: text/plain

        This is an email abuse report.

        --cut
        Content-Type: message/feedback-report

        Feedback-Type: {kind}
        User-Agent: Mailbox/1.0
        Version: 1

        --cut
        Content-Type: message/rfc822

        From: Example Digest <digest@example.org>
        Subject: Three papers for you
        {quoted}

        Hello.

        --cut--
        """)


QMAIL = wire("""
    From: MAILER-DAEMON@mx.uni.example
    To: bounces@example.org
    Subject: failure notice

    Hi. This is the qmail-send program at mx.uni.example.
    I'm afraid I wasn't able to deliver your message to the following addresses.
    This is a permanent error; I've given up. Sorry it didn't work out.

    <ada@uni.example>:
    This address no longer accepts mail: no mailbox here by that name. (#5.1.1)

    --- Below this line is a copy of the message.
    """)

ON_LEAVE = wire("""
    From: Ada <ada@uni.example>
    To: bounces@example.org
    Subject: Out of office
    Auto-Submitted: auto-replied

    I am on leave until Monday.
    """)

A_LETTER = wire("""
    From: Ada <ada@uni.example>
    To: digest@example.org
    Subject: Lovely

    Could you add a paper of mine?
    """)
