"""Judge how we classify bounces, with labelled bounces of thirty years and a real Postfix.

The labelled bounces are part of the source distribution of flufl.bounce, which is downloaded for the test and
then deleted. Each check must first detect a defect.
"""

from __future__ import annotations

import ast
import smtplib
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import Engine, select

from digest import db
from digest.app_context import AppContext
from digest.bounces import report_parser
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Failure, MailReport, NoActionNeeded
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import delivery_run
from digest.delivery.outbox import enqueue
from digest.delivery.transports.smtp import MailServer, SmtpTransport
from digest.letters.templates import Templates
from digest.mail.mail_parsing import parse_message
from digest.settings import load_settings
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.inbound.test_classification import opened
from tests.judge import postfix
from tests.judge.installed_programs import program
from tests.support.plain_letters import plain_letter
from tests.support.real_servers import free_port
from tests.support.shared_caches import CACHES
from tests.support.waiting import wait_until


def read_report(content: bytes) -> MailReport | None:
    return report_parser.read_report(parse_message(content))


# ── the labelled corpus ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class LabelledBounce:
    """A bounce with its label."""

    name: str
    content: bytes
    recipients: frozenset[str]
    is_passing: bool


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledBounce]:
    """The bounces that flufl.bounce is tested with."""
    folder = tmp_path_factory.mktemp("corpus")
    fetching = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    fetching += ["--no-binary", "flufl.bounce"]  # not :all:, which builds the build tools too, for minutes
    subprocess.run([*fetching, "flufl.bounce>=6", "--dest", str(folder)], check=False, capture_output=True)
    archive = next(folder.glob("*.tar.gz"), None)
    if archive is None:
        pytest.skip("needs the source distribution of flufl.bounce, which pip could not download")
    with tarfile.open(archive) as packed:
        safely: dict[str, Any] = (
            {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        )  # Debian's 3.11.2 has none
        packed.extractall(folder, **safely)  # noqa: S202  (from the index we install from)
    tests = next(folder.glob("*/tests"))
    return [
        LabelledBounce(
            name=name,
            content=(tests / "data" / name).read_bytes(),
            recipients=frozenset(address.decode().lower() for address in addresses),
            is_passing=is_passing,
        )
        for _, name, addresses, is_passing in labels(tests / "test_detectors.py")
        if addresses
    ]


def labels(path: Path) -> list[Any]:
    """Return the table of (detector, file, addresses, is temporary)."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DETECTORS":
            return list(ast.literal_eval(node.value))
    raise AssertionError("the table of labels is not where it was")


Read = Callable[[bytes], MailReport | None]


def wrongly_read(corpus: list[LabelledBounce], read: Read) -> list[str]:
    """Return the bounces that `read` does not classify as they are labelled."""
    return [one.name for one in corpus if not agrees(read(one.content), one)]


def agrees(told: MailReport | None, one: LabelledBounce) -> bool:
    """Return whether a report agrees with the label."""
    if one.is_passing:  # they go on trying: nothing is held against anybody
        return isinstance(told, NoActionNeeded)
    return isinstance(told, Failure) and {each.lower() for each in told.recipients} == one.recipients


def test_a_reader_of_standard_reports_only_is_caught(corpus: list[LabelledBounce]) -> None:
    def only_reports(content: bytes) -> MailReport | None:
        told = read_report(content)
        return told if not (isinstance(told, Failure) and told.reported_by == "words") else None

    assert len(wrongly_read(corpus, only_reports)) > 50


def test_a_reader_that_counts_warnings_as_failures_is_caught(corpus: list[LabelledBounce]) -> None:
    def alarmed(content: bytes) -> MailReport | None:
        told = read_report(content)
        return Failure(kind=FailureKind.SOFT) if isinstance(told, NoActionNeeded) else told

    assert len(wrongly_read(corpus, alarmed)) > 5


def test_bounce_corpora_are_read_as_labelled(corpus: list[LabelledBounce]) -> None:
    kinds = Counter(getattr(read_report(one.content), "kind", "nothing") for one in corpus)
    print(f"{len(corpus)} labelled bounces: {dict(kinds)}")

    assert len(corpus) >= 100
    assert wrongly_read(corpus, read_report) == []


def test_a_full_mailbox_never_counts_as_an_unknown_one(corpus: list[LabelledBounce]) -> None:
    told = {one.name: read_report(one.content) for one in corpus if b"quota" in one.content.lower()}

    assert len(told) >= 5
    hard = [
        name for name, each in told.items() if isinstance(each, Failure) and each.kind is FailureKind.HARD
    ]
    assert hard == []


# ── a real Postfix ──────────────────────────────────────────────────────────────────────────────

REFUSALS = {
    "nobody": "550 5.1.1 no such user",
    "full": "452 4.2.2 mailbox full",
    "policy": "550 5.7.26 this mail is unauthenticated",
    "plain": "550 sorry, no mailbox here by that name",
}


class Faraway:
    """A remote mail server that refuses some recipients."""

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        reply = REFUSALS.get(address.partition("@")[0])
        if reply is None:
            envelope.rcpt_tos.append(address)
        return reply or "250 yes"


@dataclass(kw_only=True)
class BouncePath:
    """A mail path from us through Postfix to a remote server, and back."""

    engine: Engine
    site: Site
    templates: Templates
    port: int
    log: Path

    def write(self, *names: str) -> None:
        """Send a letter to each of these remote recipients."""
        now = datetime.now(UTC)
        with db.write_session(self.engine) as session:
            for name in names:
                email = f"{name}@faraway.example"
                row = subscriber_rows.add(
                    session, email, state=SubscriberState.ACTIVE, consent="a test", now=now
                )
                enqueue.queue_letter(
                    session, letter=plain_letter("settings", name), subscriber_id=row.id, email=email,
                    site=self.site, now=now,
                )  # fmt: skip
            session.commit()
            transport = SmtpTransport(
                MailServer(scheme="smtp", host="127.0.0.1", port=self.port), helo="example.org"
            )
            report = delivery_run.deliver(
                session, site=self.site, templates=self.templates, caches=CACHES, transport=transport,
                clock=lambda: datetime.now(UTC),
            )  # fmt: skip
            transport.close()
        assert report.sent == len(names), self.log.read_text()

    def came_back(self, count: int) -> dict[int | None, BounceRow]:
        """Return the bounces by delivery, once this many have arrived."""
        wait_until(f"{count} bounces", lambda: len(self.bounces()) >= count)
        return self.bounces()

    def bounces(self) -> dict[int | None, BounceRow]:
        with db.read_session(self.engine) as session:
            return {row.delivery_id: row for row in session.scalars(select(BounceRow))}


@pytest.fixture
def mailway(sqlite_engine: Engine, site: Site, templates: Templates, tmp_path: Path) -> Iterator[BouncePath]:
    program("postfix", package="postfix")
    ours = replace(site, inbound_domain="bounce.example.org")
    inbound_port, port, far_port = free_port(), free_port(), free_port()
    settings = load_settings(
        {
            "data_dir": tmp_path,
            "inbound": f"lmtp://127.0.0.1:{inbound_port}",
            "inbound_domain": ours.inbound_domain,
        }
    )
    context = AppContext(settings=settings, engine=sqlite_engine, site=ours)
    faraway = Controller(Faraway(), hostname="127.0.0.1", port=far_port, ident="far away")
    faraway.start()
    try:
        with (
            opened(context),
            postfix.running(
                port=port, relay_port=far_port, inbound_domain=ours.inbound_domain, inbound_port=inbound_port
            ) as log,
        ):
            yield BouncePath(engine=sqlite_engine, site=ours, templates=templates, port=port, log=log)
    finally:
        faraway.stop()


def test_bounces_of_a_real_postfix_are_classified(mailway: BouncePath) -> None:
    mailway.write("nobody", "full", "policy", "plain", "somebody")

    found = mailway.came_back(4)
    assert [(found[number].kind, found[number].status) for number in (1, 2, 3, 4)] == [
        ("hard", "5.1.1"),
        ("soft", "4.2.2"),
        ("policy", "5.7.26"),
        ("hard", "5.0.0"),
    ]
    assert {row.reported_by for row in found.values()} == {"dsn"}
    assert "faraway.example" not in "".join(row.diagnostic for row in found.values())


def test_postfix_refuses_mail_to_addresses_that_we_did_not_sign(mailway: BouncePath) -> None:
    with smtplib.SMTP("127.0.0.1", mailway.port, timeout=10) as client:
        client.sendmail("", ["bounce+1.00000000000000000000@bounce.example.org"], b"Subject: forged\r\n\r\n")
    time.sleep(2)

    with db.read_session(mailway.engine) as session:
        assert session.scalars(select(BounceRow)).all() == []
    assert "550 5.1.1 no such address here" in mailway.log.read_text()
