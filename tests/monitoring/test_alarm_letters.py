"""A process or server that stops turns /readyz red, and a letter about it reaches the operator.

The processes are real and really stop; only the waits are seconds instead of minutes.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller

from digest import db
from tests.support import real_servers
from tests.support.mail_sink import MailSink
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.short_waits import SILENCE
from tests.support.waiting import HANG_SECONDS, pause, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.whole, pytest.mark.promise]

OPERATOR = "operator@example.org"


@dataclass(kw_only=True)
class RunningService:
    """A running service, whose processes and servers a test can stop."""

    installation: Installation
    broker: real_servers.Server
    mail_port: int
    roles: dict[str, int] = field(default_factory=dict)
    mailbox: MailSink = field(default_factory=MailSink)
    mail_server: Controller | None = None

    @property
    def database(self) -> Path:
        return self.installation.data_dir / "digest.sqlite3"

    def start(self, role: str) -> None:
        self.roles[role] = self.installation.start(role).pid

    def send_signal(self, role: str, how: signal.Signals) -> None:
        """Send a signal to a role and everything it has started."""
        os.killpg(self.roles[role], how)

    def wait_for_heartbeats(self) -> None:
        """Wait for the first heartbeat of each role: before that, /readyz takes the service for one run by cron."""
        roles = {"scheduler", "worker"}
        wait_until("a heartbeat of each role", lambda: roles <= {*self.beating()})

    def beating(self) -> list[str]:
        """Return the role of every recorded process."""
        return self.query("SELECT role FROM heartbeat WHERE role <> 'queue'")

    def query(self, sql: str) -> list[str]:
        with closing(sqlite3.connect(self.database)) as database:
            return [row[0] for row in database.execute(sql)]

    def wait_for_queued_letter(self, message: str) -> None:
        """Wait until a letter about a problem is in the outbox."""
        alarms = "SELECT decision FROM delivery WHERE letter = 'alarm'"
        wait_until(f"an alarm: {message}", lambda: any(message in each for each in self.query(alarms)))

    def freeze(self, role: str) -> None:
        """Stop a role while it does not write: with SQLite, a stopped writer blocks all others."""

        def is_frozen() -> bool:
            self.send_signal(role, signal.SIGSTOP)
            if not self.is_writable():
                self.send_signal(role, signal.SIGCONT)
                return False
            return True

        wait_until(f"a moment in which the {role} does not write", is_frozen)

    def is_writable(self) -> bool:
        with closing(sqlite3.connect(self.database, timeout=1, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            database.execute("ROLLBACK")
            return True

    def start_mail_server(self) -> None:
        self.mail_server = Controller(self.mailbox, hostname="127.0.0.1", port=self.mail_port)
        self.mail_server.start()

    def stop_mail_server(self) -> None:
        if self.mail_server:
            self.mail_server.stop(no_assert=True)

    def ready(self) -> str:
        """Return the text of /readyz: `ok`, or the problems."""
        url = f"{self.installation.settings['BASE_URL']}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=HANG_SECONDS) as answer:  # noqa: S310  (our own server)
                return str(answer.read().decode().strip())
        except urllib.error.HTTPError as error:
            return str(error.read().decode().strip())
        except OSError:
            return "no answer"

    def wait_for_only(self, *lines: str) -> None:
        """Wait until /readyz returns exactly these lines."""
        wait_until(f"/readyz to say {lines}", lambda: set(self.ready().splitlines()) == set(lines))

    def wait_for_problem(self, message: str) -> None:
        """Wait until /readyz reports a problem, among others or not."""
        wait_until(f"/readyz to say {message}", lambda: message in self.ready())

    def wait_for_letter(self, message: str) -> None:
        """Wait until a letter about a problem has reached the operator."""
        letters = self.mailbox.to
        wait_until(
            f"a letter: {message}",
            lambda: any(message in str(mail.parsed()["subject"]) for mail in letters(OPERATOR)),
        )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("alarms")
    port, mail_port = free_port(), free_port()
    with ExitStack() as stack:
        broker = stack.enter_context(real_servers.restartable_broker(real_servers.valkey_program()))
        settings = {
            "BROKER_URL": broker.url, "MAIL_URL": f"smtp://127.0.0.1:{mail_port}", "OPERATOR_EMAIL": OPERATOR,
            "LISTEN": f"127.0.0.1:{port}", "BASE_URL": f"http://127.0.0.1:{port}",
        }  # fmt: skip
        command = (sys.executable, "-m", "tests.support.short_waits")
        installed = stack.enter_context(installation(folder / "home", settings=settings, command=command))
        engine = db.make_engine(f"sqlite:///{installed.data_dir / 'digest.sqlite3'}")
        db.upgrade(engine)
        engine.dispose()
        made = RunningService(installation=installed, broker=broker, mail_port=mail_port)
        made.start_mail_server()
        stack.callback(made.stop_mail_server)
        for role in ("web", "worker", "scheduler"):
            made.start(role)
        made.wait_for_heartbeats()
        made.wait_for_only("ok")
        yield made


def test_hanging_workers_are_reported(service: RunningService) -> None:
    service.freeze("worker")
    try:
        service.wait_for_problem("The worker does not respond (process ")
        service.wait_for_letter("The worker does not respond (process ")
    finally:
        service.send_signal("worker", signal.SIGCONT)
    service.wait_for_only("ok")


def test_dead_scheduler_is_reported(service: RunningService) -> None:
    service.send_signal("scheduler", signal.SIGKILL)
    service.wait_for_problem("The scheduler has stopped")
    service.wait_for_letter("The scheduler has stopped")

    service.start("scheduler")
    service.wait_for_only("ok")


def test_killed_worker_is_reported_until_another_replaces_it(service: RunningService) -> None:
    service.installation.start("worker")
    wait_until("a second worker", lambda: service.beating().count("worker") == 2)
    service.wait_for_only("ok")

    second = service.installation.started[-1]
    os.killpg(second.pid, signal.SIGKILL)
    second.wait()
    service.wait_for_problem("1 of 2 workers stopped unexpectedly")
    service.wait_for_letter("1 of 2 workers stopped unexpectedly")

    third = service.installation.start("worker")
    service.wait_for_only("ok")
    third.terminate()  # it had replaced the killed one, so its clean stop is nothing unexpected
    third.wait()
    wait_until("one worker", lambda: service.beating().count("worker") == 1)
    service.wait_for_only("ok")


def test_process_that_stops_cleanly_is_not_reported(service: RunningService) -> None:
    before = service.beating()
    more = [service.installation.start(role) for role in ("worker", "scheduler")]
    wait_until("both to be there", lambda: len(service.beating()) == len(before) + 2)
    for process in more:
        process.terminate()
    assert [process.wait(timeout=HANG_SECONDS) for process in more] == [0, 0]

    left = Counter(service.beating())
    assert left <= Counter(before)  # a new process also takes the place of one that died
    assert set(left) == set(before)
    pause(SILENCE.total_seconds() + 1, "a process that is silent for so long is reported")
    service.wait_for_only("ok")


def test_broker_that_accepts_connections_but_is_silent_is_reported(service: RunningService) -> None:
    service.broker.send_signal(signal.SIGSTOP)
    try:
        service.wait_for_problem("The broker does not respond")
        service.wait_for_letter("The broker does not respond")
    finally:
        service.broker.send_signal(signal.SIGCONT)
    service.wait_for_only("ok")


def test_missing_mail_server_is_reported_and_the_letter_arrives_once_it_is_back(
    service: RunningService,
) -> None:
    service.stop_mail_server()
    service.wait_for_problem("The mail server does not respond")
    service.wait_for_queued_letter("The mail server does not respond")

    service.start_mail_server()
    service.wait_for_only("ok")
    service.wait_for_letter("The mail server does not respond")


def test_each_problem_got_one_letter_and_no_log_names_its_recipient(service: RunningService) -> None:
    wait_until(
        "the outbox to be empty",
        lambda: not service.query("SELECT id FROM delivery WHERE settled_at IS NULL"),
    )
    subjects = [str(mail.parsed()["subject"]) for mail in service.mailbox.to(OPERATOR)]
    assert sorted(subjects) == sorted(set(subjects))

    logs = {path.name: path.read_text() for path in service.installation.data_dir.parent.glob("*.log")}
    assert {"home-web.log", "home-worker.log", "home-scheduler.log"} <= logs.keys()
    assert [name for name, text in logs.items() if OPERATOR.partition("@")[0] + "@" in text] == []
