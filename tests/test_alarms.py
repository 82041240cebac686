"""Whatever stops doing its work turns /readyz red, and a letter about it reaches the operator.

Real processes, really stopped; only the minutes they wait are seconds here.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller

from digest import db
from tests import servers
from tests.mailroom import Mailroom
from tests.processes import Installation, installation, wait_until
from tests.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

OPERATOR = "operator@example.org"


@dataclass(kw_only=True)
class House:
    """A house at work, and hands on what it stands on."""

    ours: Installation
    broker: servers.Server
    mail_port: int
    roles: dict[str, int] = field(default_factory=dict)
    mailroom: Mailroom = field(default_factory=Mailroom)
    post: Controller | None = None

    @property
    def database(self) -> Path:
        return self.ours.data_dir / "digest.sqlite3"

    def start(self, role: str) -> None:
        self.roles[role] = self.ours.start(role).pid

    def tell(self, role: str, how: signal.Signals) -> None:
        """Send a signal to a role and everything it has started."""
        os.killpg(self.roles[role], how)

    def wait_for_signs_of_life(self) -> None:
        """Wait for the first of each role: before that, /readyz takes the house for one run by cron."""
        roles = {"scheduler", "worker"}
        wait_until("a sign of life of each role", lambda: roles <= self.beating(), seconds=120)

    def beating(self) -> set[str]:
        return set(self.asked("SELECT role FROM heartbeat"))

    def asked(self, question: str) -> list[str]:
        with closing(sqlite3.connect(self.database)) as database:
            return [row[0] for row in database.execute(question)]

    def has_written(self, wrong: str) -> None:
        """Wait until a letter about it lies in the outbox."""
        alarms = "SELECT decision FROM delivery WHERE letter = 'alarm'"
        wait_until(
            f"an alarm: {wrong}", lambda: any(wrong in each for each in self.asked(alarms)), seconds=120
        )

    def freeze(self, role: str) -> None:
        """Stop a role where it does not write just now: with SQLite, one that does stops everybody."""
        while True:
            self.tell(role, signal.SIGSTOP)
            if self.can_be_written():
                return
            self.tell(role, signal.SIGCONT)
            time.sleep(0.1)

    def can_be_written(self) -> bool:
        with closing(sqlite3.connect(self.database, timeout=1, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            database.execute("ROLLBACK")
            return True

    def open_post(self) -> None:
        self.post = Controller(self.mailroom, hostname="127.0.0.1", port=self.mail_port)
        self.post.start()

    def close_post(self) -> None:
        if self.post:
            self.post.stop(no_assert=True)

    def ready(self) -> str:
        """What /readyz says: `ok`, or what is wrong."""
        url = f"{self.ours.settings['BASE_URL']}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=15) as answer:  # noqa: S310  (our own server)
                return str(answer.read().decode().strip())
        except urllib.error.HTTPError as error:
            return str(error.read().decode().strip())
        except OSError:
            return "nobody answers"

    def turns(self, *wrong: str) -> None:
        """Wait until /readyz says nothing but these."""
        wait_until(
            f"/readyz to say {wrong}", lambda: set(self.ready().splitlines()) == set(wrong), seconds=120
        )

    def shows(self, wrong: str) -> None:
        """Wait until /readyz says this, whatever else it says."""
        wait_until(f"/readyz to say {wrong}", lambda: wrong in self.ready().splitlines(), seconds=120)

    def has_told(self, wrong: str) -> None:
        """Wait until a letter about it has reached the operator."""
        letters = self.mailroom.to
        wait_until(
            f"a letter: {wrong}",
            lambda: any(wrong in str(mail.parsed()["subject"]) for mail in letters(OPERATOR)),
            seconds=120,
        )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("alarms")
    port, mail_port = free_port(), free_port()
    with ExitStack() as stack:
        broker = stack.enter_context(servers.mortal_broker(servers.valkey_program()))
        settings = {
            "BROKER_URL": broker.url, "MAIL_URL": f"smtp://127.0.0.1:{mail_port}", "OPERATOR_EMAIL": OPERATOR,
            "PORT": str(port), "BASE_URL": f"http://127.0.0.1:{port}",
        }  # fmt: skip
        command = (sys.executable, "-m", "tests.hurried")
        ours = stack.enter_context(installation(folder / "home", settings=settings, command=command))
        engine = db.connect(f"sqlite:///{ours.data_dir / 'digest.sqlite3'}")
        db.upgrade(engine)
        engine.dispose()
        made = House(ours=ours, broker=broker, mail_port=mail_port)
        made.open_post()
        stack.callback(made.close_post)
        for role in ("web", "worker", "scheduler"):
            made.start(role)
        made.wait_for_signs_of_life()
        made.turns("ok")
        yield made


def test_workers_that_hang_are_missed(house: House) -> None:
    house.freeze("worker")
    try:
        house.shows("The worker has stopped")
        house.has_told("The worker has stopped")
    finally:
        house.tell("worker", signal.SIGCONT)
    house.turns("ok")


def test_a_scheduler_that_died_is_missed(house: House) -> None:
    house.tell("scheduler", signal.SIGKILL)
    house.shows("The scheduler has stopped")
    house.has_told("The scheduler has stopped")

    house.start("scheduler")
    house.turns("ok")


def test_a_broker_that_accepts_and_says_nothing_is_missed(house: House) -> None:
    house.broker.tell(signal.SIGSTOP)
    try:
        house.shows("The broker does not answer")
        house.has_told("The broker does not answer")
    finally:
        house.broker.tell(signal.SIGCONT)
    house.turns("ok")


def test_a_mail_server_that_is_gone_is_missed_and_the_letter_comes_with_its_return(house: House) -> None:
    house.close_post()
    house.shows("The mail server does not answer")
    house.has_written("The mail server does not answer")

    house.open_post()
    house.turns("ok")
    house.has_told("The mail server does not answer")


def test_each_trouble_was_told_in_one_letter_and_no_log_names_who_got_it(house: House) -> None:
    wait_until(
        "the outbox to be empty", lambda: not house.asked("SELECT id FROM delivery WHERE settled_at IS NULL")
    )
    subjects = [str(mail.parsed()["subject"]) for mail in house.mailroom.to(OPERATOR)]
    assert sorted(subjects) == sorted(set(subjects))

    logs = {path.name: path.read_text() for path in house.ours.data_dir.parent.glob("*.log")}
    assert {"home-web.log", "home-worker.log", "home-scheduler.log"} <= logs.keys()
    assert [name for name, text in logs.items() if OPERATOR.partition("@")[0] + "@" in text] == []
