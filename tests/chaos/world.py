"""A world to break: subscribers with digests, a mail server that fails, workers to kill, and the invariants."""

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
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db, intake, outbox, publishing, subscriptions, watching
from digest.editions import Schedule
from digest.model import Delivery, DeliveryState, Shown, Subscriber, SubscriberState
from digest.rendering import Templates
from digest.settings import templates_dir
from digest.transport.smtp import Server
from tests import certificates
from tests.chaos.worker import LEASE, SITE, Orders, work
from tests.conftest import ROOT
from tests.faulty import Fault, FaultyServer, faulty_server

#: How a worker that knows nothing of an opt-out may still write: what it had begun when that was committed.
BEGUN = timedelta(seconds=4)

#: One process that has everything loaded makes all workers: they start in milliseconds.
NURSERY = multiprocessing.get_context("forkserver")
NURSERY.set_forkserver_preload(["tests.chaos.worker", "tests.chaos.errands"])

GREETING_FAULTS = [fault for fault in Fault if fault.stage in {"BANNER", "HELLO", "TLS"}]
MAIL_FAULTS = [fault for fault in Fault if fault.stage == "MAIL"]
RCPT_FAULTS = [fault for fault in Fault if fault not in {*GREETING_FAULTS, *MAIL_FAULTS}]


class Plan(Protocol):
    """How a mail server fails, and how often it has."""

    is_calm: bool
    met: Counter[str]

    def fault(self, faults: list[Fault]) -> Fault | None:
        """Return what of these happens now."""
        ...


@dataclass
class Unruly:
    """A plan that fails at random, seeded, and never when it is calm."""

    chance: random.Random
    rate: float
    is_calm: bool = False
    met: Counter[str] = field(default_factory=Counter)

    def fault(self, faults: list[Fault]) -> Fault | None:
        rate = self.rate if faults is RCPT_FAULTS else self.rate / 10  # before RCPT it meets a whole window
        if self.is_calm or self.chance.random() >= rate:
            return None
        fault = self.chance.choice(faults)
        self.met[fault] += 1
        return fault


