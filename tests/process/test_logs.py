"""Logs have one line for each event, as text or as JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import smtplib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
import redis
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import enqueue
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Outcome, Verdict
from digest.errors import Unreachable
from digest.monitoring import operator_letters, problems
from digest.process import logs
from digest.site import links
from digest.subscribers import subscriber_rows
from tests.inbound import test_classification as inbox
from tests.support import sample_mails
from tests.support.clock import Clock
from tests.support.growth import assert_proportional
from tests.support.plain_letters import plain_letter
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, current_time
from tests.web import conftest as web
from tests.web.conftest import ServedSite, settings_for

log = logging.getLogger("digest.delivery.delivery_run")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restore the logging configuration afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_for_people_a_line_says_when_where_and_what(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("text")

    log.info("delivered %s", 7)

    assert capfd.readouterr().err.endswith(" I digest.delivery.delivery_run: delivered 7\n")


def test_for_machines_every_line_is_an_object_even_with_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs.set_up_logging("json")

    try:
        raise RuntimeError("broken\npipe")
    except RuntimeError:
        log.exception("delivery %s failed", 7)

    (line,) = capfd.readouterr().err.splitlines()
    told = json.loads(line)
    assert datetime.fromisoformat(told.pop("at")).tzinfo is not None
    assert "RuntimeError: broken" in told.pop("error")
    assert told == {"level": "error", "logger": "digest.delivery.delivery_run", "event": "delivery 7 failed"}


@pytest.mark.parametrize(
    ("log_format", "text"), [("text", r"W digest: a disk is full"), ("json", r"{.*full.*}")]
)
def test_the_journal_gets_the_level_of_every_line(
    capfd: pytest.CaptureFixture[str], log_format: str, text: str
) -> None:
    stderr = os.fstat(2)
    logs.set_up_logging(log_format, journal_stream=f"{stderr.st_dev}:{stderr.st_ino}")
    logging.getLogger("digest").warning("a disk is full")

    line = capfd.readouterr().err
    assert re.fullmatch(rf"<4>.*{text}\n", line), line

    logs.set_up_logging(log_format, journal_stream="1:2")
    logging.getLogger("digest").warning("a disk is full")
    assert not capfd.readouterr().err.startswith("<4>")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_of_the_log_contains_an_address(capfd: pytest.CaptureFixture[str], log_format: str) -> None:
    logs.set_up_logging(log_format)

    log.warning(
        "550 5.1.1 <ada.l+x@uni.example>: user unknown; rcpt=%s, smtp://me:secret@host", "Ada@uni.example"
    )
    try:
        raise ValueError("[parameters: ('ada@uni.example',)]")
    except ValueError:
        log.exception("delivery 7")

    told = capfd.readouterr().err
    assert "ada" not in told.lower()
    assert "me:secret" not in told
    assert "delivery 7" in told
    assert "<…@uni.example>" in told


@pytest.mark.parametrize(
    "email",
    [
        "ada@uni.example",
        "o'ada@uni.example",
        "ada/x=y@uni.example",
        "{ada}@uni.example",
        '"ada b"@uni.example',
        "ådä.ada@üni.example",
    ],
)
@pytest.mark.parametrize(
    "line", ["{}", "<{}>", "rcpt={}", "('{}', 7)", "[{}]", "mailto:{}", "{!r}", "user {}: no"]
)
def test_addresses_are_removed_completely(email: str, line: str) -> None:
    assert "ada" not in logs.without_addresses(line.format(email))


def test_removing_addresses_from_a_long_line_is_fast() -> None:
    line = "x" * 100_000 + " @ "

    assert logs.without_addresses(line) == line
    assert_proportional(lambda size: logs.without_addresses("x" * size + " @ "), 10_000)


# ── a day in the context ──────────────────────────────────────────────────────────────────────────

WHO = "zebedee.quux"  #: whom no other word resembles
READER = f"{WHO}@uni.example"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_day_full_of_failures_logs_no_address(
    log_format: str,
    sqlite_url: str,
    tmp_path: Path,
    now: datetime,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A reader signs up, is refused, bounces, complains and writes to us; servers quote the address everywhere."""
    logs.set_up_logging(log_format, level=logging.DEBUG)
    port = free_port()
    settings = settings_for(
        sqlite_url, tmp_path, inbound=f"smtp://127.0.0.1:{port}", inbound_domain="back.example.org",
        operator_email=f"{WHO}@operator.example",
    )  # fmt: skip
    for served in web.opened(settings, Clock(now)):
        assert served.sign_up(READER).status_code < 400
        served.client.get(f"/?email={WHO}%40uni.example")
        served.client.get(f"/u/{READER}")
        with served.writing() as session:
            reader = subscriber_rows.add(
                session, f"{WHO}@mail.example", state=SubscriberState.ACTIVE, consent="a test", now=now
            )
            number = enqueue.queue_letter(
                session, letter=plain_letter("settings", "one"), subscriber_id=reader.id, email=reader.email,
                site=served.site, now=now,
            )  # fmt: skip
            session.commit()
            deliver(
                session, served, refusing=f"550 5.1.1 <{READER}>: no {READER} here, say {WHO}@mail.example"
            )
        back = links.bounce_address(served.site, number or 0)
        with inbox.opened(served.context), smtplib.SMTP("127.0.0.1", port, timeout=HANG_SECONDS) as client:
            for content in (
                sample_mails.dsn(recipient=READER, diagnostic=f"550 <{READER}> unknown", action=READER),
                sample_mails.dsn(recipient=READER, diagnostic=f"550 <{READER}> unknown"),
                sample_mails.complaint(quoted=f"To: {READER}"),
                sample_mails.A_LETTER.replace(b"ada@uni.example", READER.encode()),
                f"From: {READER}\r\nContent-Type: multipart/report; boundary={READER}\r\n\r\n".encode(),
            ):
                client.sendmail(READER, [back, "postmaster@back.example.org"], content)
            with suppress(smtplib.SMTPException):
                client.sendmail(READER, [f"{WHO}@back.example.org"], b"Subject: nobody\r\n\r\n")
        with served.writing() as session:
            operator_letters.queue_alarm_letters(
                session,
                problems.find_problems(session, now=now),
                site=served.site,
                operator=settings.operator_email,
                now=now,
            )
            logging.getLogger("digest").error(
                "as a last resort: %s", session.get_one(Subscriber, reader.id).email
            )

    told = capfd.readouterr().err
    assert "as a last resort: …@mail.example" in told
    assert WHO not in told.lower()
    assert "quux" not in told.lower()


