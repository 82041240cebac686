"""Simulate sixty days of the service with forty readers, and count the outcomes of all editions.

    python -m tests.support.sixty_days

The papers are those of the seed dumps (without them the simulation is skipped with a message), spread
over two months of autumn, in which Europe and America set their clocks back. Readers change hour, zone
and cadence and pause; mail servers refuse; for two days nothing is published; papers are withdrawn and
published. Digests are published by the functions that the entry points call; whether a letter is sent or
refused is drawn at random. The same seed gives the same table.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from statistics import median
from zoneinfo import ZoneInfo

from sqlalchemy import select

from digest import db, settings, subscribers
from digest.db.tables import Delivery, DeliveryState, PaperRow, Subscriber
from digest.editions import shown
from digest.editions.compose import Digest
from digest.editions.schedule import Cadence, Schedule
from digest.letters import Templates
from digest.papers import Announcement, Record, catalog
from digest.site_profile import Site
from tests.support.product_processes import ROOT
from tests.support.publishing_world import PublishingWorld

SEEDS = ROOT.parent / "shared" / "seeds"
FIRST = datetime(2026, 10, 5, tzinfo=UTC)
DAYS, READERS, SEED = 60, 40, 5
OUTAGE = range(20, 22)  #: days without publishing: a weekend before the clocks change
ZONES = ("UTC", "Europe/Oslo", "Europe/London", "America/New_York", "America/Chicago", "Asia/Tokyo")
HOURS = (time(1, 30), time(8), time(18))
TOPICS: tuple[Mapping[str, str], ...] = (
    {},
    {"Language models": '"language model*"'},
    {"Robots": "robot*", "Video": "video*"},
    {"Benchmarks": "benchmark*", "Reasoning": "reason*", "Agents": "agent*"},
    {"Diffusion": "diffusion*", "Rare": '"causal inference" OR protein*'},
    {"Everything on learning": "learning"},
)
CADENCES = (*[Cadence.DAILY] * 6, Cadence.WEEKDAYS, Cadence.WEEKDAYS, Cadence.WEEKLY, Cadence.MONTHLY)


@dataclass
class Observations:
    """What was observed during the simulation."""

    seen: dict[int, set[int]] = field(default_factory=dict)  #: subscriber to papers that arrived
    twice: int = 0
    over_limit: int = 0
    stale: int = 0
    updates: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    last_checked: int = 0  #: deliveries up to this id


def main() -> int:
    papers = seeds()
    if not papers:
        print(f"skipped: there are no papers in {SEEDS}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        engine = db.make_engine(f"sqlite:///{Path(folder) / 'service.sqlite3'}")
        db.upgrade(engine)
        site = Site(keys=(b"simulated",), pepper=b"simulated")
        world = PublishingWorld(engine=engine, site=site, templates=Templates(settings.templates_dir()))
        diary = simulate(world, papers)
        rows = table(world, diary)
        engine.dispose()
    print("| in 60 days | |\n|---|---|")
    for name, figure in rows.items():
        print(f"| {name} | {figure} |")
    return (
        1
        if diary.twice or diary.over_limit or diary.stale or max(diary.updates.values(), default=0) > 1
        else 0
    )


def seeds() -> list[Record]:
    """Return the papers of the seed dumps, each once."""
    found: dict[str, Record] = {}
    for path in sorted(SEEDS.glob("*.truth.jsonl")):
        for line in path.read_text().splitlines():
            one = json.loads(line)
            found.setdefault(one["title"], Record(title=one["title"], abstract=one.get("abstract") or ""))
    return list(found.values())


# ── two months ──────────────────────────────────────────────────────────────────────────────────


def simulate(world: PublishingWorld, papers: list[Record]) -> Observations:
    """Run the sixty days."""
    chance, diary = random.Random(SEED), Observations()
    chance.shuffle(papers)
    for number in range(READERS):
        subscribe(world, chance, number)
    for day in range(DAYS):
        morning = FIRST + timedelta(days=day)
        load(world, chance, papers, day, morning)
        for hour in range(24):
            now = morning + timedelta(hours=hour, minutes=35)
            if day not in OUTAGE:
                world.publish(spelled(now))
                settle_deliveries(world, chance, diary, now)
        change_one_reader(world, chance, morning + timedelta(hours=23, minutes=50))
    return diary


def subscribe(world: PublishingWorld, chance: random.Random, number: int) -> None:
    """Add one reader with their own schedule and interests."""
    world.subscribe(
        f"reader-{number}@example.org", TOPICS[number % len(TOPICS)], now=spelled(FIRST),
        cadence=CADENCES[number % len(CADENCES)], hour=f"{chance.choice(HOURS):%H:%M}",
        timezone=chance.choice(ZONES), weekday=chance.randrange(7), max_papers=chance.choice([3, 5, 10]),
        wants_nothing_today_letters=number % 7 == 0, wants_trending=number % 5 == 0,
        min_papers=chance.choice([1, 1, 1, 3]),
    )  # fmt: skip


def load(
    world: PublishingWorld, chance: random.Random, papers: list[Record], day: int, morning: datetime
) -> None:
    """Load the day's dump: new papers, some of the last days, and changes of older ones."""
    share = len(papers) / DAYS
    fresh = papers[round(day * share) : round((day + 1) * share)]
    recent = papers[max(0, round((day - 3) * share)) : round(day * share)]
    again = chance.sample(recent, min(4, len(recent)))
    records = [rated(chance, one) for one in (*fresh, *again)]
    for old in chance.sample(papers[: round(day * share)], 1 if day > 3 and day % 3 == 0 else 0):
        kind = chance.random()
        records.append(
            Record(title=old.title, announcement=Announcement.WITHDRAWN)
            if kind < 0.3
            else Record(title=old.title, journal="Journal of Simulated Results 1 (2026)")
        )
    world.dump(spelled(morning), records)