@dataclass
class Exhaustive:
    """A plan that fails in every way there is, once; in between it takes every second letter."""

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
class World:
    """What a chaos run acts on, and what it has done."""

    engine: Engine
    server: FaultyServer
    plan: Plan
    window: int
    mutant: str = ""
    cafile: str | None = None  #: mail travels inside TLS
    workers: list[ForkServerProcess] = field(default_factory=list)
    kills: int = 0
    freezes: int = 0
    outages: int = 0  #: of the database
    saved: Any = field(default_factory=lambda: NURSERY.Value("i"))  #: letters, from doubt
    left: dict[str, datetime] = field(default_factory=dict)  #: who opted out, and when that was committed

    # ── workers ─────────────────────────────────────────────────────────────────────────────────

    def start(self, **details: Any) -> ForkServerProcess:
        """Start a worker."""
        there = Server(
            scheme="smtp", host="localhost", port=self.server.port,
            starttls=bool(self.cafile), cafile=self.cafile,
        )  # fmt: skip
        url = self.engine.url.render_as_string(hide_password=False)
        told = Orders(database=url, server=there, window=self.window, mutant=self.mutant, **details)
        worker = NURSERY.Process(target=work, args=(told, self.saved), daemon=True)
        worker.start()
        self.workers.append(worker)
        return worker

    def staff(self, number: int, **details: Any) -> None:
        """See to it that so many workers are at work."""
        for worker in [each for each in self.workers if not each.is_alive()]:
            self.forget(worker)
        while len(self.workers) < number:
            self.start(**details)

    def ends(self, worker: ForkServerProcess, *, seconds: float = 60) -> int | None:
        """Wait for a worker's end and return its exit code."""
        worker.join(seconds)
        assert not worker.is_alive(), "a worker did not come to its end"
        self.workers.remove(worker)
        return worker.exitcode

    def kill(self, worker: ForkServerProcess) -> None:
        """End a worker as a power cut would."""
        self.kills += worker.is_alive()
        worker.kill()
        self.forget(worker)

    def forget(self, worker: ForkServerProcess) -> None:
        worker.join()
        self.workers.remove(worker)

    def freeze(self, worker: ForkServerProcess, seconds: float) -> None:
        """Stop a worker for longer than its lease, then let it go on as if nothing had been."""
        if not worker.is_alive() or worker.pid is None:
            return
        self.freezes += 1
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(worker.pid, signal.SIGCONT)

    def drain(self, *, seconds: float = 60, **details: Any) -> None:
        """Let a last worker finish in peace."""
        self.plan.is_calm = True
        for worker in list(self.workers):
            self.kill(worker)
        assert self.ends(self.start(drains=True, **details), seconds=seconds) == 0

    # ── the database ────────────────────────────────────────────────────────────────────────────

    def cut_off(self) -> None:
        """End every connection that a worker has to PostgreSQL, whatever it is doing."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        self.outages += 1

    def lock(self, seconds: float) -> None:
        """Hold SQLite's write lock, as a backup or somebody's shell would."""
        foreign = sqlite3.connect(str(self.engine.url.database), isolation_level=None, timeout=30)
        with closing(foreign):
            foreign.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            foreign.execute("ROLLBACK")
        self.outages += 1

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    def opt_out(self, email: str) -> None:
        """Let somebody leave, and remember when that was certain."""
        with db.writing(self.engine) as session:
            subscriptions.get(session, email).state = SubscriberState.UNSUBSCRIBED
            session.commit()
        self.left[email] = datetime.now(UTC)

    # ── the invariants ──────────────────────────────────────────────────────────────────────────

    def broken(self) -> list[str]:
        """Return every promise that was not kept; they are named I1 to I6."""
        with db.reading(self.engine) as session:
            deliveries = list(session.scalars(select(Delivery)))
            shown = set(session.scalars(select(Shown.delivery_id).distinct()))
            readers = set(session.scalars(select(Subscriber.email)))
        forgotten = [f"I1 {email}: no digest at all" for email in readers - {row.email for row in deliveries}]
        return forgotten + [fault for row in deliveries for fault in self.faults_of(row, row.id in shown)]

    def faults_of(self, row: Delivery, is_shown: bool) -> Iterator[str]:
        """Yield what is wrong with one delivery."""
        email = row.email or ""
        copies = self.server.copies(email)
        arrived = [taken.at for taken in self.server.taken if taken.recipient == email]
        is_sent = row.state == DeliveryState.SENT
        if not copies and not (row.state in TERMINAL and row.reason):
            yield f"I1 {email}: lost, {row.state}"
        if len(copies) > 1 + row.in_doubt:
            yield f"I2 {email}: {len(copies)} copies and {row.in_doubt} doubts"
        if len(set(copies)) > 1:
            yield f"I3 {email}: {len(set(copies))} different mails"
        if is_sent and not copies:
            yield f"I4 {email}: called sent, and never arrived"
        if email in self.left and any(at > self.left[email] + BEGUN for at in arrived):
            yield f"I5 {email}: written to after leaving"
        if row.state not in TERMINAL or row.lease or row.settled_at is None:
            yield f"I6 {email}: still {row.state} after everything"
        if is_sent != is_shown and not row.in_doubt and row.state != DeliveryState.STUCK:
            yield f"I7 {email}: {row.state}, and its papers are {'' if is_shown else 'not '}called shown"


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
    is_secret: bool = False,
) -> Iterator[World]:
    """Yield a world in which everybody's digest is published and nothing is sent."""
    engine = db.connect(database)
    plan = plan or Unruly(random.Random(seed), rate)
    publish(engine, readers)
    server = FaultyServer(
        plan=lambda _recipient: plan.fault(RCPT_FAULTS),
        mail_plan=lambda: plan.fault(MAIL_FAULTS),
        greeting_plan=lambda: plan.fault(GREETING_FAULTS if is_secret else IN_CLEAR),
        offers=("PIPELINING", "8BITMIME") if seed % 3 else ("8BITMIME",),
        hang_seconds=1,
    )
    with certified(server) if is_secret else nullcontext() as cafile, faulty_server(server):
        made = World(engine=engine, server=server, plan=plan, window=window, mutant=mutant, cafile=cafile)
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
    """Give the server a certificate, and yield the path of the authority behind it."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = certificates.make(Path(folder), "localhost")
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(certificate, key)
        server.offers = (*server.offers, "STARTTLS")
        yield str(certificate)


def publish(engine: Engine, readers: int) -> None:
    """Publish a digest of the sample for so many readers."""
    now = datetime.now(UTC)
    templates = Templates(templates_dir())
    with db.writing(engine) as session:
        for path in (ROOT / "digest" / "sample").glob("*.txt"):
            intake.load(session, path, now=now - timedelta(hours=1))
        for number in range(readers):
            subscribe(session, number, now)
        session.commit()
        published = publishing.publish(session, site=SITE, templates=templates, now=now)
        watching.beat(session, "scheduler", now)  # takes it to the disk: nobody publishes again if it is lost
    assert published.queued == readers, published


def subscribe(session: Session, number: int, now: datetime) -> None:
    """Let one more reader be due."""
    subscriptions.add(
        session, f"reader{number}@example.org", schedule=at_noon(now), state=SubscriberState.ACTIVE,
        consent="chaos", now=now,
    )  # fmt: skip


def at_noon(now: datetime) -> Schedule:
    """Return a schedule whose day is half over: no test runs into the next edition."""
    ahead = 12 - now.hour
    return Schedule(at=datetime.min.time(), timezone=f"Etc/GMT{-ahead:+d}" if ahead else "UTC")


def storm(made: World, *, seed: int, seconds: float, workers: int) -> None:
    """Kill, freeze and restart workers at random while people leave."""
    chance = random.Random(seed)
    with db.reading(made.engine) as session:
        staying = list(session.scalars(select(Subscriber.email)))
    chance.shuffle(staying)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        made.staff(workers)
        time.sleep(chance.uniform(0.05, 0.6))
        victim = chance.choice(made.workers)
        act: Callable[[], None] = chance.choice(
            [
                lambda victim=victim: made.kill(victim),
                lambda victim=victim: made.kill(victim),
                lambda victim=victim: made.freeze(victim, LEASE.total_seconds() + 0.5),
                lambda: made.opt_out(staying.pop()),
            ]
        )
        act()


def attempts_of(engine: Engine) -> dict[str, int]:
    """Return how many deliveries ended in each state."""
    with db.reading(engine) as session:
        return {state: number for state, number in outbox.counts(session).items() if number}
