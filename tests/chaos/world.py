"""Define the world of a chaos run: subscribers with digests, a failing mail server, workers and promises.

The promises are checked after each run.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, Shown
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import delivery_listing
from digest.delivery.transports.smtp import MailServer
from digest.dumps.intake import load_dump
from digest.letters.templates import Templates
from digest.process import heartbeats
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.settings import templates_dir
from digest.subscribers import subscriber_rows
from tests.chaos.worker import LEASE, SITE, Orders, work
from tests.conftest import ROOT
from tests.support import certificates
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.shared_caches import CACHES

#: How long after the commit of an opt-out a worker may still send a letter that it had already begun.
BEGUN = timedelta(seconds=4)

#: The promises that a broken design breaks.
LOST = "a letter is lost"
COPIED = "a second copy without a counted doubt"
CALLED_SENT = "marked as sent, but never accepted"

#: One process with everything imported forks all workers, so they start in milliseconds.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.chaos.worker", "tests.chaos.crash_points"])

GREETING_FAULTS = [fault for fault in Fault if fault.stage in {"BANNER", "HELLO", "TLS"}]
MAIL_FAULTS = [fault for fault in Fault if fault.stage == "MAIL"]
RCPT_FAULTS = [fault for fault in Fault if fault not in {*GREETING_FAULTS, *MAIL_FAULTS}]


class Plan(Protocol):
    """A plan for the failures of a mail server, which counts them."""

    is_calm: bool
    met: Counter[str]

    def fault(self, faults: list[Fault]) -> Fault | None:
        """Return the fault that happens now, if any."""
        ...


@dataclass
class Unruly:
    """A plan that fails at random, seeded, and never when it is calm."""

    chance: random.Random
    rate: float
    is_calm: bool = False
    met: Counter[str] = field(default_factory=Counter)

    def fault(self, faults: list[Fault]) -> Fault | None:
        rate = (
            self.rate if faults is RCPT_FAULTS else self.rate / 10
        )  # before RCPT a fault affects a whole window
        if self.is_calm or self.chance.random() >= rate:
            return None
        fault = self.chance.choice(faults)
        self.met[fault] += 1
        return fault


@dataclass
class SlowPlan(Unruly):
    """An unruly plan that takes a moment for each letter, so that a long run does not run out of work."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))
    rate: float = 0.1
    seconds: float = 0.02

    def fault(self, faults: list[Fault]) -> Fault | None:
        if faults is RCPT_FAULTS and not self.is_calm:
            time.sleep(self.seconds)
        return super().fault(faults)


@dataclass
class Exhaustive:
    """A plan that fails once in every way, and otherwise accepts every second letter."""

    left: set[Fault] = field(default_factory=lambda: set(Fault))
    is_calm: bool = False
    met: Counter[str] = field(default_factory=Counter)
    letters: int = 0

    def fault(self, faults: list[Fault]) -> Fault | None:
        self.letters += faults is RCPT_FAULTS
        fault = next((each for each in faults if each in self.left), None)
        if self.is_calm or fault is None or (faults is RCPT_FAULTS and self.letters % 2):
            return None
        self.left.discard(fault)
        self.met[fault] += 1
        return fault


