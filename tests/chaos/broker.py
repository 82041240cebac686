"""The broker falls silent, dies and forgets, while two clocks and a worker of the real house are at work."""

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

from digest import db, subscriptions
from digest.model import SubscriberState
from tests import servers
from tests.chaos.world import Unruly, World, at_noon, attempts_of
from tests.conftest import ROOT
from tests.faulty import FaultyServer, faulty_server
from tests.processes import Installation, installation, wait_until

EARLY, LATE = 60, 20  #: readers: before the broker falls, and after
SLOW = 0.05  #: seconds that the mail server thinks about each letter, so that there is time to fall


def lose_the_broker(url: str) -> tuple[World, str]:
    """Let the broker do all it can, and return what is left, once it has come to rest, and what was done."""
    mail = FaultyServer(plan=lambda _recipient: time.sleep(SLOW))
    with (
        tempfile.TemporaryDirectory(prefix="digest-chaos-") as folder,
        servers.mortal_broker(servers.redis_program()) as broker,
        faulty_server(mail),
        house(Path(folder), url, broker.url, mail.port) as ours,
    ):
        made = World(engine=db.connect(url), server=mail, plan=Unruly(random.Random(0), 0), window=50)
        subscribe(made, "early", EARLY)
        drop(ours)
        for _clock in range(2):
            ours.start("scheduler")
        ours.start("worker")
        wait_until("the first letters", lambda: len(mail.taken) > EARLY // 10, seconds=60)
        broker.tell(signal.SIGSTOP)  # whoever connects is accepted, and hears nothing
        time.sleep(4)
        silent = len(mail.taken)
        broker.end(signal.SIGKILL)
        subscribe(made, "late", LATE)
        time.sleep(1)
        broker.start()  # and knows of nothing
        with redis.Redis.from_url(broker.url) as client:
            wait_until("work to be announced again", lambda: client.keys("digest:*"), seconds=60)
            client.flushall()
        wait_until("everybody's letter", lambda: is_at_rest(made), seconds=90)
        assert ours.stop(how=signal.SIGTERM) == [0, 0, 0]
    return made, f"{silent} letters while it was silent, {len(mail.taken)} in all"


@contextmanager
def house(folder: Path, url: str, broker: str, port: int) -> Iterator[Installation]:
    settings = {
        "DATABASE_URL": url, "BROKER_URL": broker, "MAIL_URL": f"smtp://127.0.0.1:{port}",
        "BASE_URL": "https://digest.example.org", "SENDER": "Digest <digest@example.org>",
    }  # fmt: skip
    with installation(folder / "data", settings=settings) as ours:
        yield ours


def subscribe(made: World, name: str, number: int) -> None:
    """Let so many more people be due."""
    now = datetime.now(UTC)
    with db.writing(made.engine) as session:
        for each in range(number):
            subscriptions.add(
                session, f"{name}{each}@example.org", schedule=at_noon(now), state=SubscriberState.ACTIVE,
                consent="chaos", now=now,
            )  # fmt: skip
        session.commit()


def drop(ours: Installation) -> None:
    """Drop the sample into the folder as a real dump."""
    sample = next((ROOT / "digest" / "sample").glob("*.txt"))
    ours.dumps.mkdir(exist_ok=True)
    beside = ours.dumps / "dump.txt.part"
    beside.write_bytes(sample.read_bytes())
    beside.rename(ours.dumps / "dump.txt")


def is_at_rest(made: World) -> bool:
    """Return whether everybody's digest has come to its end."""
    return attempts_of(made.engine) == {"sent": EARLY + LATE}
