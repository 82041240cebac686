"""Check the letters that arrive through a real Postfix in a mailbox of a real Dovecot."""

from __future__ import annotations

import multiprocessing
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import dkim
import pytest
from sqlalchemy import select

from digest import db
from digest.cli.keys import new_key
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import delivery_run
from digest.delivery.outbox.transitions import LEASE
from digest.delivery.transports.smtp import MailServer, SmtpTransport
from digest.dumps.intake import load_dump
from digest.editions.schedule import Schedule
from digest.letters.dkim_signing import Signer
from digest.letters.templates import Templates
from digest.process import failpoints
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.conftest import ROOT
from tests.judge import dovecot, postfix
from tests.judge.installed_programs import program
from tests.support.real_servers import free_port
from tests.support.schedule_texts import schedule_texts
from tests.support.shared_caches import CACHES
from tests.support.waiting import wait_until

DOMAIN = "mailbox.example"
CAREFUL, PLAIN = "careful", "plain"

#: The Sieve rule of docs/delivery.md.
COLLAPSE = 'require "duplicate";\n\nif duplicate {\n  discard;\n}\n'


@dataclass(frozen=True, kw_only=True)
class MailboxPath:
    """A mail path from us through Postfix into Dovecot."""

    database: str
    site: Site
    templates: Templates
    signer: Signer
    port: int
    log: Path
    boxes: dovecot.Mailboxes

    def deliver(self, *, later: timedelta = timedelta(), dies: bool = False) -> None:
        """Deliver what is due; with `dies`, the worker ends between the server's reply and recording it."""
        if dies:
            failpoints.armed_failpoints["answered"] = 1  # the reply to the second of two letters
        engine = db.make_engine(self.database)
        transport = SmtpTransport(
            MailServer(scheme="smtp", host="127.0.0.1", port=self.port), helo="example.org"
        )
        with db.write_session(engine) as session:
            delivery_run.deliver(
                session, site=self.site, templates=self.templates, caches=CACHES, transport=transport, signers=[self.signer],
                clock=lambda: datetime.now(UTC) + later,
            )  # fmt: skip
        transport.close()
        engine.dispose()

    def arrived(self, count: int) -> None:
        """Wait until Dovecot has accepted this many letters from Postfix."""
        wait_until(f"{count} letters", lambda: self.log.read_text().count("status=sent") >= count)


@pytest.fixture
def mailway(sqlite_url: str, site: Site, templates: Templates) -> Iterator[MailboxPath]:
    program("postfix", package="postfix")
    program("dovecot", package="dovecot-lmtpd")
    program("sievec", package="dovecot-sieve")
    found = program("dovecot", package="dovecot-core")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if not version.startswith("2.3"):
        pytest.skip(f"needs Dovecot 2.3, whose settings we know; this is {version}")
    mail_port, port = free_port(), free_port()
    signer = Signer(domain=site.domain, selector="mail", pem=new_key("rsa"))
    with (
        dovecot.running(found, port=mail_port, rules={CAREFUL: COLLAPSE}) as boxes,
        postfix.running(
            port=port, relay_port=free_port(), inbound_domain="bounce.example.org", inbound_port=free_port(),
            mailboxes={DOMAIN: mail_port},
        ) as log,
    ):  # fmt: skip
        yield MailboxPath(
            database=sqlite_url, site=replace(site, inbound_domain="bounce.example.org"), templates=templates,
            signer=signer, port=port, log=log, boxes=boxes,
        )  # fmt: skip


def publish(mailway: MailboxPath, *names: str) -> None:
    """Publish a digest of the sample for these readers."""
    now = datetime.now(UTC)
    ahead = 12 - now.hour  # noon there: no edition ends while we look
    schedule = Schedule(at=datetime.min.time(), timezone=f"Etc/GMT{-ahead:+d}" if ahead else "UTC")
    engine = db.make_engine(mailway.database)
    with db.write_session(engine) as session:
        for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
            load_dump.load(session, path, now=now - timedelta(hours=1))
        for name in names:
            subscriber_rows.add(
                session, f"{name}@{DOMAIN}", texts=schedule_texts(schedule), state=SubscriberState.ACTIVE, consent="a test",
                now=now,
            )  # fmt: skip
        session.commit()
        publish_due.publish(
            Publication(session, site=mailway.site, templates=mailway.templates, caches=CACHES, now=now)
        )
    engine.dispose()


def die(mailway: MailboxPath) -> None:
    """Kill a worker once its server has accepted a letter."""
    worker = multiprocessing.get_context("fork").Process(target=mailway.deliver, kwargs={"dies": True})
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL


def test_a_copy_after_a_crash_is_one_mail_in_a_mailbox_with_a_sieve_rule(mailway: MailboxPath) -> None:
    publish(mailway, CAREFUL, PLAIN)
    die(mailway)
    mailway.arrived(2)

    mailway.deliver(later=LEASE + timedelta(minutes=1))
    mailway.arrived(4)

    engine = db.make_engine(mailway.database)
    with db.read_session(engine) as session:
        rows = session.execute(select(Delivery.state, Delivery.in_doubt)).all()
    engine.dispose()
    assert [tuple(row) for row in rows] == [("sent", 1), ("sent", 1)]
    first, second = mailway.boxes.mails(PLAIN)  # the judge sees copies where no rule takes them away
    assert inside(first) == inside(second)
    assert len(mailway.boxes.mails(CAREFUL)) == 1, mailway.boxes.log()


def inside(mail: bytes) -> bytes:
    """Return a letter without the headers that servers added."""
    return mail[mail.index(b"DKIM-Signature:") :]


def test_signatures_and_the_one_click_header_survive_delivery(mailway: MailboxPath) -> None:
    publish(mailway, PLAIN)
    mailway.deliver()
    mailway.arrived(1)

    (mail,) = mailway.boxes.mails(PLAIN)

    def lookup(name: bytes, timeout: int = 5) -> bytes:
        del timeout
        assert name.decode() == f"{mailway.signer.dns_name}."
        return mailway.signer.dns_record.encode()

    assert not dkim.verify(mail.replace(b"=One-Click", b"=Two-Click"), dnsfunc=lookup)  # the judge sees that
    assert dkim.verify(mail, dnsfunc=lookup)
    message = message_from_bytes(mail, policy=policy.default)
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert re.fullmatch(r"<bounce\+1\.[0-9a-f]{20}@bounce\.example\.org>", message["Return-Path"])


def test_the_docs_contain_the_sieve_rule_that_was_tested() -> None:
    assert COLLAPSE in Path(ROOT, "docs", "delivery.md").read_text()
