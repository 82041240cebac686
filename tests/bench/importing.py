"""Compare importing a list of subscribers with adding them one by one, on SQLite and on PostgreSQL.

Adding readers one by one takes an object and a commit for each. First both ways add the same few hundred
readers, and the stored rows are compared. Then a long list is timed, which is generated while it is read.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row, select

from digest import db, subscribers
from digest.db.tables import Consent, FilterRow, Subscriber, SubscriberState, Subscription
from digest.editions import schedule
from tests.bench.world import NOW, SITE, World
from tests.conftest import connected, fresh_database
from tests.support import real_servers

CONSENT = "a benchmark"
COMPARED = 300  #: number of readers that are added in both ways and compared
GATE, GOAL = 5_000, 10_000  #: readers per second
RATIO = 20  #: minimum speed-up over adding readers one by one
FLAT = 1.1  #: maximum memory for all readers, relative to the first half
LINEAR = 1.5  #: maximum time of the second half, relative to the first; a quadratic algorithm takes 3


def main(full: bool) -> int:
    """Measure, print, and return 0 if every promise holds."""
    world = World(readers=100_000 if full else 20_000, filters=10_000 if full else 2_000)
    with tempfile.TemporaryDirectory(prefix="digest-bench-") as name:
        folder = Path(name)
        held = [holds("SQLite", f"sqlite:///{folder}/plain", f"sqlite:///{folder}/ours", world, full=full)]
    with (
        real_servers.postgres("synchronous_commit=on", "max_wal_size=8GB", "shared_buffers=256MB") as server,
        fresh_database(server, template="template0") as plain,
        fresh_database(server, template="template0") as ours,
    ):
        held.append(holds("PostgreSQL", plain, ours, world, full=full))
    return 0 if all(held) else 1


def holds(name: str, plain_url: str, our_url: str, world: World, *, full: bool) -> bool:
    """Import the list in both ways, print the rates, and return whether the gates hold."""
    with connected(plain_url) as plain, connected(our_url) as ours:
        db.upgrade(plain)
        db.upgrade(ours)
        rows = world.reader_rows()
        few = list(islice(rows, COMPARED))
        slow = one_by_one(plain, few)
        imported(ours, few)
        assert all_subscribers(ours) == all_subscribers(plain)
        halves = TimedRows(rows, (world.readers - COMPARED) // 2)
        began, worked = time.perf_counter(), time.process_time()
        imported(ours, halves)
        cost = (time.process_time() - worked) / world.readers
        rate = (world.readers - COMPARED) / (time.perf_counter() - began)
    grown, slower = halves.growth(began)
    print(
        f"   {name}: {rate:,.0f} readers/s (gate {GATE:,}, goal {GOAL:,}), {rate / slow:,.0f} times one by one"
        f" (gate {RATIO}), {cost * 1e6:,.0f} µs of our own processor time each;"
        f" the second half took {slower:.2f} times the first, memory {grown:.2f} times"
    )
    is_linear = grown < FLAT and slower < LINEAR
    return rate >= GATE and rate >= RATIO * slow and (is_linear or not full)


class TimedRows:
    """An iterator over rows that records the time and this process's memory after half of the rows."""

    def __init__(self, rows: Iterable[dict[str, Any]], half: int) -> None:
        self.rows = rows
        self.half = half

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(self.rows):
            if number == self.half:
                self.memory, self.at = memory(), time.perf_counter()
            yield row
        self.ended = time.perf_counter()

    def growth(self, began: float) -> tuple[float, float]:
        """Return the memory and time of the second half relative to the first."""
        return memory() / self.memory, (self.ended - self.at) / (self.at - began)


def memory() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one_by_one(engine: Engine, rows: list[dict[str, Any]]) -> float:
    """Add readers one by one and return the number of readers per second."""
    began = time.perf_counter()
    with db.write_session(engine) as session:
        for row in rows:
            subscribers.add(
                session,
                row["email"],
                topics=json.loads(row["topics"]),
                schedule=schedule.parse_schedule(at=row["at"]),
                state=SubscriberState.ACTIVE,
                consent=CONSENT,
                now=NOW,
                site=SITE,
            )
            session.commit()
    return len(rows) / (time.perf_counter() - began)


def imported(engine: Engine, rows: Iterable[dict[str, Any]]) -> None:
    """Import readers as a list."""
    with db.write_session(engine) as session:
        done = subscribers.import_rows(session, SITE, rows, consent=CONSENT, now=NOW)
        assert not done.problems, done.problems[:3]
        session.commit()


def all_subscribers(engine: Engine) -> list[Row[Any]]:
    """Return all subscribers with topics and consent."""
    person = [column for column in Subscriber.__table__.c if column.name != "id"]
    held = (
        select(*person, Subscription.position, Subscription.name, Subscription.typed, FilterRow.canonical)
        .join(Subscription, Subscription.subscriber_id == Subscriber.id)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
    )
    agreed = select(Subscriber.email, Consent.given_at, Consent.how, Consent.address).join(Consent)
    with db.read_session(engine) as session:
        return [row for wanted in (held, agreed) for row in sorted(session.execute(wanted), key=repr)]


if __name__ == "__main__":
    sys.exit(main(full="--full" in sys.argv))