def deliver(session: Session, served: ServedSite, *, refusing: str) -> None:
    """Deliver what is due to a server that refuses all of it in these words."""
    answer = Outcome(delivery_id=0, verdict=Verdict.REFUSED, phase="rcpt", code=550, reply=refusing)
    served.deliver(session, MemoryTransport({READER: answer, f"{WHO}@mail.example": answer}))


def test_info_messages_of_libraries_are_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("text")

    logging.getLogger("kombu").info("connected")

    assert capfd.readouterr().err == ""


def test_a_limited_logger_says_the_same_thing_once_a_minute_and_how_often_it_did_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs.set_up_logging("text")
    logs.limit_warnings("flooded")
    flooded, other = logging.getLogger("flooded.deeper"), logging.getLogger("floodedtoo")
    at = current_time().timestamp()

    for second in (*[0] * 1000, 59, 61, 62):
        record = flooded.makeRecord(flooded.name, logging.WARNING, "", 0, "Bad request %d.", (second,), None)
        record.created = at + second
        flooded.handle(record)
    for _ in range(3):
        other.warning("once more")
        flooded.info("not a warning")

    lines = [line.partition(": ")[2] for line in capfd.readouterr().err.splitlines()]
    assert lines == [
        "Bad request 0.",
        "Bad request 61. (1,000 more like it were left out)",
        *["once more", "not a warning"] * 3,
    ]


def test_an_outage_is_one_line_and_a_bug_keeps_its_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("text")
    logs.limit_warnings("celery", "kombu")
    outages = [
        redis.exceptions.OutOfMemoryError("command not allowed"),
        redis.exceptions.ConnectionError("Connection refused"),
        OperationalError("select 1", {}, Exception("server closed the connection\nmore")),
        ConnectionResetError("reset"),
        Unreachable("The database does not respond."),
    ]
    for place, error in enumerate([*outages, KeyError("a bug")]):
        for _ in range(3):
            try:
                raise error
            except Exception:
                logging.getLogger(f"kombu.{place}").exception("Error in timer")

    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(" E ")[2] for line in lines[:5]] == [
        "kombu.0: Error in timer: command not allowed",
        "kombu.1: Error in timer: Connection refused",
        "kombu.2: Error in timer: (builtins.Exception) server closed the connection",
        "kombu.3: Error in timer: reset",
        "kombu.4: Error in timer: The database does not respond.",
    ]
    assert [line for line in lines if line.startswith(("  Traceback", "  KeyError"))] == [
        "  Traceback (most recent call last):",
        "  KeyError: 'a bug'",
    ]


FORGED = "a.txt\n2026-11-20 08:00:00,000 I digest: all is well\r\x1b[2J\x85\u2028\u202e\ud800"


def test_no_text_forges_a_line_of_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """A stranger may choose the name of a file, the subject of a mail and the text of an error."""
    for log_format, journal in (("text", ""), ("json", ""), ("text", "journal")):
        stderr = os.fstat(2)
        logs.set_up_logging(log_format, journal_stream=f"{stderr.st_dev}:{stderr.st_ino}" if journal else "")
        log.warning("cannot read %s", FORGED)
        try:
            raise ValueError(FORGED)
        except ValueError:
            log.exception("cannot read %s", FORGED)

        written = capfd.readouterr().err
        lines = written.split("\n")[:-1]
        assert sum("cannot read" in line for line in lines) == 2
        assert not any(re.match(r"(<\d>)?2026-11-20 08:00:00,000 I", line) for line in lines), log_format
        assert all(line.isprintable() for line in lines), log_format
