"""A real SMTP server that keeps every message it accepts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.real_servers import free_port
from tests.support.waiting import wait_until


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """A message that arrived: the envelope, and the bytes as received."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes

    def parsed(self) -> EmailMessage:
        """Return the message as parsed by the standard library."""
        return message_from_bytes(self.content, policy=policy.default)


@dataclass
class MailSink:
    """An SMTP handler that keeps every message in the order of arrival."""

    url: str = ""
    mails: list[Mail] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        mail = Mail(
            sender=envelope.mail_from,
            recipients=tuple(envelope.rcpt_tos),
            content=envelope.original_content,
        )
        with self.lock:
            self.mails.append(mail)
        return "250 taken"

    def to(self, address: str) -> list[Mail]:
        """Return the messages that arrived for one address."""
        with self.lock:
            return [mail for mail in self.mails if address in mail.recipients]

    def recipients(self) -> list[str]:
        """Return the recipients of all messages, sorted."""
        with self.lock:
            return sorted(address for mail in self.mails for address in mail.recipients)

    def wait_for(self, count: int) -> None:
        """Wait until `count` messages have arrived."""
        wait_until(f"{count} mails", lambda: len(self.mails) >= count)


@contextmanager
def run_mail_sink() -> Iterator[MailSink]:
    """Run an SMTP server on the loopback until the block ends."""
    mail_sink, port = MailSink(), free_port()
    controller = Controller(mail_sink, hostname="127.0.0.1", port=port, ident="the tests' mail server")
    controller.start()
    mail_sink.url = f"smtp://127.0.0.1:{port}"
    try:
        yield mail_sink
    finally:
        controller.stop()
