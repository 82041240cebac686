"""Publish and deliver through nights with clock changes, with two publishers whose own clocks are wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, select

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.delivery.transports.memory import MemoryTransport
from digest.letters.templates import Templates
from digest.settings import templates_dir
from tests.chaos.worker import SITE
from tests.support.publishing_world import PublishingWorld

#: A zone, the evening before the clock change, and the hour that is skipped or occurs twice.
NIGHTS = (
    ("Europe/Berlin", datetime(2026, 10, 24, 18, tzinfo=UTC), "02:30"),
    ("Europe/Berlin", datetime(2027, 3, 27, 18, tzinfo=UTC), "02:30"),
    ("America/New_York", datetime(2026, 10, 31, 18, tzinfo=UTC), "01:30"),
    ("America/New_York", datetime(2027, 3, 13, 18, tzinfo=UTC), "02:30"),
    ("America/Havana", datetime(2026, 10, 31, 18, tzinfo=UTC), "00:30"),
    ("America/Havana", datetime(2027, 3, 13, 18, tzinfo=UTC), "00:00"),
)
DAYS = 2
TICK = timedelta(hours=1)
STEPS = (
    timedelta(0),
    timedelta(0),
    timedelta(hours=1),
    timedelta(hours=-1),
)  #: errors of a publisher's clock


def live_through(url: str, *, seed: int) -> tuple[list[str], int]:
    """Run all these nights; return the errors, and the number of sent letters."""
    chance, engine = random.Random(seed), db.make_engine(url)
    templates = Templates(templates_dir())
    world = PublishingWorld(engine=engine, site=SITE, templates=templates)
    transport = MemoryTransport()
    for number, (zone, evening, hour) in enumerate(NIGHTS):
        email = f"night{number}@example.org"
        world.subscribe(email, now=written(evening), hour=hour, timezone=zone)
        for tick in range(int(timedelta(days=DAYS) / TICK)):
            now = evening + tick * TICK
            if tick % 3 == 0:
                world.dump(written(now), [f"Paper {number}.{tick}"])
            for _publisher in range(2):
                world.publish(written(now + chance.choice(STEPS)))
            world.deliver(now, transport)
        world.change(email, state="unsubscribed")
    wrong = list(mistakes(engine, transport))
    engine.dispose()
    return wrong, len(transport.messages)


def written(moment: datetime) -> str:
    """Return the datetime in the notation of the world's functions."""
    return moment.strftime("%Y-%m-%dT%H:%M")


def mistakes(engine: Engine, transport: MemoryTransport) -> Iterator[str]:
    """Yield subscribers who got no digest, two digests, or a digest that ended without a reason."""
    arrived = Counter(message.recipient for message in transport.messages)
    with db.read_session(engine) as session:
        rows = list(session.scalars(select(Delivery).order_by(Delivery.id)))
    for number, (zone, evening, _) in enumerate(NIGHTS):
        email = f"night{number}@example.org"
        days = [evening.date() + timedelta(days=day) for day in range(DAYS + 1)]
        deliveries = [row for row in rows if row.email == email]
        if sorted(str(row.edition) for row in deliveries) != [f"daily-{day}" for day in days]:
            yield f"wrong editions: {zone}: {[row.edition for row in deliveries]}"
        if arrived[email] != sum(row.state == DeliveryState.SENT for row in deliveries):
            yield f"copies and letters sent differ: {zone}: {arrived[email]} copies"
        if any(row.state != DeliveryState.SENT and not row.reason for row in deliveries):
            yield f"no reason: {zone}: an edition ended without one"
