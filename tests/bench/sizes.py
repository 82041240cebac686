"""Measure one morning of the whole service for several numbers of readers: the table of sizes in docs/deploy.md.

Readers have one to ten topics, one in ten readers has a filter of their own, and 500 papers are new. The mail
server accepts everything at once, so that the figures are ours: a real one is slower, and limits decide.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import celery_mornings
from tests.bench.workers import TOPICS
from tests.bench.world import World

SIZES = (1_000, 10_000, 100_000)
PAPERS = 500
MAX_WORKER_MB = 300


def main(full: bool) -> int:
    print(f"   {celery_mornings.PROCESSES} worker processes; PostgreSQL and Redis on the same machine")
    largest = 0.0
    with celery_mornings.servers() as place, tempfile.TemporaryDirectory() as name:
        for readers in SIZES[: None if full else 2]:
            morning = morning_of(readers, place, Path(name) / str(readers))
            largest = max(largest, morning.memory)
            print(row(morning), flush=True)
    return 0 if largest < MAX_WORKER_MB else 1


def morning_of(
    readers: int, place: celery_mornings.SharedServers, folder: Path
) -> celery_mornings.MorningCost:
    """Return the figures of a morning with this many readers."""
    now = datetime.now(UTC)
    world = World(
        readers=readers, topics=TOPICS, filters=readers // 10, papers=PAPERS, kept=0, now=now, at="00:00"
    )
    with celery_mornings.built_world(place, world) as template:
        return celery_mornings.run_morning("ours", place, template, folder)


def row(morning: celery_mornings.MorningCost) -> str:
    """Return the row of the table."""
    cells = (
        f"{morning.readers:,}",
        f"{morning.published:.0f} s",
        f"{morning.seconds:.0f} s",
        f"{sum(used for name, used in morning.cpu.items() if name != 'sink'):.0f} s",
        f"{morning.memory:.0f} MB",
        f"{morning.stored_bytes / 1e6:,.0f} MB",
        f"{morning.sent_bytes / 1e6:,.0f} MB",
    )
    return f"   | {' | '.join(cells)} |"