@dataclass(kw_only=True)
class ChaosWorld:
    """The processes and data of a chaos run, and the faults that it has caused."""

    engine: Engine
    server: FaultyServer
    plan: Plan
    window: int
    mutant: str = ""
    cafile: str | None = None  #: if set, mail is sent inside TLS
    workers: list[ForkServerProcess] = field(default_factory=list)
    kills: int = 0
    freezes: int = 0
    outages: int = 0  #: number of outages of the database
    saved: Any = field(default_factory=lambda: FORKSERVER.Value("i"))  #: as in `count_saved`
    left: dict[str, datetime] = field(default_factory=dict)  #: {address that opted out: time of the commit}

    # ── workers ─────────────────────────────────────────────────────────────────────────────────

    def start(self, **details: Any) -> ForkServerProcess:
        """Start a worker."""
        server = MailServer(
            scheme="smtp", host="localhost", port=self.server.port,
            starttls=bool(self.cafile), cafile=self.cafile,
        )  # fmt: skip
        url = self.engine.url.render_as_string(hide_password=False)
        orders = Orders(database=url, server=server, window=self.window, mutant=self.mutant, **details)
        worker = FORKSERVER.Process(target=work, args=(orders, self.saved), daemon=True)
        worker.start()
        self.workers.append(worker)
        return worker

    def start_until(self, number: int, **details: Any) -> None:
        """Start workers until this many are running."""
        for worker in [each for each in self.workers if not each.is_alive()]:
            self.forget(worker)
        while len(self.workers) < number:
            self.start(**details)

    def ends(self, worker: ForkServerProcess, *, seconds: float = 60) -> int | None:
        """Wait for a worker to end and return its exit code."""
        worker.join(seconds)
        assert not worker.is_alive(), "a worker did not end"
        self.workers.remove(worker)
        return worker.exitcode

    def kill(self, worker: ForkServerProcess) -> None:
        """Kill a worker, as a power cut would."""
        self.kills += worker.is_alive()
        worker.kill()
        self.forget(worker)

    def forget(self, worker: ForkServerProcess) -> None:
        worker.join()
        self.workers.remove(worker)

    def freeze(self, worker: ForkServerProcess, seconds: float) -> None:
        """Freeze a worker for longer than its lease, then let it continue."""
        if not worker.is_alive() or worker.pid is None:
            return
        self.freezes += 1
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(worker.pid, signal.SIGCONT)

    def drain(self, *, seconds: float = 60, **details: Any) -> None:
        """Let a last worker finish without faults."""
        self.plan.is_calm = True
        for worker in list(self.workers):
            self.kill(worker)
        assert self.ends(self.start(drains=True, **details), seconds=seconds) == 0

    # ── the database ────────────────────────────────────────────────────────────────────────────

    def cut_off(self) -> None:
        """End every connection that a worker has to PostgreSQL."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        self.outages += 1

    def lock(self, seconds: float) -> None:
        """Hold SQLite's write lock, as a backup or a shell would."""
        other = sqlite3.connect(str(self.engine.url.database), isolation_level=None, timeout=30)
        with closing(other):
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.execute("ROLLBACK")
        self.outages += 1

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    def opt_out(self, email: str) -> None:
        """Unsubscribe somebody, and record when the opt-out was committed."""
        with db.write_session(self.engine) as session:
            subscriber_rows.get(session, email).state = SubscriberState.UNSUBSCRIBED
            session.commit()
        self.left[email] = datetime.now(UTC)

    # ── the invariants ──────────────────────────────────────────────────────────────────────────

    def broken(self) -> list[str]:
        """Return every broken promise, each as `promise: what happened`."""
        with db.read_session(self.engine) as session:
            deliveries = list(session.scalars(select(Delivery)))
            shown = set(session.scalars(select(Shown.delivery_id).distinct()))
            readers = set(session.scalars(select(Subscriber.email)))
        forgotten = [
            f"{LOST}: {email} has no digest at all" for email in readers - {row.email for row in deliveries}
        ]
        return forgotten + [fault for row in deliveries for fault in self.faults_of(row, row.id in shown)]

    def faults_of(self, row: Delivery, is_shown: bool) -> Iterator[str]:
        """Yield the broken promises about one delivery."""
        email = row.email or ""
        copies = self.server.copies(email)
        arrived = [taken.at for taken in self.server.taken if taken.recipient == email]
        is_sent = row.state == DeliveryState.SENT
        if not copies and not (row.state in TERMINAL and row.reason):
            yield f"{LOST}: {email} has no copy, and the delivery is {row.state}"
        if len(copies) > 1 + row.in_doubt:
            yield f"{COPIED}: {email} has {len(copies)} copies and {row.in_doubt} doubts"
        if len(set(copies)) > 1:
            yield f"the copies differ: {email} has {len(set(copies))} different mails"
        if is_sent and not copies:
            yield f"{CALLED_SENT}: {email}"
        if email in self.left and any(at > self.left[email] + BEGUN for at in arrived):
            yield f"mail after unsubscribing: {email}"
        if row.state not in TERMINAL or row.lease or row.settled_at is None:
            yield f"left open: {email} is still {row.state} after everything"
        if is_sent != is_shown and not row.in_doubt and row.state != DeliveryState.STUCK:
            yield f"wrong papers recorded: {email} is {row.state}, papers {'' if is_shown else 'not '}shown"


