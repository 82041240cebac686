"""Incoming mail is stored until it is classified, and counts only with a valid signature."""

from __future__ import annotations

import asyncio
import gc
import re
import smtplib
import socket
import stat
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine, delete, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.app_context import AppContext
from digest.bounces import suppressions
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import BounceRow, InboundMail, MailState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.outbox import enqueue
from digest.delivery.transports.memory import MemoryTransport
from digest.errors import BadField
from digest.inbound import classification, mail_text, server, stored_mail
from digest.letters.templates import Templates
from digest.settings import load_settings
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import account, subscriber_rows, unsubscribe_and_undo
from tests.support import sample_mails
from tests.support.plain_letters import plain_letter
from tests.support.real_servers import free_port
from tests.support.shared_caches import CACHES
from tests.support.waiting import HANG_SECONDS, wait_until

ADA = "ada@uni.example"


@pytest.fixture
def site(site: Site) -> Site:
    return replace(site, inbound_domain="bounce.example.org")


@pytest.fixture
def ada(session: Session, now: datetime) -> Subscriber:
    """A subscriber."""
    row = subscriber_rows.add(session, ADA, state=SubscriberState.ACTIVE, consent="a test", now=now)
    session.commit()
    return row


@pytest.fixture
def letter(session: Session, site: Site, ada: Subscriber, now: datetime) -> int:
    """A letter to Ada that was sent."""
    number = enqueue.queue_letter(
        session, letter=plain_letter("settings", "one"), subscriber_id=ada.id, email=ADA, site=site, now=now
    )  # fmt: skip
    session.commit()
    assert number
    return number


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Callable[..., str]:
    """Return a function that stores and processes a mail and returns the outcome."""

    def arrived(content: bytes, *, to: str, sender: str = "", after: timedelta = timedelta()) -> str:
        (number,) = stored_mail.store_mail(
            session, sender=sender, recipients=[to], content=content, now=now + after
        )
        return classification.process_mail(session, site=site, number=number, now=now + after)

    return arrived


def kept(session: Session) -> list[tuple[str, str]]:
    return [(row.state, row.reason) for row in stored_mail.list_mails(session)]


def failures(session: Session) -> list[tuple[str, int | None]]:
    return [(row.kind, row.delivery_id) for row in session.scalars(select(BounceRow).order_by(BounceRow.id))]


# ── bounces ─────────────────────────────────────────────────────────────────────────────


def test_every_letter_has_its_own_envelope_sender(
    session: Session, site: Site, templates: Templates, letter: int, now: datetime
) -> None:
    memory = MemoryTransport()

    delivery_run.deliver(
        session, site=site, templates=templates, caches=CACHES, transport=memory, clock=lambda: now
    )

    (message,) = memory.messages
    assert message.sender == links.bounce_address(site, letter)
    assert ADA not in message.sender


def test_without_an_inbound_domain_bounces_go_to_the_sender(site: Site) -> None:
    assert links.envelope_sender(replace(site, inbound_domain=""), 1) == site.sender_address


def state_of(session: Session, subscriber: Subscriber) -> SubscriberState:
    """Return the stored state."""
    session.refresh(subscriber)
    return SubscriberState(subscriber.state)


