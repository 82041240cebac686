"""Readers' replies as mail servers deliver them: to the reply address of a letter, signed or not."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage

import dkim

from tests.inbound.test_sender_proof import key, zone

ADA = "ada@uni.example"
ZONE = zone("uni.example")


def lookup(name: str) -> list[str]:
    """Return the DKIM key of the readers' university."""
    return ZONE.get(name, [])


def reply(to: str, body: str, *, sender: str = ADA, subject: str = "Re: papers", **headers: str) -> bytes:
    """Return a reply without a signature."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = f"Ada Ito <{sender}>", to, subject
    mail["Message-ID"] = "<reply@uni.example>"
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(body)
    return mail.as_bytes(policy=policy.SMTP)


def signed_reply(to: str, body: str, *, sender: str = ADA, domain: str = "uni.example") -> bytes:
    """Return a reply signed by a domain."""
    content = reply(to, body, sender=sender)
    covered = [b"from", b"to", b"subject", b"message-id"]
    header: bytes = dkim.sign(content, b"s", domain.encode(), key().pem, include_headers=covered)
    return header + content