TERMINAL = {
    DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
}  # fmt: skip


@contextmanager
def world(
    database: str,
    *,
    seed: int,
    readers: int,
    window: int,
    rate: float = 0,
    plan: Plan | None = None,
    mutant: str = "",
    uses_tls: bool = False,
) -> Iterator[ChaosWorld]:
    """Yield a world in which everybody's digest is published and nothing is sent."""
    engine = db.make_engine(database)
    plan = plan or Unruly(random.Random(seed), rate)
    publish(engine, readers)
    server = FaultyServer(
        plan=lambda _recipient: plan.fault(RCPT_FAULTS),
        mail_plan=lambda: plan.fault(MAIL_FAULTS),
        greeting_plan=lambda: plan.fault(GREETING_FAULTS if uses_tls else IN_CLEAR),
        offers=("PIPELINING", "8BITMIME") if seed % 3 else ("8BITMIME",),
        hang_seconds=1,
    )
    with certified(server) if uses_tls else nullcontext() as cafile, faulty_server(server):
        made = ChaosWorld(
            engine=engine, server=server, plan=plan, window=window, mutant=mutant, cafile=cafile
        )
        try:
            yield made
        finally:
            for worker in list(made.workers):
                if worker.pid and worker.is_alive():
                    os.kill(worker.pid, signal.SIGCONT)
                made.kill(worker)
            engine.dispose()


IN_CLEAR = [fault for fault in GREETING_FAULTS if fault.stage != "TLS"]


@contextmanager
def certified(server: FaultyServer) -> Iterator[str]:
    """Give the server a certificate, and yield the path of its authority."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = certificates.make(Path(folder), "localhost")
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(certificate, key)
        server.offers = (*server.offers, "STARTTLS")
        yield str(certificate)


def publish(engine: Engine, readers: int) -> None:
    """Publish a digest of the sample for this many readers."""
    now = datetime.now(UTC)
    templates = Templates(templates_dir())
    with db.write_session(engine) as session:
        for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
            load_dump.load(session, path, now=now - timedelta(hours=1))
        for number in range(readers):
            subscribe(session, number, now)
        session.commit()
        published = publish_due.publish(
            Publication(session, site=SITE, templates=templates, caches=CACHES, now=now)
        )
        # This flushes the asynchronous commits to disk: if they were lost, nothing would publish again.
        heartbeats.record_heartbeat(session, "scheduler", now)
    assert published.queued == readers, published


def subscribe(session: Session, number: int, now: datetime) -> None:
    """Add one reader who is due."""
    subscriber_rows.add(
        session, f"reader{number}@example.org", texts=at_noon(now), state=SubscriberState.ACTIVE,
        consent="chaos", now=now,
    )  # fmt: skip


def at_noon(now: datetime) -> dict[str, str]:
    """Return the settings of a schedule whose day is half over, so that no test runs into the next edition."""
    ahead = 12 - now.hour
    return {"at": "00:00", "timezone": f"Etc/GMT{-ahead:+d}" if ahead else "UTC"}


def storm(made: ChaosWorld, *, seed: int, seconds: float, workers: int) -> None:
    """Kill, freeze and restart workers at random while people unsubscribe."""
    chance = random.Random(seed)
    with db.read_session(made.engine) as session:
        staying = list(session.scalars(select(Subscriber.email)))
    chance.shuffle(staying)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        made.start_until(workers)
        time.sleep(chance.uniform(0.05, 0.6))
        victim = chance.choice(made.workers)
        acts: list[Callable[[], None]] = [
            partial(made.kill, victim),
            partial(made.kill, victim),
            partial(made.freeze, victim, LEASE.total_seconds() + 0.5),
            lambda: made.opt_out(staying.pop()),
        ]
        chance.choice(acts)()


def attempts_of(engine: Engine) -> dict[str, int]:
    """Return how many deliveries are in each state."""
    with db.read_session(engine) as session:
        return {state: number for state, number in delivery_listing.count_by_state(session).items() if number}
