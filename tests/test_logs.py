"""Logs are lines: for people, or for machines."""

from __future__ import annotations

import json
import logging
import smtplib
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from digest import delivery, links, logs, outbox, subscriptions, watching
from digest.model import Subscriber, SubscriberState
from digest.transport import Outcome, Verdict
from digest.transport.memory import Memory
from tests import mails
from tests import test_inbox as inbox
from tests.servers import free_port
from tests.web import conftest as web
from tests.web.conftest import Clock, Door, settings_for

log = logging.getLogger("digest.delivery")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_for_people_a_line_says_when_where_and_what(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("text")

    log.info("delivered %s", 7)

    assert capfd.readouterr().err.endswith(" I digest.delivery: delivered 7\n")


def test_for_machines_every_line_is_an_object_even_with_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs.set_up("json")

    try:
        raise RuntimeError("broken\npipe")
    except RuntimeError:
        log.exception("delivery %s failed", 7)

    (line,) = capfd.readouterr().err.splitlines()
    told = json.loads(line)
    assert datetime.fromisoformat(told.pop("at")).tzinfo is not None
    assert "RuntimeError: broken" in told.pop("error")
    assert told == {"level": "error", "logger": "digest.delivery", "event": "delivery 7 failed"}


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_names_an_address(capfd: pytest.CaptureFixture[str], log_format: str) -> None:
    logs.set_up(log_format)

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
def test_no_part_of_an_address_is_left(email: str, line: str) -> None:
    assert "ada" not in logs.without_addresses(line.format(email))


def test_no_line_takes_long_to_look_through() -> None:
    line = "x" * 100_000 + " @ "
    began = time.process_time()

    assert logs.without_addresses(line) == line
    assert time.process_time() - began < 5  # it would be minutes, looked at from every letter to the end


# ── a day in the house ──────────────────────────────────────────────────────────────────────────

WHO = "zebedee.quux"  #: whom no other word resembles
READER = f"{WHO}@uni.example"


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING], ids=logging.getLevelName)
def test_a_day_in_which_all_goes_wrong_names_nobody(
    level: int,
    log_format: str,
    sqlite_url: str,
    tmp_path: Path,
    now: datetime,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A reader signs up, is refused, bounces, complains and writes to us; servers quote the address everywhere."""
    logs.set_up(log_format, level=level)
    port = free_port()
    settings = settings_for(
        sqlite_url, tmp_path, inbound=f"smtp://127.0.0.1:{port}", inbound_domain="back.example.org",
        operator_email=f"{WHO}@operator.example",
    )  # fmt: skip
    for door in web.opened(settings, Clock(now)):
        assert door.ask(READER).status_code < 400
        door.client.get(f"/?email={WHO}%40uni.example")
        door.client.get(f"/u/{READER}")
        with door.writing() as session:
            reader = subscriptions.add(
                session, f"{WHO}@mail.example", state=SubscriberState.ACTIVE, consent="a test", now=now
            )
            number = outbox.put_letter(
                session, letter="settings", subscriber_id=reader.id, email=reader.email, decision={}, dedupe_key="one",
                site=door.site, now=now,
            )  # fmt: skip
            session.commit()
            deliver(session, door, refusing=f"550 5.1.1 <{READER}>: no {READER} here, say {WHO}@mail.example")
        back = links.bounce_address(door.site, number or 0)
        with inbox.opened(door.house), smtplib.SMTP("127.0.0.1", port, timeout=5) as client:
            for content in (
                mails.dsn(recipient=READER, said=f"550 <{READER}> unknown", action=READER),
                mails.dsn(recipient=READER, said=f"550 <{READER}> unknown"),
                mails.complaint(quoted=f"To: {READER}"),
                mails.A_LETTER.replace(b"ada@uni.example", READER.encode()),
                f"From: {READER}\r\nContent-Type: multipart/report; boundary={READER}\r\n\r\n".encode(),
            ):
                client.sendmail(READER, [back, "postmaster@back.example.org"], content)
            with suppress(smtplib.SMTPException):
                client.sendmail(READER, [f"{WHO}@back.example.org"], b"Subject: nobody\r\n\r\n")
        with door.writing() as session:
            watching.write_to_operator(
                session,
                watching.troubles(session, now=now),
                site=door.site,
                operator=settings.operator_email,
                now=now,
            )
            logging.getLogger("digest").error(
                "as a last resort: %s", session.get(Subscriber, reader.id).email
            )

    told = capfd.readouterr().err
    assert "as a last resort: …@mail.example" in told
    assert WHO not in told.lower()
    assert "quux" not in told.lower()


def deliver(session: Session, door: Door, *, refusing: str) -> None:
    """Deliver what is due to a server that refuses all of it in these words."""
    answer = Outcome(delivery_id=0, verdict=Verdict.REFUSED, phase="rcpt", code=550, reply=refusing)
    transport = Memory({READER: answer, f"{WHO}@mail.example": answer})
    delivery.deliver(
        session, site=door.site, templates=door.house.templates, transport=transport, clock=door.clock
    )


def test_what_is_chatty_is_kept_down(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("text")

    logging.getLogger("kombu").info("connected")

    assert capfd.readouterr().err == ""
