"""Test a reader's exchange of mail with the service, from sign-up on, through a real Postfix and Dovecot."""

from __future__ import annotations

import os
import re
import smtplib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import dkim
import pytest
from sqlalchemy import Engine, func, select

from digest import db
from digest.app_context import AppContext
from digest.cli.keys import new_key
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.smtp import MailServer, SmtpTransport
from digest.dumps.intake import load_dump
from digest.letters.dkim_signing import Signer
from digest.letters.templates import Templates
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.settings import load_settings
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows, subscriber_topics
from tests.conftest import ROOT
from tests.inbound.test_classification import opened
from tests.judge import dovecot, postfix
from tests.judge.installed_programs import program
from tests.support.mail_bodies import body_of
from tests.support.real_servers import free_port
from tests.support.shared_caches import CACHES
from tests.support.waiting import wait_until

DOMAIN = "mailbox.example"
ADA = f"ada@{DOMAIN}"
US = "digest@example.org"
COVERED = [b"from", b"to", b"subject", b"message-id"]


@dataclass(kw_only=True)
class Correspondence:
    """A reader's mail program and the service; all messages between them pass through Postfix."""

    engine: Engine
    site: Site
    templates: Templates
    port: int
    key: Signer
    boxes: dovecot.Mailboxes
    log: Path
    read: set[bytes] = field(default_factory=set)
    later: timedelta = timedelta()

    def write(self, body: str, *, to: str = US, subject: str = "Re: papers", is_signed: bool = True) -> None:
        """Send a message through Postfix, signed by the reader's mail server."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = f"Ada Ito <{ADA}>", to, subject
        mail["Message-ID"] = f"<{time.monotonic_ns()}@{DOMAIN}>"
        mail.set_content(body)
        content = mail.as_bytes(policy=policy.SMTP)
        if is_signed:
            content = (
                dkim.sign(content, b"s", DOMAIN.encode(), self.key.pem, include_headers=COVERED) + content
            )
        with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as client:
            client.sendmail(ADA, [to], content)

    def arrives(self) -> EmailMessage:
        """Deliver the letter that is queued next, and return it from the reader's mailbox."""
        wait_until("a queued letter", self.has_queued)
        transport = SmtpTransport(
            MailServer(scheme="smtp", host="127.0.0.1", port=self.port), helo="example.org"
        )
        with db.write_session(self.engine) as session:
            delivery_run.deliver(
                session, site=self.site, templates=self.templates, caches=CACHES, transport=transport,
                clock=lambda: datetime.now(UTC) + self.later,
            )  # fmt: skip
        transport.close()
        wait_until("a mail in the mailbox", lambda: bool(self.unread()))
        (content,) = self.unread()
        self.read.add(content)
        mail = message_from_bytes(content, policy=policy.default)
        if os.environ.get("SHOW_MAIL"):
            print(f"\n{'=' * 78}\n{mail['Subject']}\n{'-' * 78}\n{body_of(content, 'plain')}")
        return mail

    def unread(self) -> list[bytes]:
        """Return the new messages in the reader's mailbox."""
        return [content for content in self.boxes.mails("ada") if content not in self.read]

    def has_queued(self) -> bool:
        """Return whether a letter waits to be sent."""
        with db.read_session(self.engine) as session:
            waiting = select(func.count()).where(Delivery.state == DeliveryState.QUEUED)
            return bool(session.scalar(waiting))

    def ask(self, letter: EmailMessage, body: str, *, is_signed: bool = True) -> tuple[EmailMessage, str]:
        """Reply to a letter, and return the answer and its text on one line."""
        self.write(body, to=str(letter["Reply-To"]), is_signed=is_signed)
        answer = self.arrives()
        return answer, text_of(answer)

    def reader(self) -> Subscriber:
        """Return the reader's row."""
        with db.read_session(self.engine) as session:
            return subscriber_rows.get(session, ADA)

    def topics(self) -> list[str]:
        """Return the names of the reader's topics."""
        with db.read_session(self.engine) as session:
            return [
                topic.name
                for topic in subscriber_topics.topics_of(session, subscriber_rows.get(session, ADA))
            ]

    def publish(self) -> None:
        """Publish the reader's next digest, and set the worker's clock to the hour of that digest."""
        due = self.reader().next_due_at
        assert due
        self.later = due + timedelta(minutes=1) - datetime.now(UTC)
        with db.write_session(self.engine) as session:
            publish_due.publish(
                Publication(
                    session,
                    site=self.site,
                    templates=self.templates,
                    caches=CACHES,
                    now=due + timedelta(minutes=1),
                )
            )


