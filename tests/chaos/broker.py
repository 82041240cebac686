"""Freeze, kill and empty the broker while two schedulers and a worker of the real service run."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import redis

from digest import db
from digest.db.tables.subscribers import SubscriberState
from digest.subscribers import subscriber_rows
from tests.chaos.world import ChaosWorld, Unruly, at_noon, attempts_of
from tests.conftest import ROOT
from tests.support import real_servers
from tests.support.faulty_smtp_server import FaultyServer, faulty_server
from tests.support.product_processes import Installation, installation
from tests.support.waiting import wait_until

EARLY, LATE = 60, 20  #: number of readers added before the broker fails, and of those added afterwards
SLOW = 0.05  #: seconds that the mail server takes for each letter, which leaves time to break the broker


def lose_the_broker(url: str) -> tuple[ChaosWorld, str]:
    """Break the broker in every way until all deliveries are settled.

    Return the world, and the faults in words.
    """
    mail = FaultyServer(plan=lambda _recipient: time.sleep(SLOW))
    with (
        tempfile.TemporaryDirectory(prefix="digest-chaos-") as folder,
        real_servers.restartable_broker(real_servers.redis_program()) as broker,
        faulty_server(mail),
        service(Path(folder), url, broker.url, mail.port) as running,
    ):
        made = ChaosWorld(
            engine=db.make_engine(url), server=mail, plan=Unruly(random.Random(0), 0), window=50
        )
        subscribe(made, "early", EARLY)
        drop(running)
        for _clock in range(2):
            running.start("scheduler")
        running.start("worker")
        wait_until("the first letters", lambda: len(mail.taken) > EARLY // 10)
        broker.send_signal(signal.SIGSTOP)  # connections are accepted and get no reply
        time.sleep(4)
        sent_while_frozen = len(mail.taken)
        broker.end(signal.SIGKILL)
        subscribe(made, "late", LATE)
        time.sleep(1)
        broker.start()  # empty
        with redis.Redis.from_url(broker.url) as client:
            wait_until("work to be announced again", lambda: client.keys("digest:*"))
            client.flushall()
        wait_until("everybody's letter", lambda: is_at_rest(made))
        assert running.stop(how=signal.SIGTERM) == [0, 0, 0]
    return made, f"{sent_while_frozen} letters while it was frozen, {len(mail.taken)} in all"


@contextmanager
def service(folder: Path, url: str, broker: str, port: int) -> Iterator[Installation]:
    settings = {
        "DATABASE_URL": url, "BROKER_URL": broker, "MAIL_URL": f"smtp://127.0.0.1:{port}",
        "BASE_URL": "https://digest.example.org", "SENDER": "Digest <digest@example.org>",
    }  # fmt: skip
    with installation(folder / "data", settings=settings) as running:
        yield running


def subscribe(made: ChaosWorld, name: str, number: int) -> None:
    """Add this many subscribers who are due."""
    now = datetime.now(UTC)
    with db.write_session(made.engine) as session:
        for each in range(number):
            subscriber_rows.add(
                session, f"{name}{each}@example.org", texts=at_noon(now), state=SubscriberState.ACTIVE,
                consent="chaos", now=now,
            )  # fmt: skip
        session.commit()


def drop(running: Installation) -> None:
    """Put the sample into the dumps folder as a real dump."""
    sample = next((ROOT / "digest" / "dumps" / "sample").glob("*.txt"))
    running.dumps.mkdir(exist_ok=True)
    beside = running.dumps / "dump.txt.part"
    beside.write_bytes(sample.read_bytes())
    beside.rename(running.dumps / "dump.txt")


def is_at_rest(made: ChaosWorld) -> bool:
    """Return whether every digest is settled."""
    return attempts_of(made.engine) == {"sent": EARLY + LATE}
