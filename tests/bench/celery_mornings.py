"""Time a morning of mail with real Celery workers of the product or of a rival implementation.

All implementations use a fresh copy of the same PostgreSQL database with every commit on disk, the same
broker, the same number of worker processes and the same kind of sink. The measured time is from the first
task to the last settled delivery. For the product it includes making the press; rivals get everything that is
made once a day. Starting a worker is not included for any implementation.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from sqlalchemy import Engine, exists, func, make_url, select, text

from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Subscriber
from digest.delivery.outbox.open_deliveries import IS_OPEN
from digest.publishing.due_readers import is_due
from tests.bench import competent_rival, process_usage, sink
from tests.bench.world import SITE, World
from tests.conftest import connected, fresh_database
from tests.support import real_servers
from tests.support.product_processes import Installation, installation

PROCESSES = max(2, os.cpu_count() or 2)  #: worker processes: one per core, as in `digest worker`
PATIENCE = 3_600  #: maximum number of seconds for a morning
GLANCE = 0.5  #: seconds between two measurements of memory
WAYS = ("ours", "middle", "naive")
ROUNDS = 3  #: number of runs of each implementation, of which the best counts
OURS = (sys.executable, "-m", "workers")
DATABASE_SIZE = text("SELECT pg_database_size(current_database())")


@dataclass(frozen=True, kw_only=True)
class SharedServers:
    """The servers that all implementations share, and their processes by name."""

    database: str
    broker: str
    pids: Mapping[str, int]


@dataclass(kw_only=True)
class MorningCost:
    """The cost of one morning."""

    way: str
    readers: int
    mails: int = 0
    sent_bytes: int = 0  #: number of bytes of all letters
    stored_bytes: int = 0  #: number of bytes by which the database has grown
    seconds: float = 0.0
    published: float = 0.0  #: seconds until all digests were in the outbox; rivals have no outbox
    memory: float = 0.0  #: MB of the largest process of a worker, at its peak
    halfway: float = 0.0  #: the same when half of the digests had been delivered
    cpu: dict[str, float] = field(default_factory=dict)  #: processor seconds, keyed by process
    sink: str = ""  #: the language that the sink is written in

    @property
    def rate(self) -> float:
        """Return the number of digests per second."""
        return self.mails / self.seconds

    @property
    def cost(self) -> float:
        """Return the processor seconds for one digest, in workers, database and broker, without the sink."""
        return sum(used for name, used in self.cpu.items() if name != "sink") / self.mails

    def print_figures(self) -> None:
        """Print the figures."""
        spent = ", ".join(f"{name} {used / self.mails * 1e6:,.0f}" for name, used in self.cpu.items())
        print(
            f"   {self.way:6} {self.readers:>9,} readers {self.mails:>9,} digests in {self.seconds:7.2f} s"
            f" {self.rate:>9,.1f}/s, {self.sent_bytes / self.mails / 1000:.1f} KB each,"
            f" {self.memory:4.0f} MB the largest worker"
        )
        print(f"          µs of processor time a digest: {spent} (in {self.sink})", flush=True)


# ── the place ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def servers() -> Iterator[SharedServers]:
    """Run PostgreSQL and Redis."""
    settings = ("synchronous_commit=on", "max_wal_size=8GB", "shared_buffers=256MB")
    with real_servers.postgres(*settings) as database, real_servers.redis() as broker:
        with connected(database) as engine, engine.connect() as connection:
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            postmaster = process_usage.parent(backend)
        with redis.Redis.from_url(broker) as client:
            broker_pid = int(client.info("server")["process_id"])
        pids = {"PostgreSQL": postmaster, "Redis": broker_pid}
        yield SharedServers(database=database, broker=broker, pids=pids)


@contextmanager
def built_world(servers: SharedServers, world: World) -> Iterator[str]:
    """Build a world, and yield the name of its database, which is then copied."""
    with fresh_database(servers.database, template="template0") as url:
        began = time.perf_counter()
        with connected(url) as engine:
            world.build(engine)
            with engine.begin() as connection:
                connection.exec_driver_sql("ANALYZE")  # as autovacuum does in a running service
        print(
            f"   a world of {world.readers:,} readers, {world.filters:,} filters, {world.papers} papers in"
            f" {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        yield str(make_url(url).database)


@contextmanager
def running_workers(
    way: str,
    servers: SharedServers,
    url: str,
    port: int,
    folder: Path,
    *,
    command: tuple[str, ...] = OURS,
) -> Iterator[Installation]:
    """Run the workers of an implementation as an operator does, and wait until they are ready."""
    settings = service_settings(url, servers.broker, port)
    theirs = ("env", f"RIVAL={way}", sys.executable, "-m", "celery", "-A", "tests.bench.rival_tasks")
    chosen = command if way == "ours" else (*theirs, "-b", servers.broker)
    with installation(folder, settings=settings, command=chosen) as service:
        if way == "ours":
            service.start("worker")
        else:
            service.start(
                "worker", "-c", str(PROCESSES), "-P", "prefork", "--without-gossip", "--without-mingle"
            )
            service.wait_until("workers that are ready", lambda: is_ready(folder))
        yield service


def service_settings(url: str, broker: str, port: int) -> dict[str, str]:
    """Return the settings of a service with this database, whose mail server has this port."""
    return {
        "DATABASE_URL": url,
        "BROKER_URL": broker,
        "MAIL_URL": f"smtp://127.0.0.1:{port}",
        "BASE_URL": SITE.url,
        "SENDER": SITE.sender_address,
        "SITE_NAME": SITE.name,
        "POSTAL_ADDRESS": SITE.postal_address,
        "SECRET_KEY": SITE.keys[0].decode(),
        "PEPPER": SITE.pepper.decode(),
    }


def is_ready(folder: Path) -> bool:
    return len(list(folder.glob("ready-*"))) == PROCESSES


# ── a morning ───────────────────────────────────────────────────────────────────────────────────


def best(
    servers: SharedServers,
    template: str,
    folder: Path,
    ways: Sequence[str],
    samples: Mapping[str, int],
) -> dict[str, MorningCost]:
    """Run some mornings of each implementation in turn, print them, and return the best, which other load slowed least."""
    every = defaultdict[str, list[MorningCost]](list)
    for turn in range(ROUNDS):
        for way in reversed(ways):
            morning = run_morning(way, servers, template, folder / f"{way}-{turn}", sample=samples.get(way))
            morning.print_figures()
            every[way].append(morning)
    return {way: max(those, key=attrgetter("rate")) for way, those in every.items()}


def run_morning(
    way: str,
    servers: SharedServers,
    template: str,
    folder: Path,
    *,
    sample: int | None = None,
    kept: Path | None = None,
    command: tuple[str, ...] = OURS,
) -> MorningCost:
    """Run the morning on a copy of the world, and return its cost.

    A rival may write to a `sample` of the readers; ours writes to all. With a folder for letters that are
    `kept`, the sink is the one that keeps them.
    """
    folder.mkdir()
    taker = sink.keeping_sink(kept) if kept else sink.fastest(folder)
    with (
        taker as opened,
        fresh_database(servers.database, template=template) as url,
        connected(url) as engine,
        running_workers(way, servers, url, opened.port, folder / "data", command=command) as service,
    ):
        pids = {"workers": service.started[0].pid, **servers.pids, "sink": opened.pid}
        readers = all_reader_ids(engine)[-(sample or 0) :]
        figures = MorningCost(way=way, readers=len(readers), sink=opened.language)
        start, is_over = (ours if way == "ours" else rival_functions)(
            servers, engine, service, figures, readers
        )
        before = {name: process_usage.seconds(pid) for name, pid in pids.items()}
        stored = count(engine, DATABASE_SIZE)
        began = time.perf_counter()
        start()
        wait_for_end(is_over, began, service, opened, figures)
        figures.seconds = time.perf_counter() - began
        figures.cpu = {name: process_usage.seconds(pid) - before[name] for name, pid in pids.items()}
        figures.stored_bytes = count(engine, DATABASE_SIZE) - stored
        figures.mails, figures.sent_bytes = opened.accepted_count(), opened.accepted_bytes()
        figures.memory = max(figures.memory, process_usage.peak(pids["workers"]))
        sent = count(engine, select(func.count()).where(Delivery.state == DeliveryState.SENT))
        assert figures.mails == sent, f"{figures.mails} arrived and {sent} are called sent"
        return figures


def wait_for_end(
    is_over: Callable[[float], bool],
    began: float,
    service: Installation,
    opened: sink.RunningSink,
    figures: MorningCost,
) -> None:
    """Wait for the end, sampling the memory of the workers meanwhile."""
    looked = took = 0.0
    while not is_over(took):
        time.sleep(min(max(took / 100, 0.02), GLANCE))  # an error of 1% is acceptable
        took = time.perf_counter() - began
        assert took < PATIENCE, service.logs()[-4000:]
        if took - looked > GLANCE:
            looked = took
            figures.memory = max(figures.memory, process_usage.peak(service.started[0].pid))
            if not figures.halfway and opened.accepted_count() > figures.readers / 2:
                figures.halfway = figures.memory


Start = Callable[[], object]
IsOver = Callable[[float], bool]  #: a function that gets the seconds passed so far


def ours(
    servers: SharedServers, engine: Engine, service: Installation, figures: MorningCost, readers: list[int]
) -> tuple[Start, IsOver]:
    """Return the functions that start publishing and delivery of every digest and that detect the end."""
    celery = Celery("digest", broker=servers.broker)
    celery.conf.broker_transport_options = {"global_keyprefix": "digest:"}
    celery.send_task("workers.tasks.heartbeat", queue="prompt")
    service.wait_until("a worker that answers", lambda: count(engine, text("SELECT count(*) FROM heartbeat")))
    is_left = select(exists().where(is_due(datetime.now(UTC) + timedelta(seconds=1))))
    is_open = select(exists(select(Delivery.id).where(IS_OPEN)))

    def is_over(took: float) -> bool:
        if not figures.published and not count(engine, is_left):
            figures.published = took
        return bool(figures.published) and not count(engine, is_open)

    return lambda: celery.send_task("workers.tasks.publish", queue="bulk"), is_over


def rival_functions(
    servers: SharedServers, engine: Engine, service: Installation, figures: MorningCost, readers: list[int]
) -> tuple[Start, IsOver]:
    """Return the functions that enqueue a rival's tasks and that detect the end."""
    celery = Celery("rivals", broker=servers.broker)
    tasks = "tests.bench.rival_tasks"

    def start() -> None:
        if figures.way == "naive":
            for number in readers:
                celery.send_task(f"{tasks}.naive_letter", (number,))
        else:
            for begin in range(0, len(readers), competent_rival.CHUNK):
                celery.send_task(f"{tasks}.middle_chunk", (readers[begin : begin + competent_rival.CHUNK],))

    written = select(func.count()).select_from(Delivery)
    return start, lambda _took: count(engine, written) == len(readers)


def all_reader_ids(engine: Engine) -> list[int]:
    """Return the ids of all readers."""
    with engine.connect() as connection:
        return list(connection.execute(select(Subscriber.id).order_by(Subscriber.id)).scalars())


def count(engine: Engine, query: Any) -> int:
    with engine.connect() as connection:
        return int(connection.execute(query).scalar_one())