def text_of(mail: EmailMessage) -> str:
    """Return the text of a message on one line."""
    return " ".join(body_of(mail.as_bytes(), "plain").split())


@pytest.fixture
def mail(sqlite_url: str, site: Site, templates: Templates, tmp_path: Path) -> Iterator[Correspondence]:
    program("postfix", package="postfix")
    program("dovecot", package="dovecot-lmtpd")
    found = program("dovecot", package="dovecot-core")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if not version.startswith("2.3"):
        pytest.skip(f"needs Dovecot 2.3, whose settings we know; this is {version}")
    mail_port, port, inbound_port = free_port(), free_port(), free_port()
    engine, key = db.make_engine(sqlite_url), Signer(domain=DOMAIN, selector="s", pem=new_key("rsa"))
    site = replace(site, inbound_domain="example.org")
    settings = load_settings(
        {"data_dir": tmp_path, "inbound": f"lmtp://127.0.0.1:{inbound_port}", "inbound_domain": "example.org"}
    )
    keys = {f"s._domainkey.{DOMAIN}": [key.dns_record]}
    context = AppContext(settings=settings, engine=engine, site=site, lookup=lambda name: keys.get(name, []))
    with db.write_session(engine) as session:
        for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
            load_dump.load(session, path, now=datetime.now(UTC) - timedelta(hours=1))
        session.commit()
    with (
        dovecot.running(found, port=mail_port, rules={}) as boxes,
        opened(context),
        postfix.running(
            port=port, relay_port=free_port(), inbound_domain="example.org", inbound_port=inbound_port,
            mailboxes={DOMAIN: mail_port},
        ) as log,
    ):  # fmt: skip
        yield Correspondence(
            engine=engine, site=site, templates=templates, port=port, key=key, boxes=boxes, log=log
        )
    engine.dispose()


def subscribe(mail: Correspondence) -> EmailMessage:
    """Subscribe with a topic, confirm by reply, and return the welcome letter."""
    mail.write("add Learning: learn*\n", to="digest-subscribe@example.org", subject="Hello")
    question = mail.arrives()
    assert (question["Subject"], question["To"]) == ("Confirm your subscription", ADA)

    welcome, _ = mail.ask(question, "yes\n\nAda\n", is_signed=False)
    assert mail.reader().state == SubscriberState.ACTIVE
    assert mail.topics() == ["Learning"]
    return welcome


def test_a_reader_changes_settings_and_leaves_by_mail(mail: Correspondence) -> None:
    welcome = subscribe(mail)
    _answer, said = mail.ask(welcome, "why 1\n")
    assert "It matches Learning (learn* " in said
    answer, said = mail.ask(welcome, "test model*\n")
    assert re.search(r"It matches \d+ of the last \d+ papers; the latest: ", said)

    answer, said = mail.ask(answer, "add Models: model*\nat 9am\n")
    assert "Added: Models." in said
    assert (mail.topics(), f"{mail.reader().at:%H:%M}") == (["Learning", "Models"], "09:00")

    answer, _ = mail.ask(answer, "pause 2 weeks\n")
    assert mail.reader().state == SubscriberState.PAUSED
    answer, _ = mail.ask(answer, "resume\n")
    assert mail.reader().state == SubscriberState.ACTIVE

    answer, said = mail.ask(answer, "Thank you, I like it!\n")
    assert "A program reads this address" in said
    answer, said = mail.ask(answer, "Who chooses the papers?\n")
    assert "Examples of what" in said
    _account, said = mail.ask(answer, "export\n")
    assert "/d/" in said
    _goodbye, said = mail.ask(answer, "unsubscribe\n")
    assert mail.reader().state == SubscriberState.UNSUBSCRIBED
    assert "Undo" in said


def test_a_reader_asks_about_the_papers_of_a_digest_by_mail(mail: Correspondence) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)  # a digest considers the papers of its last day
    mail.ask(subscribe(mail), f"at {soon:%H}:00\n")
    mail.publish()
    digest = mail.arrives()
    assert digest["Reply-To"].startswith("reply+")

    _answer, said = mail.ask(digest, "why 2\n")
    assert "It matches Learning (learn* " in said
    answer, said = mail.ask(digest, "less 2\n")
    assert "You get fewer papers like this." in said
    answer, said = mail.ask(answer, "undo\n")
    assert "> undo “Learning” is now learn*." in said
    _answer, said = mail.ask(digest, "save 2\n")
    assert "Saved: " in said
