"""Measure at the mail server how much of a configured rate is used and whether any minute exceeds it.

Real workers and a real scheduler on PostgreSQL and Redis send letters for two minutes to a server that
records when it accepted each. At least 95% of the rate must be used. No period of 60 seconds may exceed the
rate by more than three seconds' worth of letters, or one second's with profile=ses.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from digest import db
from digest.db.tables.deliveries import Lane
from digest.delivery.limits import limit_rules
from digest.delivery.outbox import enqueue
from digest.site.site_profile import Site
from tests.bench.sink import Sink
from tests.bench.world import SITE
from tests.conftest import connected, fresh_database
from tests.support import real_servers
from tests.support.plain_letters import plain_letter
from tests.support.product_processes import installation

SECONDS, SPAN = 120.0, 60.0
MIN_USED = 0.95
MIGRATING = threading.Lock()  #: Alembic keeps its state in globals
AT_ONCE = 3  #: number of cases that are measured at the same time
FACTS = {"commands": [], "manage_url": "", "message": "It", "fix": "Fix it.", "since": "", "facts": []}


@dataclass(frozen=True, kw_only=True)
class RateCase:
    """A rate, the setting that limits it, and how many workers share it."""

    rate: str
    workers: int = 1
    profile: str = ""  #: the profile in the mail URL; if set, the rate is in the URL, too

    @property
    def per_second(self) -> float:
        """Return the number of letters per second."""
        return limit_rules.parse_rates(self.rate)[0].per_second

    @property
    def most(self) -> float:
        """Return the maximum number of letters in 60 seconds."""
        return self.per_second * (SPAN + (1 if self.profile == "ses" else 3))

    def settings(self, port: int) -> dict[str, str]:
        """Return the settings for this rate."""
        url = f"smtp://127.0.0.1:{port}"
        if self.profile:
            return {"MAIL_URL": f"{url}?profile={self.profile}&rate={self.rate}"}
        return {"MAIL_URL": url, "RATES": self.rate}


CASES = (
    RateCase(rate="15/s"),
    RateCase(rate="50/s"),
    RateCase(rate="3000/min"),
    RateCase(rate="15/s", workers=2),
    RateCase(rate="50/s", workers=2),
    RateCase(rate="14/s", profile="ses"),
    RateCase(rate="14/s", profile="ses", workers=2),
)


@dataclass(kw_only=True)
class TimedSink:
    """A mail server that records when it accepted each letter."""

    port: int = 0
    moments: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[TimedSink]:
        """Serve in a thread of its own."""
        moments, loop = self.moments, asyncio.new_event_loop()

        class Timed(Sink):
            def body(self) -> bytes | None:
                answer = super().body()
                if answer:
                    moments.append(time.monotonic())
                return answer

        server = loop.run_until_complete(loop.create_server(Timed, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(asyncio.sleep(0.1))  # forgets clients that have disconnected
            loop.close()


def used(moments: Sequence[float], per_second: float, seconds: float) -> float:
    """Return the share of a rate that was used from the first letter on."""
    taken = sum(moment < moments[0] + seconds for moment in moments)
    return taken / (per_second * seconds)


def worst(moments: Sequence[float], span: float) -> int:
    """Return the maximum number of letters in any period of this many seconds."""
    most = begin = 0
    for end, moment in enumerate(moments):
        while moments[begin] <= moment - span:
            begin += 1
        most = max(most, end - begin + 1)
    return most


def put_letters(url: str, count: int, site: Site) -> None:
    """Write letters that are due."""
    with connected(url) as engine:
        with MIGRATING:
            db.upgrade(engine)
        with db.write_session(engine) as session:
            now = datetime.now(UTC)
            for number in range(count):
                enqueue.queue_letter(
                    session, letter=plain_letter("help", f"letter-{number}", FACTS), subscriber_id=None, email=f"r{number}@d{number % 40}.example",
                    site=site, now=now, lane=Lane.BULK,
                )  # fmt: skip
            session.commit()


def measure(case: RateCase, database: str, broker: str, folder: Path, *, seconds: float) -> list[float]:
    """Let workers send at a rate for this long, and return when each letter was accepted."""
    put_letters(database, int(case.per_second * (seconds + 15)), SITE)
    with TimedSink().running() as sink:
        settings = {
            "DATABASE_URL": database, "BROKER_URL": broker, "BASE_URL": SITE.url, "SENDER": SITE.sender_address,
            "POSTAL_ADDRESS": SITE.postal_address, "SECRET_KEY": SITE.keys[0].decode(),
            "PEPPER": SITE.pepper.decode(), **case.settings(sink.port),
        }  # fmt: skip
        command = (sys.executable, "-m", "workers")
        with installation(folder, settings=settings, command=command) as running:
            for _worker in range(case.workers):
                running.start("worker")
            running.start("scheduler")
            running.wait_until("a letter", lambda: sink.moments)
            time.sleep(seconds + 1)
            return sorted(sink.moments)


def play(number: int, case: RateCase, server: str, folder: Path) -> bool:
    """Measure one case, print a line, and return whether it holds."""
    with fresh_database(server, template="template0") as url, real_servers.redis() as broker:
        moments = measure(case, url, broker, folder / f"case-{number}", seconds=SECONDS)
    share, most = used(moments, case.per_second, SECONDS), worst(moments, SPAN)
    print(
        f"   {case.rate:>8} {f'profile={case.profile}' if case.profile else '':11} {case.workers} worker(s):"
        f" {share:6.1%} used (at least {MIN_USED:.0%}), at most {most:,} in 60 s (may be {case.most:,.0f})",
        flush=True,
    )
    return share >= MIN_USED and most <= case.most


def main(full: bool) -> int:
    """Measure every case, several at the same time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        real_servers.postgres() as server,
        ThreadPoolExecutor(1 if full else AT_ONCE) as pool,
    ):
        holds = [pool.submit(play, number, case, server, Path(folder)) for number, case in enumerate(CASES)]
        results = [held.result() for held in holds]
    return 0 if all(results) else 1
