"""Time one morning end to end, from due to delivered, and compare it with the naive implementation.

The morning has 10,000 readers with 3 topics each, 500 papers, PostgreSQL with every commit on disk, and the
fastest sink. Both implementations run under the same rules (`celery_mornings.py`). The product's time
includes making the press. The naive implementation has a task, a premailer run, a connection and a commit for
every reader; it writes to a hundred readers, and is warmed up before it is timed. First both write to the
same hundred readers, and their letters are compared.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import celery_mornings, workers
from tests.bench.world import World

GATE = 100  #: minimum speed-up over the naive implementation
SAMPLE = 100  #: number of readers to whom the naive implementation writes
WAYS = ("ours", "naive")


def main(full: bool) -> int:
    world = World(readers=100_000 if full else 10_000, kept=0, now=datetime.now(UTC), at="00:00")
    print(
        f"   both ways: Celery workers of {celery_mornings.PROCESSES} processes, and the same servers;"
        " the naive way is warm before its clock starts"
    )
    with celery_mornings.servers() as place, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workers.compare_all(place, world, folder, WAYS)
        with celery_mornings.built_world(place, world) as template:
            figures = celery_mornings.best(place, template, folder, WAYS, {"naive": SAMPLE})
    ours, naive = (figures[way] for way in WAYS)
    ratio = ours.rate / naive.rate
    print(f"   ratio {ratio:,.0f} (gate: more than {GATE}); by processor time {naive.cost / ours.cost:,.0f}")
    return 0 if ratio > GATE else 1
