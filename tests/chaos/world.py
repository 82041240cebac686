"""A world to break: subscribers with digests, a mail server that fails, workers to kill, and the invariants."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, select

from digest import db, intake, outbox, publishing, subscriptions
from digest.editions import Schedule
from digest.model import Delivery, DeliveryState, Shown, Subscriber, SubscriberState
from digest.rendering import Templates
from digest.settings import templates_dir
from tests.chaos.worker import LEASE, SITE
from tests.conftest import ROOT
from tests.faulty import Fault, FaultyServer, faulty_server

#: How a worker that knows nothing of an opt-out may still write: what it had begun when that was committed.
BEGUN = timedelta(seconds=4)

RCPT_FAULTS = [
    Fault.RCPT_421, Fault.RCPT_450, Fault.RCPT_550_BUT_354, Fault.DATA_451, Fault.MIDDLE_DROP, Fault.DOT_421,
    Fault.DOT_451, Fault.DOT_DROP, Fault.DOT_RESET, Fault.DOT_HANG, Fault.DOT_LOSE, Fault.NONSENSE, Fault.TRICKLE,
    Fault.QUIT_421, Fault.RCPT_550, Fault.DOT_552,
]  # fmt: skip
MAIL_FAULTS = [Fault.MAIL_421, Fault.MAIL_451, Fault.MAIL_530]


@dataclass
class Unruly:
    """A plan that fails at random, seeded, and never when it is calm."""

    chance: random.Random
    rate: float
    is_calm: bool = False
    met: Counter[str] = field(default_factory=Counter)

    def at_rcpt(self, _recipient: str) -> Fault | None:
        return self.fault(RCPT_FAULTS, self.rate)

    def at_mail(self) -> Fault | None:
        return self.fault(MAIL_FAULTS, self.rate / 10)

    def fault(self, faults: list[Fault], rate: float) -> Fault | None:
        if self.is_calm or self.chance.random() >= rate:
            return None
        fault = self.chance.choice(faults)
        self.met[fault] += 1
        return fault


@dataclass(kw_only=True)
class World:
    """What a chaos run acts on, and what it has done."""

    engine: Engine
    server: FaultyServer
    plan: Unruly
    window: int
    mutant: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0
    freezes: int = 0
    outages: int = 0  #: of the database
    left: dict[str, datetime] = field(default_factory=dict)  #: who opted out, and when that was committed

    # ── workers ─────────────────────────────────────────────────────────────────────────────────

    def start(self, **details: Any) -> subprocess.Popen[bytes]:
        """Start a worker."""
        told = {
            "database": self.engine.url.render_as_string(hide_password=False),
            "port": self.server.port,
            "window": self.window,
            "mutant": self.mutant,
            **details,
        }
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.worker", json.dumps(told)], cwd=ROOT, stdin=subprocess.PIPE
        )
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """End a worker as a power cut would."""
        self.kills += worker.poll() is None
        worker.kill()
        self.forget(worker)

    def forget(self, worker: subprocess.Popen[bytes]) -> None:
        worker.wait()
        if worker.stdin:
            with suppress(BrokenPipeError):
                worker.stdin.close()
        self.workers.remove(worker)

    def freeze(self, worker: subprocess.Popen[bytes], seconds: float) -> None:
        """Stop a worker for longer than its lease, then let it go on as if nothing had been."""
        self.freezes += 1
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(worker.pid, signal.SIGCONT)

    def drain(self, *, seconds: float = 90) -> None:
        """Let the workers that are left finish in peace."""
        self.plan.is_calm = True
        for worker in list(self.workers):
            self.kill(worker)
        last = self.start(drain=True)
        last.wait(timeout=seconds)
        self.forget(last)

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
        return [fault for row in deliveries for fault in self.faults_of(row, row.id in shown)]

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
        if row.state not in TERMINAL or row.lease:
            yield f"I6 {email}: still {row.state} after everything"
        if is_sent != is_shown and not row.in_doubt and row.state != DeliveryState.STUCK:
            yield f"I7 {email}: {row.state}, and its papers are {'' if is_shown else 'not '}called shown"


TERMINAL = {
    DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.SUPPRESSED, DeliveryState.STUCK,
}  # fmt: skip


@contextmanager
def world(
    database: str, *, seed: int, readers: int, window: int, rate: float, mutant: str = ""
) -> Iterator[World]:
    """Yield a world in which everybody's digest is published and nothing is sent."""
    engine = db.connect(database)
    plan = Unruly(random.Random(seed), rate)
    publish(engine, readers)
    offers = ("PIPELINING", "8BITMIME") if seed % 3 else ("8BITMIME",)
    server = FaultyServer(plan=plan.at_rcpt, mail_plan=plan.at_mail, offers=offers, hang_seconds=1)
    with faulty_server(server):
        made = World(engine=engine, server=server, plan=plan, window=window, mutant=mutant)
        try:
            yield made
        finally:
            for worker in list(made.workers):
                worker.send_signal(signal.SIGCONT)
                made.kill(worker)
            engine.dispose()


def publish(engine: Engine, readers: int) -> None:
    """Publish a digest of the sample for so many readers."""
    now = datetime.now(UTC)
    templates = Templates(templates_dir())
    with db.writing(engine) as session:
        for path in (ROOT / "digest" / "sample").glob("*.txt"):
            intake.load(session, path, now=now - timedelta(hours=1))
        for number in range(readers):
            subscriptions.add(
                session, f"reader{number}@example.org", schedule=Schedule(at=datetime.min.time()),
                state=SubscriberState.ACTIVE, consent="chaos", now=now,
            )  # fmt: skip
        session.commit()
        published = publishing.publish(session, site=SITE, templates=templates, now=now)
    assert published.queued == readers, published


def storm(made: World, *, seed: int, seconds: float, workers: int) -> None:
    """Kill, freeze and restart workers at random while people leave."""
    chance = random.Random(seed)
    with db.reading(made.engine) as session:
        staying = list(session.scalars(select(Subscriber.email)))
    chance.shuffle(staying)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        while len(made.workers) < workers:
            made.start()
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