def test_a_bounce_is_counted_and_its_mail_deleted(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    outcome = receive(sample_mails.dsn(), to=links.bounce_address(site, letter))

    assert outcome == f"hard on delivery {letter}"
    assert failures(session) == [("hard", letter)]
    assert kept(session) == []


def test_five_days_of_bounces_suppress_the_address_but_keep_the_subscription(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber, now: datetime
) -> None:
    outcome = ""
    for day in range(5):
        number = enqueue.queue_letter(
            session, letter=plain_letter("settings", f"day {day}"), subscriber_id=ada.id, email=ADA,
            site=site, now=now,
        )  # fmt: skip
        assert number
        outcome = receive(
            sample_mails.dsn(), to=links.bounce_address(site, number), after=timedelta(days=day)
        )

    assert outcome.endswith("suppressed")
    assert suppressions.is_suppressed(session, site, ADA)
    assert state_of(session, ada) == SubscriberState.ACTIVE


def test_a_report_of_a_mail_server_in_html_alone_counts_by_its_status(
    session: Session, receive: Callable[..., str], site: Site, letter: int
) -> None:
    report = (
        b"From: postmaster@uni.example\r\nSubject: Undeliverable\r\nContent-Type: text/html\r\n\r\n<p>Your message to"
        b" <b>ada@uni.example</b> was not delivered.</p><p>Status code: 550 5.1.10</p>"
    )

    assert receive(report, to=links.bounce_address(site, letter)) == f"hard on delivery {letter}"
    assert receive(report, to=links.bounce_address(site, letter), sender=ADA).startswith("shunted")


def test_microsofts_complaints_count_with_and_without_a_part_for_the_letter(
    session: Session, receive: Callable[..., str], site: Site, letter: int
) -> None:
    quoted = f"X-HmXmrOriginalRecipient: {ADA}\r\nReturn-Path: {links.bounce_address(site, letter)}\r\n"
    inside = f'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n{quoted}\r\nx\r\n--b--\r\n'
    whole = f"From: staff@hotmail.example\r\n{quoted}Subject: papers\r\n\r\nx\r\n"

    for form in (inside, whole):
        outcome = receive(form.encode(), to="abuse@bounce.example.org", sender="staff@hotmail.example")
        assert outcome.startswith("complaint"), form


def test_a_bounce_caused_by_our_configuration_suppresses_nobody(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    report = sample_mails.dsn(status="5.7.26", diagnostic="550 5.7.26 unauthenticated mail")
    for day in range(10):
        receive(report, to=links.bounce_address(site, letter), after=timedelta(days=day))

    assert {kind for kind, _ in failures(session)} == {"policy"}
    assert not suppressions.is_suppressed(session, site, ADA)


def test_a_report_to_an_unsigned_address_is_not_counted(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    outcome = receive(sample_mails.dsn(), to=f"bounce+{letter}.{'0' * 20}@bounce.example.org")

    assert outcome.startswith("shunted")
    assert failures(session) == []


def test_a_report_to_another_address_counts_if_it_quotes_the_signed_one(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    quoted = f"Return-Path: <{links.bounce_address(site, letter)}>"

    assert (
        receive(sample_mails.dsn(quoted=quoted), to="postmaster@bounce.example.org")
        == f"hard on delivery {letter}"
    )


@pytest.mark.parametrize("quotes", ["the unsubscribe link", "the provider's Message-ID"])
def test_forged_bounces_that_quote_a_forwarded_digest_are_not_counted(
    quotes: str, session: Session, site: Site, ada: Subscriber, letter: int, receive: Callable[..., str]
) -> None:
    session.get_one(Delivery, letter).provider_id = "0102018f6a3b7c11-aa11bb22-000000"
    session.commit()
    quoted = {
        "the unsubscribe link": f"List-Unsubscribe: <{links.unsubscribe_url(site, ada.id, ada.link_version)}>",
        "the provider's Message-ID": "Message-ID: <0102018f6a3b7c11-aa11bb22-000000@eu-west-1.amazonses.com>",
    }[quotes]

    for day in range(9):
        outcome = receive(
            sample_mails.dsn(quoted=quoted), to="postmaster@bounce.example.org", after=timedelta(days=day)
        )
        assert outcome.startswith("shunted: the report is about a letter that we cannot identify")

    session.refresh(ada)
    assert (failures(session), ada.state) == ([], SubscriberState.ACTIVE)
    assert not suppressions.is_suppressed(session, site, ADA)


def test_a_report_repeated_for_days_is_stored_once_and_suppresses_nobody(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    for day in range(9):
        receive(sample_mails.dsn(), to=links.bounce_address(site, letter), after=timedelta(days=day))

    assert not suppressions.is_suppressed(session, site, ADA)
    assert len(failures(session)) == 1


def test_mail_that_an_earlier_version_kept_is_read_again(
    session: Session, site: Site, receive: Callable[..., str], now: datetime
) -> None:
    receive(sample_mails.A_LETTER, to="postmaster@bounce.example.org")
    stored_mail.read_again(session)
    assert [state for state, _ in kept(session)] == [MailState.SHUNTED]

    session.execute(update(InboundMail).values(kept_by="0.0.1", reason="not understood then"))
    stored_mail.read_again(session)
    assert [state for state, _ in kept(session)] == [MailState.NEW]

    classification.process_stored_mails(session, site=site, now=now)
    assert "not understood then" not in [reason for _, reason in kept(session)]


@pytest.mark.parametrize("name", ["abuse", "postmaster"])
def test_an_automatic_mail_to_postmaster_is_kept_for_a_person(
    session: Session, receive: Callable[..., str], name: str
) -> None:
    warning = sample_mails.wire("""
        From: Abuse desk <noreply@isp.example>
        Subject: Your host 192.0.2.7 is listed
        Auto-Submitted: auto-generated
        Precedence: bulk

        We have seen spam from it.
        """)

    receive(warning, to=f"{name}@bounce.example.org", sender="noreply@isp.example")

    assert kept(session) == [(MailState.SHUNTED, "an automatic message to postmaster or abuse")]


def test_an_out_of_office_reply_changes_nothing(
    session: Session, site: Site, receive: Callable[..., str], letter: int
) -> None:
    assert receive(sample_mails.ON_LEAVE, to=links.bounce_address(site, letter)) == "an automatic reply"
    assert (failures(session), kept(session)) == ([], [])


def test_a_bounce_of_an_erased_reader_is_accepted(
    session: Session, site: Site, receive: Callable[..., str], letter: int, now: datetime
) -> None:
    account.erase(session, site, ADA, now=now)
    session.commit()

    receive(sample_mails.dsn(), to=links.bounce_address(site, letter))

    assert (failures(session), kept(session)) == ([], [])


def test_an_erasure_also_deletes_stored_mail(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber, now: datetime
) -> None:
    receive(sample_mails.A_LETTER, to="digest@example.org", sender="Ada@Uni.example")

    account.erase(session, site, ADA, now=now)

    assert list(stored_mail.list_mails(session)) == []


def test_an_erasure_deletes_no_mail_of_a_longer_address(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber, now: datetime
) -> None:
    others = (
        "hada@uni.example",
        "a-ada@uni.example",
        "o'ada@uni.example",
        "ada@uni.example.org",
        "ada@uni.example2",
    )
    for other in others:
        receive(
            f"From: {other}\r\n\r\nI am {other}.\r\n".encode(), to="abuse@bounce.example.org", sender=other
        )
    for written in (
        "<ada@uni.example>",
        "mailto:ADA@uni.example",
        "'ada@uni.example'",
        "to ada@uni.example.",
    ):
        receive(f"From: eve@x.example\r\n\r\n{written}\r\n".encode(), to="abuse@bounce.example.org", sender="eve@x.example")  # fmt: skip

    account.erase(session, site, ADA, now=now)

    assert [row.sender for row in stored_mail.list_mails(session)] == list(others)


# ── complaints and unsubscribes ──────────────────────────────────────────────────────────────────────


def test_a_complaint_with_the_envelope_address_suppresses_without_a_letter(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber, letter: int
) -> None:
    outcome = receive(
        sample_mails.complaint(quoted=f"Return-Path: <{links.bounce_address(site, letter)}>"),
        to="abuse@bounce.example.org",
        sender="f@m.example",
    )

    assert outcome == f"complaint on delivery {letter}, suppressed"
    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED
    assert suppressions.is_suppressed(session, site, ADA)
    assert [row.letter for row in session.scalars(select(Delivery))] == ["settings"]  # no goodbye


@pytest.mark.parametrize("to", ["abuse", "postmaster"])
def test_a_forged_complaint_that_quotes_a_forwarded_digest_only_unsubscribes_and_can_be_undone(
    session: Session, site: Site, templates: Templates, receive: Callable[..., str], ada: Subscriber, to: str, now: datetime
) -> None:  # fmt: skip
    url = links.unsubscribe_url(site, ada.id, ada.link_version)
    report = sample_mails.complaint(quoted=f"List-Unsubscribe: <{url}>")

    for _ in range(3):
        receive(report, to=f"{to}@bounce.example.org", sender="forger@else.example")

    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED
    assert (failures(session), suppressions.is_suppressed(session, site, ADA)) == ([], False)
    memory = MemoryTransport()
    delivery_run.deliver(
        session, site=site, templates=templates, caches=CACHES, transport=memory, clock=lambda: now
    )
    (goodbye,) = memory.messages
    assert goodbye.recipient == ADA
    assert url.encode() in goodbye.content.replace(b"=\r\n", b"")
    assert unsubscribe_and_undo.undo(session, ada, now=now)
    assert state_of(session, ada) == SubscriberState.ACTIVE


def test_any_signed_value_of_a_quoted_digest_counts_as_one_complaint_about_it(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber, now: datetime
) -> None:
    """Mailbox providers remove the recipient and the envelope from what they report."""
    editions = ("daily-2026-11-19", "weekly-2026-W47")
    for edition in editions:
        session.add(
            Delivery(
                subscriber_id=ada.id, edition=edition, letter="digest", lane="bulk", email=ADA,
                dated_at=now, due_at=now, expires_at=now, settled_at=now, state="sent",
            )
        )  # fmt: skip
    session.flush()
    first, last = session.scalars(select(Delivery.id).order_by(Delivery.id))
    reader = ada.id, ada.link_version
    for quoted, about in {
        links.view_url(site, *reader, editions[0]): first,
        f"Reply-To: {signed_reply(site, *reader, editions[1])}": last,
        f"List-Unsubscribe: <{links.unsubscribe_url(site, *reader)}>": last,
        f"List-Unsubscribe: <mailto:{links.unsubscribe_address(site, *reader)}>": last,
        f"{links.save_url(site, *reader, 7)}\n        {links.view_url(site, *reader, editions[0])}": first,
    }.items():
        session.execute(delete(BounceRow))
        for _ in range(2):
            receive(
                sample_mails.complaint(quoted=quoted), to="abuse@bounce.example.org", sender="f@m.example"
            )
        assert failures(session) == [("complaint", about)], quoted
    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED
    assert not suppressions.is_suppressed(session, site, ADA)


def signed_reply(site: Site, subscriber_id: int, link_version: int, edition: str) -> str:
    """Return the reply address of a digest; only a site that receives mail at its own domain has some."""
    return links.reply_address(
        replace(site, inbound_domain="example.org"), subscriber_id, link_version, edition
    )


def test_a_complaint_about_another_senders_letter_is_kept_for_a_person(
    session: Session, receive: Callable[..., str], ada: Subscriber
) -> None:
    forged = "List-Unsubscribe: <https://digest.example.org/u/abcdef.1-0.AAAAAAAAAAAAAAAAAAAAAAAA>"

    assert receive(sample_mails.complaint(quoted=forged), to="abuse@bounce.example.org").startswith("shunted")
    assert state_of(session, ada) == SubscriberState.ACTIVE


def test_any_mail_to_an_unsubscribe_address_unsubscribes(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber
) -> None:
    address = links.unsubscribe_address(site, ada.id, ada.link_version)

    receive(sample_mails.wire("From: somebody@else.example\n\n"), to=address, sender="somebody@else.example")

    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED
    assert [row.letter for row in session.scalars(select(Delivery))] == ["goodbye"]


def test_an_automatic_unsubscribe_is_announced_and_a_bounce_unsubscribes_nobody(
    session: Session, site: Site, receive: Callable[..., str], ada: Subscriber
) -> None:
    address = links.unsubscribe_address(site, ada.id, ada.link_version)

    receive(sample_mails.dsn(), to=address, sender="")
    assert state_of(session, ada) == SubscriberState.ACTIVE

    receive(sample_mails.ON_LEAVE, to=address, sender="robot@else.example")
    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED
    assert [(row.letter, row.email) for row in session.scalars(select(Delivery))] == [("goodbye", ADA)]


# ── unclassified mail ──────────────────────────────────────────────────────────────────────


def test_an_unclassified_mail_is_kept_with_the_reason_and_can_be_retried(
    session: Session, site: Site, receive: Callable[..., str], now: datetime
) -> None:
    receive(sample_mails.A_LETTER, to="digest@example.org", sender=ADA)

    ((state, reason),) = kept(session)
    assert (state, bool(reason)) == (MailState.SHUNTED, True)
    (row,) = stored_mail.list_mails(session)
    assert row.content == sample_mails.A_LETTER
    assert classification.process_mail(session, site=site, number=row.id, now=now).startswith("shunted")


def test_a_mail_that_raises_an_exception_is_kept(
    session: Session, receive: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(message: Message) -> None:
        raise IndexError(message)

    monkeypatch.setattr(mail_text, "read_report", stumble)

    assert (
        receive(sample_mails.dsn(), to="postmaster@bounce.example.org")
        == "shunted: IndexError while processing it"
    )


def test_a_mail_that_cannot_be_stored_does_not_block_others(
    session: Session, site: Site, letter: int, now: datetime
) -> None:
    """PostgreSQL accepts no NUL, not even in a query."""
    notice = b'{"eventType": "Complaint", "complaint": {}, "mail": {"messageId": "a\\u0000b"}}'
    stored_mail.store_mail(
        session, sender="sns", recipients=["arn:aws:sns:eu-west-1:123456789012:t"], content=notice, now=now
    )
    bad = sample_mails.dsn(diagnostic="550 5.1.1 nobody\0 here")
    stored_mail.store_mail(
        session, sender="", recipients=[links.bounce_address(site, letter)], content=bad, now=now
    )

    assert classification.process_stored_mails(session, site=site, now=now) == 2
    assert [state for state, _ in kept(session)] == ["shunted"]
    assert failures(session) == [("hard", letter)]


def test_mail_left_by_a_crash_is_processed_later(
    session: Session, site: Site, letter: int, now: datetime
) -> None:
    stored_mail.store_mail(
        session,
        sender="",
        recipients=[links.bounce_address(site, letter)],
        content=sample_mails.dsn(),
        now=now,
    )
    assert kept(session) == [(MailState.NEW, "")]

    assert classification.process_stored_mails(session, site=site, now=now) == 1
    assert (failures(session), kept(session)) == ([("hard", letter)], [])
    assert classification.process_stored_mails(session, site=site, now=now) == 0


def test_stored_mails_are_loaded_one_at_a_time(session: Session, now: datetime) -> None:
    for _mail in range(20):
        stored_mail.store_mail(
            session, sender=ADA, recipients=["x@example.org"], content=b"x" * 1_000_000, now=now
        )
        session.expunge_all()

    tracemalloc.start()
    assert sum(len(row.content) for row in stored_mail.list_mails(session)) == 20_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 10_000_000


def test_unread_mail_is_deleted_after_90_days(
    session: Session, receive: Callable[..., str], now: datetime
) -> None:
    receive(sample_mails.A_LETTER, to="digest@example.org", sender=ADA)

    assert stored_mail.delete_old_mails(session, now=now + timedelta(days=89)) == 0
    assert stored_mail.delete_old_mails(session, now=now + timedelta(days=91)) == 1


# ── the inbound server ────────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class RunningServer:
    """A running inbound server."""

    site: Site
    engine: Engine
    smtp: int
    lmtp: Path

    def kept(self) -> list[InboundMail]:
        with db.read_session(self.engine) as session:
            return list(stored_mail.list_mails(session))

    def failures(self) -> list[tuple[str, int | None]]:
        with db.read_session(self.engine) as session:
            return failures(session)


@pytest.fixture
def running(engine: Engine, site: Site, now: datetime, tmp_path: Path) -> Iterator[RunningServer]:
    port, path = free_port(), tmp_path / "lmtp.sock"
    settings = load_settings(
        {
            "data_dir": tmp_path,
            "inbound": f"smtp://127.0.0.1:{port}, lmtp://{path}",
            "inbound_domain": "bounce.example.org",
        }
    )
    app_context = AppContext(settings=settings, engine=engine, site=site, clock=lambda: now)
    with opened(app_context):
        yield RunningServer(site=site, engine=engine, smtp=port, lmtp=path)


def accepts(url: str) -> bool:
    """Return whether a server listens at a port or a socket file."""
    parts = urlsplit(url)
    address, family = (
        ((parts.hostname, parts.port), socket.AF_INET) if parts.port else (parts.path, socket.AF_UNIX)
    )
    with suppress(OSError), socket.socket(family) as line:
        line.connect(address)
        return line.recv(3) == b"220"  # a connection that the server knows, and closes when it stops
    return False


@contextmanager
def opened(app_context: AppContext) -> Iterator[None]:
    """Run the server in its own thread."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        await server.serve_until(app_context, app_context.settings.inbound, stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    wait_until("the server", lambda: all(map(accepts, app_context.settings.inbound)))
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        with warnings.catch_warnings():  # a stopped process closes the connections that were just opened
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def test_a_report_is_received_over_smtp(running: RunningServer, letter: int) -> None:
    with smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client:
        client.sendmail("", [links.bounce_address(running.site, letter)], sample_mails.dsn())

    assert (running.failures(), running.kept()) == ([("hard", letter)], [])


def test_lmtp_replies_once_for_every_recipient(running: RunningServer, letter: int) -> None:
    with smtplib.LMTP(str(running.lmtp), timeout=HANG_SECONDS) as client:
        client.ehlo()
        client.mail("")
        codes = [
            client.rcpt(address)[0]
            for address in (links.bounce_address(running.site, letter), "postmaster@bounce.example.org")
        ]
        code, _ = client.data(sample_mails.dsn())
        second, _ = client.getreply()

    assert (codes, code, second) == ([250, 250], 250, 250)
    assert running.failures() == [("hard", letter)]
    assert [row.recipient for row in running.kept()] == ["postmaster@bounce.example.org"]


@pytest.mark.parametrize(
    "address",
    [
        "bounce+1.00000000000000000000@bounce.example.org",
        "anybody@bounce.example.org",
        "postmaster@else.example",
    ],
)
def test_a_foreign_address_is_refused_at_rcpt(running: RunningServer, address: str) -> None:
    with smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client:
        client.ehlo()
        client.mail("x@else.example")
        assert client.rcpt(address)[0] == 550


def test_a_report_with_overlong_lines_is_accepted(running: RunningServer, letter: int) -> None:
    report = sample_mails.dsn(diagnostic=f"550 5.1.1 nobody {'x' * 50_000}")

    with smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client:
        client.sendmail("", [links.bounce_address(running.site, letter)], report)

    assert (running.failures(), running.kept()) == ([("hard", letter)], [])


@pytest.mark.parametrize(
    "sender", [b"j\xfcrgen@else.example", b"nul\0@else.example", b"\xed\xa0\x80@else.example"]
)
def test_a_mail_is_kept_whatever_bytes_its_sender_has(
    running: RunningServer, letter: int, sender: bytes
) -> None:
    to = links.bounce_address(running.site, letter).encode()
    with (
        socket.create_connection(("127.0.0.1", running.smtp), timeout=HANG_SECONDS) as line,
        line.makefile("rb") as said,
    ):
        replies = [said.readline()]
        for command in (
            b"HELO x",
            b"MAIL FROM:<%b>" % sender,
            b"RCPT TO:<%b>" % to,
            b"DATA",
            sample_mails.dsn() + b"\r\n.",
        ):
            line.sendall(command + b"\r\n")
            replies.append(said.readline())

    assert replies[-1].startswith(b"250")
    assert (running.failures(), running.kept()) == ([("hard", letter)], [])


async def listened(app_context: AppContext, url: str) -> None:
    await server.start_listening(server.MailReceiver(app_context), url)


def test_an_unusable_listen_address_is_reported_and_no_file_is_replaced(
    running: RunningServer, tmp_path: Path
) -> None:
    plain = tmp_path / "notes"
    plain.write_text("mine")
    app_context = AppContext(
        settings=load_settings({"data_dir": tmp_path}), engine=running.engine, site=running.site
    )

    for url in (f"smtp://127.0.0.1:{running.smtp}", f"lmtp://{plain}", f"lmtp://{tmp_path}/no/where"):
        with pytest.raises(BadField, match=f"DIGEST_INBOUND: cannot listen at {url}: "):
            asyncio.run(listened(app_context, url))
    assert plain.read_text() == "mine"


def test_a_stale_unix_socket_is_replaced(running: RunningServer, tmp_path: Path) -> None:
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(left))
    app_context = AppContext(
        settings=load_settings({"data_dir": tmp_path}), engine=running.engine, site=running.site
    )

    async def open_and_close() -> None:
        (await server.start_listening(server.MailReceiver(app_context), f"lmtp://{left}")).close()

    asyncio.run(open_and_close())
    assert stat.S_IMODE(running.lmtp.stat().st_mode) == 0o666


def test_a_report_to_an_unsubscribe_address_unsubscribes_nobody(
    running: RunningServer, ada: Subscriber
) -> None:
    with smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client:
        client.sendmail(
            "", [links.unsubscribe_address(running.site, ada.id, ada.link_version)], sample_mails.A_LETTER
        )

    with db.read_session(running.engine) as session:
        assert session.get_one(Subscriber, ada.id).state == SubscriberState.ACTIVE


def test_a_mail_that_is_too_large_is_refused(running: RunningServer) -> None:
    with (
        smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client,
        pytest.raises(smtplib.SMTPException),
    ):
        client.sendmail("", ["postmaster@bounce.example.org"], b"x" * (server.MAX_BYTES + 1))
    assert running.kept() == []


def test_a_database_outage_gives_the_sender_a_temporary_error(
    running: RunningServer, letter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> list[int]:
        raise OSError("away")

    monkeypatch.setattr(stored_mail, "store_mail", away)
    with (
        smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client,
        pytest.raises(smtplib.SMTPDataError) as refused,
    ):
        client.sendmail("", [links.bounce_address(running.site, letter)], sample_mails.dsn())

    assert refused.value.smtp_code == 451


def test_the_inbound_server_writes_a_heartbeat(running: RunningServer) -> None:
    from digest.process import heartbeats

    def roles() -> set[str]:
        with db.read_session(running.engine) as session:
            return {process.role for process in heartbeats.list_processes(session)}

    wait_until("a sign of life", lambda: roles() == {"inbound"})


# ── storage limits ────────────────────────────────────────────────────────────────────────────────────────


def refused_by(
    running: RunningServer, recipient: str, *, sender: str, content: bytes = b"Subject: hello\r\n\r\nhello"
) -> int:
    """Send a mail and return the code it is refused with, or 250."""
    with smtplib.SMTP("127.0.0.1", running.smtp, timeout=HANG_SECONDS) as client:
        try:
            client.sendmail(sender, [recipient], content)
        except smtplib.SMTPRecipientsRefused as error:
            return next(iter(error.recipients.values()))[0]
        except smtplib.SMTPResponseException as error:
            return error.smtp_code
    return 250


def test_a_sender_over_their_storage_limit_is_deferred(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_mail, "SENDER_LIMIT", stored_mail.StorageUse(mails=3, size=10_000))
    to = "abuse@bounce.example.org"

    assert [refused_by(running, to, sender="Eve@else.example") for _ in range(4)] == [250, 250, 250, 452]
    assert refused_by(running, "postmaster@bounce.example.org", sender="eve@ELSE.example") == 452
    assert refused_by(running, to, sender="bob@else.example") == 250
    assert refused_by(running, to, sender="x@else.example", content=b"x" * 10_001) == 452
    assert len(running.kept()) == 4


def test_a_flood_to_abuse_is_deferred_and_refuses_no_report_and_no_unsubscribe(
    running: RunningServer, letter: int, ada: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_mail, "NETWORK_LIMIT", stored_mail.StorageUse(mails=5, size=10_000_000))
    codes = [
        refused_by(running, "postmaster@bounce.example.org", sender=f"{number}@else.example")
        for number in range(7)
    ]

    assert codes == [250] * 5 + [452] * 2
    for to, content in {
        links.bounce_address(running.site, letter): sample_mails.dsn(),
        links.unsubscribe_address(running.site, ada.id, ada.link_version): sample_mails.A_LETTER,
    }.items():
        assert refused_by(running, to, sender=ADA, content=content) == 250
    assert running.failures() == [("hard", letter)]
    with db.read_session(running.engine) as session:
        assert session.get_one(Subscriber, ada.id).state == SubscriberState.UNSUBSCRIBED


def test_lmtp_reports_a_full_inbox_for_every_recipient(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_mail, "NETWORK_LIMIT", stored_mail.StorageUse(mails=5, size=700))
    with smtplib.LMTP(str(running.lmtp), timeout=HANG_SECONDS) as client:
        client.ehlo()
        client.mail("x@else.example")
        for name in ("abuse", "postmaster"):
            assert client.rcpt(f"{name}@bounce.example.org")[0] == 250
        assert (client.data(b"x" * 800)[0], client.getreply()[0]) == (452, 452)
    assert running.kept() == []


def test_dots_long_lines_and_pipelined_commands_are_received_unchanged(running: RunningServer) -> None:
    content = b"Subject: dots\r\n\r\n..\r\n.x\r\n" + b"y" * 200_000 + b".\r\n\r\n.\r\nlast\r\n"
    stuffed = re.sub(rb"(?m)^\.", b"..", content)
    sent = [
        b"EHLO x\r\n",
        b"MAIL FROM:<x@else.example>\r\n",
        b"RCPT TO:<abuse@bounce.example.org>\r\n",
        b"DATA\r\n",
    ]
    with (
        socket.create_connection(("127.0.0.1", running.smtp), timeout=HANG_SECONDS) as line,
        line.makefile("rb") as said,
    ):
        line.sendall(b"".join([*sent, stuffed, b".\r\nQUIT\r\n"]))
        replies = said.read()

    assert replies.splitlines()[-2:] == [b"250 2.0.0 stored", b"221 Bye"]
    assert [row.content for row in running.kept()] == [content]
