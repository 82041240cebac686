"""The nights in which clocks are changed, lived through by two publishers whose own clocks are wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, select

from digest import db, delivery
from digest.model import Delivery, DeliveryState
from digest.rendering import Templates
from digest.settings import templates_dir
from digest.transport.memory import Memory
from tests.chaos.worker import SITE
from tests.newsroom import Newsroom

#: A zone, the evening before its night, and the hour that is skipped or comes twice.
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
STEPS = (timedelta(0), timedelta(0), timedelta(hours=1), timedelta(hours=-1))  #: how wrong a clock may be


def live_through(url: str, *, seed: int) -> tuple[list[str], int]:
    """Live through all these nights; return what went wrong, and how many letters were sent."""
    chance, engine = random.Random(seed), db.connect(url)
    templates = Templates(templates_dir())
    newsroom = Newsroom(engine=engine, site=SITE, templates=templates)
    post = Memory()
    for number, (zone, evening, hour) in enumerate(NIGHTS):
        email = f"night{number}@example.org"
        newsroom.subscribe(email, now=written(evening), hour=hour, timezone=zone)
        for tick in range(int(timedelta(days=DAYS) / TICK)):
            now = evening + tick * TICK
            if tick % 3 == 0:
                newsroom.dump(written(now), [f"Paper {number}.{tick}"])
            for _publisher in range(2):
                newsroom.publish(written(now + chance.choice(STEPS)))
            with db.writing(engine) as session:
                delivery.deliver(
                    session, site=SITE, templates=templates, transport=post, clock=lambda now=now: now
                )  # type: ignore[misc]
        newsroom.change(email, state="unsubscribed")
    wrong = list(mistakes(engine, post))
    engine.dispose()
    return wrong, len(post.messages)


def pause_at(moment: datetime) -> datetime:
    """Return that moment, as a clock that stands still."""
    return moment


def written(moment: datetime) -> str:
    """Return the moment as the newsroom reads it."""
    return moment.strftime("%Y-%m-%dT%H:%M")


def mistakes(engine: Engine, post: Memory) -> Iterator[str]:
    """Yield whose mornings brought no digest, or two, or one that ended without a word."""
    arrived = Counter(message.recipient for message in post.messages)
    with db.reading(engine) as session:
        rows = list(session.scalars(select(Delivery).order_by(Delivery.id)))
    for number, (zone, evening, _) in enumerate(NIGHTS):
        email = f"night{number}@example.org"
        days = [evening.date() + timedelta(days=day) for day in range(DAYS + 1)]
        theirs = [row for row in rows if row.email == email]
        if sorted(str(row.edition) for row in theirs) != [f"daily-{day}" for day in days]:
            yield f"I6 {zone}: {[row.edition for row in theirs]}"
        if arrived[email] != sum(row.state == DeliveryState.SENT for row in theirs):
            yield f"I2 {zone}: {arrived[email]} letters"
        if any(row.state != DeliveryState.SENT and not row.reason for row in theirs):
            yield f"I1 {zone}: an edition came to nothing without a reason"
