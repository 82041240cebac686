"""A morning of the whole house: real Celery workers, Redis, PostgreSQL with every commit on disk, SMTP.

From the task that publishes to the last settled delivery; the time includes making the press. The
workers are those an operator starts, as many as there are cores, and the sink takes all they bring.
`python -m tests.bench.workers READERS FILTERS PAPERS` measures any size (`make bench-million`: a million).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from celery import Celery
from sqlalchemy import Engine, exists, func, select, text

from digest import outbox
from digest.model import Delivery, DeliveryState, Subscriber
from digest.publishing.chunks import is_due
from tests import servers
from tests.bench import sending, sink
from tests.bench.world import SITE, World
from tests.conftest import connected, fresh_database
from tests.processes import Installation, installation

GATE = 3_000  #: digests a second, in the full size
MEMORY_GATE = 300  #: MB of a worker process at its peak
PATIENCE = 1_800  #: seconds, then something is wrong


def main(full: bool) -> int:
    size = (100_000, 10_000, 500) if full else (10_000, 1_000, 500)
    rate, memory = measured(*size)
    print(f"   {rate:,.0f} digests/s (gate {GATE:,} in the full size), {memory:.0f} MB (gate {MEMORY_GATE})")
    return 0 if memory < MEMORY_GATE and (rate >= GATE or not full) else 1


def measured(readers: int, filters: int, papers: int) -> tuple[float, float]:
    """Measure one morning; return digests a second, and the memory of the largest worker in MB."""
    now = datetime.now(UTC)
    world = World(papers=papers, readers=readers, filters=filters, kept=0, now=now, at="00:00")
    with (
        servers.postgres("synchronous_commit=on", "max_wal_size=8GB", "shared_buffers=256MB") as server,
        servers.redis() as broker,
        tempfile.TemporaryDirectory() as name,
        sending.sink(Path(name), 0) as port,
        fresh_database(server, template="template0") as url,
        connected(url) as engine,
    ):
        began = time.perf_counter()
        world.build(engine)
        sending.analyse(engine)
        print(
            f"   a world of {readers:,} readers, {filters:,} filters, {papers} papers in"
            f" {time.perf_counter() - began:.0f} s"
        )
        with house(Path(name), url, broker, port) as ours:
            return morning(ours, engine, broker, port, now)


@contextmanager
def house(folder: Path, url: str, broker: str, port: int) -> Iterator[Installation]:
    """Run the workers, as an operator does."""
    settings = {
        "DATABASE_URL": url,
        "BROKER_URL": broker,
        "MAIL_URL": f"smtp://127.0.0.1:{port}",
        "BASE_URL": SITE.url,
        "SENDER": SITE.sender_address,
        "SECRET_KEY": SITE.keys[0].decode(),
        "PEPPER": SITE.pepper.decode(),
    }
    with installation(folder / "data", settings=settings, command=(sys.executable, "-m", "workers")) as ours:
        ours.start("worker")
        yield ours


def morning(ours: Installation, engine: Engine, broker: str, port: int, now: datetime) -> tuple[float, float]:
    """Have everybody's digest published and delivered, and print where the time went."""
    celery = Celery("digest", broker=broker)
    celery.conf.broker_transport_options = {"global_keyprefix": "digest:"}
    celery.send_task("workers.tasks.heartbeat", queue="prompt")
    ours.wait_until("a worker that answers", lambda: count(engine, text("SELECT count(*) FROM heartbeat")))
    began, published = time.perf_counter(), 0.0
    celery.send_task("workers.tasks.publish", queue="bulk")
    while True:
        time.sleep(0.2)
        assert time.perf_counter() - began < PATIENCE, ours.logs()[-4000:]
        is_published = not is_left(engine, select(exists().where(is_due(now + timedelta(seconds=1)))))
        published = published or (time.perf_counter() - began if is_published else 0.0)
        if is_published and not is_left(engine, select(exists(select(Delivery.id).where(outbox.IS_OPEN)))):
            break
    seconds = time.perf_counter() - began
    memory = max(peaks(ours))
    mails = sink.taken(port)
    sent = count(engine, select(func.count()).where(Delivery.state == DeliveryState.SENT))
    readers = count(engine, select(func.count(Subscriber.id)))
    assert mails == sent, f"{mails} arrived and {sent} are called sent"
    print(
        f"   {readers:,} readers, {mails:,} digests in {seconds:.1f} s: {mails / seconds:,.0f} digests/s;"
        f" all published after {published:.1f} s; the largest worker {memory:.0f} MB"
    )
    return mails / seconds, memory


def is_left(engine: Engine, query: object) -> bool:
    """Return whether the query finds something."""
    return bool(count(engine, query))


def count(engine: Engine, query: object) -> int:
    with engine.connect() as connection:
        return int(connection.execute(query).scalar_one())  # type: ignore[call-overload]


def peaks(ours: Installation) -> Iterator[float]:
    """Yield the peak memory in MB of every process of the house."""
    mark = f"DIGEST_DATA_DIR={ours.data_dir}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                status = (folder / "status").read_text()
                yield int(status.partition("VmHWM:")[2].split()[0]) / 1024
        except (OSError, IndexError):
            continue


if __name__ == "__main__":
    measured(*map(int, sys.argv[1:]))
