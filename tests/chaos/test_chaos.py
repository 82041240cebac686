"""Whatever dies at whatever instant: nothing is lost, nothing comes twice unless it was counted as in doubt.

The short runs are part of every test run; `python -m tests.chaos` goes on for as long as you like.
"""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.worker import LEASE
from tests.chaos.world import World, attempts_of, storm, world
from tests.conftest import ROOT

FAILPOINTS = ("claimed", "written", "intending", "intended", "answered", "settling", "settled")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_every_failpoint_in_the_code_is_tried() -> None:
    sources = (path.read_text() for path in Path(ROOT, "digest").rglob("*.py"))

    named = {name for source in sources for name in re.findall(r'failpoints\.reach\("([a-z-]+)"\)', source)}

    assert named == set(FAILPOINTS)


def test_workers_that_die_at_every_named_instant_lose_nothing(database_url: str) -> None:
    with world(database_url, seed=1, readers=90, window=5, rate=0) as made:
        assert die_everywhere(made) == len(FAILPOINTS)
        assert made.broken() == []
        assert attempts_of(made.engine) == {"sent": 90}


def die_everywhere(made: World) -> int:
    """Let a worker die at every failpoint and the last one finish; return how many were hit."""
    hit = 0
    for failpoint in FAILPOINTS:
        worker = made.start(failpoint=failpoint, spared=0 if failpoint == "claimed" else 1)
        hit += worker.wait(timeout=60) == -signal.SIGKILL
        made.forget(worker)
    made.drain()
    return hit


def weather(made: World, *, seed: int, seconds: float) -> list[str]:
    """Let it storm, calm down, and return which promises were broken."""
    storm(made, seed=seed, seconds=seconds, workers=3)
    made.drain()
    return made.broken()


@pytest.mark.parametrize("window", [1, 10])
def test_a_storm_breaks_no_promise(database_url: str, window: int) -> None:
    with world(database_url, seed=7, readers=80, window=window, rate=0.15) as made:
        assert weather(made, seed=7, seconds=12) == []
        assert made.kills > 3
        assert sum(made.plan.met.values()) > 5


def finish(made: World, *, seconds: float = 60) -> None:
    """Let everything settle, and hold it against the promises."""
    made.drain(seconds=seconds)
    assert made.broken() == []


def test_connections_that_the_database_ends_lose_nothing(postgres_url: str) -> None:
    with world(postgres_url, seed=11, readers=90, window=5, rate=0.1) as made:
        for _round in range(6):
            for worker in [each for each in made.workers if each.poll() is not None]:
                made.forget(worker)
            while len(made.workers) < 2:
                made.start()
            time.sleep(0.8)
            made.cut_off()
        finish(made)


def test_a_sqlite_file_that_somebody_else_locks_only_delays(sqlite_url: str) -> None:
    with world(sqlite_url, seed=12, readers=60, window=5, rate=0.1) as made:
        made.start()
        made.start()
        for _round in range(3):
            time.sleep(0.5)
            made.lock(LEASE.total_seconds() + 0.5)
        finish(made)


def test_workers_whose_clocks_disagree_by_many_leases_break_no_promise(database_url: str) -> None:
    with world(database_url, seed=13, readers=60, window=5, rate=0.1) as made:
        for skew in (-15, 0, 15):
            made.start(skew=skew)
        time.sleep(4)
        finish(made, seconds=90)


@pytest.mark.parametrize(("mutant", "promises"), [("mark first", {"I1", "I4"}), ("no intent", {"I2"})])
def test_a_broken_design_is_caught(sqlite_url: str, mutant: str, promises: set[str]) -> None:
    with world(sqlite_url, seed=3, readers=12, window=5, rate=0, mutant=mutant) as made:
        worker = made.start(failpoint="answered", spared=1)
        assert worker.wait(timeout=60) == -signal.SIGKILL
        made.forget(worker)

        made.drain()

        assert promises <= {fault[:2] for fault in made.broken()}