def rated(chance: random.Random, paper: Record) -> Record:
    """Return the paper with a random number of votes."""
    return Record(
        title=paper.title, abstract=paper.abstract, signals={"upvotes": float(chance.randrange(60))}
    )


def settle_deliveries(
    world: PublishingWorld, chance: random.Random, diary: Observations, now: datetime
) -> None:
    """Settle queued deliveries as sent or failed, and record the papers that their readers have seen."""
    with db.write_session(world.engine) as session:
        unchecked = select(Delivery).where(Delivery.id > diary.last_checked).order_by(Delivery.id)
        for delivery in session.scalars(unchecked).all():
            diary.last_checked = delivery.id
            if delivery.state != DeliveryState.QUEUED:
                continue
            if delivery.edition is None:
                delivery.state = DeliveryState.SENT
                continue
            digest = Digest.from_json(delivery.decision)
            diary.stale += not delivery.due_at <= now < delivery.expires_at
            if chance.random() < 0.03:
                delivery.state, delivery.settled_at = DeliveryState.FAILED, now
                session.flush()
                shown.release(session, [delivery.id])
                continue
            delivery.state, delivery.settled_at = DeliveryState.SENT, now
            record_digest(session, diary, delivery, digest)
        session.commit()


def record_digest(session: object, diary: Observations, delivery: Delivery, digest: Digest) -> None:
    """Note the papers and updates of a digest that arrived."""
    reader = session.get(Subscriber, delivery.subscriber_id)  # type: ignore[attr-defined]
    current = catalog.resolve(session, list(digest.papers))  # type: ignore[arg-type]
    papers = [current.get(paper, paper) for paper in digest.papers]
    seen = diary.seen.setdefault(reader.id, set())
    diary.twice += len(seen & set(papers)) + len(papers) - len(set(papers))
    diary.over_limit += len(papers) > reader.max_papers
    seen |= set(papers)
    diary.sizes.append(len(papers))
    diary.updates.update((reader.id, one.paper, one.kind) for one in digest.news)


def change_one_reader(world: PublishingWorld, chance: random.Random, now: datetime) -> None:
    """Change the settings of one reader."""
    with db.write_session(world.engine) as session:
        reader = subscribers.get(session, f"reader-{chance.randrange(READERS)}@example.org")
        match chance.randrange(4):
            case 0:
                current = subscribers.schedule_of(reader)
                moved = Schedule(
                    cadence=current.cadence,
                    at=chance.choice(HOURS),
                    timezone=chance.choice(ZONES),
                    weekday=current.weekday,
                )
                subscribers.edit(session, reader, schedule=moved, now=now)
            case 1:
                subscribers.pause(session, reader, (now + timedelta(days=chance.randint(3, 12))).date(), now)
            case 2:
                subscribers.edit(session, reader, topics=chance.choice(TOPICS), now=now)
        session.commit()


def spelled(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


# ── results ─────────────────────────────────────────────────────────────────────────────────────


def table(world: PublishingWorld, diary: Observations) -> dict[str, object]:
    """Return the figures of the two months."""
    with db.read_session(world.engine) as session:
        digests = session.scalars(select(Delivery).where(Delivery.edition.is_not(None))).all()
        states = Counter(one.state for one in digests)
        decided = {one.id: Digest.from_json(one.decision) for one in digests}
        nothing_today = session.scalars(select(Delivery.id).where(Delivery.letter == "nothing_today")).all()
        papers = session.scalars(select(PaperRow.id)).all()
        zones = {one.id: one.timezone for one in session.scalars(select(Subscriber))}
    nights = [one for one in digests if one.state == DeliveryState.SENT and is_changed(zones, one)]
    return {
        "papers, spread over the days": f"{len(papers):,}",
        "readers": READERS,
        "editions that fell due": f"{len(digests):,}",
        "sent": f"{states[DeliveryState.SENT]:,}",
        "without a match (recorded as empty)": f"{states[DeliveryState.EMPTY]:,}",
        "missed on days without publishing (recorded as expired)": f"{states[DeliveryState.EXPIRED]:,}",
        "refused by a mail server (their papers were sent again)": f"{states[DeliveryState.FAILED]:,}",
        "papers shown": f"{sum(diary.sizes):,}",
        "papers in a digest, median": f"{median(diary.sizes):g}",
        "papers in a digest, most": max(diary.sizes),
        "catch-up digests after a pause": sum(one.is_catch_up for one in decided.values()),
        '"nothing today" letters': len(nothing_today),
        "updates to papers sent before": sum(diary.updates.values()),
        "digests on days when daylight saving time ended": len(nights),
        "papers shown twice": diary.twice,
        "editions sent twice": len(digests) - len({(one.subscriber_id, one.edition) for one in digests}),
        "updates sent twice": sum(count - 1 for count in diary.updates.values()),
        "digests over their limit": diary.over_limit,
        "digests sent outside their day": diary.stale,
    }


def is_changed(zones: Mapping[int, str], delivery: Delivery) -> bool:
    """Return whether an edition was due on a day on which its reader's clock changed."""
    zone = ZoneInfo(zones.get(delivery.subscriber_id or 0, "UTC"))
    day = delivery.due_at.astimezone(zone).date()
    begin, end = (datetime.combine(day + timedelta(days=ahead), time(), zone) for ahead in (0, 1))
    return begin.utcoffset() != end.utcoffset()


if __name__ == "__main__":
    sys.exit(main())
