"""Compare publishing by one worker process and by two, on SQLite and PostgreSQL with every commit on disk.

Every process reads the press and evaluates the filters itself, as the product's workers do, and publishes
every other chunk of readers. On PostgreSQL, with two cores, two processes must reach nearly twice the rate of
one. SQLite has one writer at a time, so its speed-up is printed without a gate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from sqlalchemy import make_url, select

from digest import db, publishing, settings
from digest.db.tables import Subscriber
from digest.letters import Templates, press_store
from tests.bench.world import NOW, SITE, World
from tests.conftest import connected, fresh_database
from tests.support.real_servers import postgres
from tests.support.shared_caches import CACHES

NEAR = 1.6  #: minimum speed-up by a second process on PostgreSQL
ROUNDS = 2  #: number of runs, of which the better counts


def main(full: bool) -> int:
    world = World(readers=100_000 if full else 10_000, filters=10_000 if full else 1_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        press = built_world(world, f"sqlite:///{folder / 'world'}")
        print_rates(
            "SQLite", {count: rate(world, press, count, lambda: sqlite_copy(folder)) for count in (1, 2)}
        )
    with (
        postgres("synchronous_commit=on", "max_wal_size=8GB", "shared_buffers=256MB") as server,
        fresh_database(server, template="template0") as url,
    ):
        press, template = built_world(world, url), str(make_url(url).database)
        ratio = print_rates(
            "PostgreSQL",
            {
                count: rate(world, press, count, lambda: fresh_database(server, template=template))
                for count in (1, 2)
            },
        )
    print(f"   two publish {ratio:.2f} times as fast as one on PostgreSQL (gate {NEAR})")
    return 0 if ratio >= NEAR or (os.cpu_count() or 1) < 2 else 1


@dataclass(frozen=True)
class WorkerRate:
    """The number of readers per second, and the processor microseconds per reader."""

    readers: float
    cost: float


def print_rates(database: str, rates: dict[int, WorkerRate]) -> float:
    """Print the rates, and return the speed-up of two processes."""
    ratio = rates[2].readers / rates[1].readers
    one, two = (
        f"{each.readers:,.0f} readers/s ({each.cost:,.0f} µs of work each)" for each in rates.values()
    )
    print(f"   {database:10} by one {one}, by two {two}: {ratio:.2f} times", flush=True)
    return ratio


def built_world(world: World, url: str) -> str:
    """Build the world and its press, and return the name of the press."""
    with connected(url) as engine:
        world.build(engine)
        with db.write_session(engine) as session:
            templates = Templates(settings.templates_dir())
            press = publishing.prepare_press(session, site=SITE, templates=templates, caches=CACHES, now=NOW)
            assert press is not None
        with engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE")
    return press.name


@contextmanager
def sqlite_copy(folder: Path) -> Iterator[str]:
    """Yield the URL of a copy of the world in SQLite."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        shutil.copyfile(folder / "world", Path(name) / "world")
        yield f"sqlite:///{name}/world"


def rate(world: World, press: str, count: int, copy: Callable[[], AbstractContextManager[str]]) -> WorkerRate:
    """Return the rate at which this many processes publish the world."""
    found = []
    for _round in range(ROUNDS):
        with copy() as url, ExitStack() as stack:
            workers = [stack.enter_context(worker(url, press, number, count)) for number in range(count)]
            for each in workers:
                receive(each)
            began = time.perf_counter()
            for each in workers:
                start_workers(each)
            answers = [receive(each).split() for each in workers]
            took = time.perf_counter() - began
        done = sum(int(due) for due, _ in answers)
        assert done == world.readers, f"{done} of {world.readers} readers were published"
        found.append(WorkerRate(done / took, sum(float(worked) for _, worked in answers) / done * 1e6))
    return max(found, key=attrgetter("readers"))


# ── a process that publishes ────────────────────────────────────────────────────────────────────


@contextmanager
def worker(url: str, press: str, number: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """Run one of `count` processes."""
    command = [sys.executable, "-m", "tests.bench.scaling", url, press, str(number), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def receive(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def start_workers(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def work(url: str, name: str, number: int, count: int) -> None:
    """Warm up, wait for the start signal, publish every `count`th chunk, and print the number of readers."""
    with connected(url) as engine, db.write_session(engine) as session:
        press = press_store.load_press(session, name, CACHES)
        ids = session.scalars(select(Subscriber.id).order_by(Subscriber.id)).all()
        session.commit()
        print("ready", flush=True)
        sys.stdin.readline()
        due, worked = 0, time.process_time()
        for start in [0, *ids[publishing.CHUNK_SUBSCRIBERS - 1 :: publishing.CHUNK_SUBSCRIBERS]][
            number::count
        ]:
            published, _ = publishing.publish_chunk(
                session,
                press,
                site=SITE,
                caches=CACHES,
                after_id=start,
                limit=publishing.CHUNK_SUBSCRIBERS,
                now=NOW,
            )
            due += published.due
        print(due, time.process_time() - worked, flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
