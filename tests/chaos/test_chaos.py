"""Whatever dies at whatever instant: nothing is lost, nothing comes twice unless it was counted as in doubt.

The short runs are part of every test run; `python -m tests.chaos` goes on for as long as you like.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

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
        for failpoint in FAILPOINTS:
            worker = made.start(failpoint=failpoint, spared=0 if failpoint == "claimed" else 1)
            assert worker.wait(timeout=60) == -signal.SIGKILL, failpoint
            made.forget(worker)

        made.drain()

        assert made.broken() == []
        assert attempts_of(made.engine) == {"sent": 90}
        print(f"{len(FAILPOINTS)} of {len(FAILPOINTS)} failpoints hit")


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


@pytest.mark.parametrize(("mutant", "promises"), [("mark first", {"I1", "I4"}), ("no intent", {"I2"})])
def test_a_broken_design_is_caught(sqlite_url: str, mutant: str, promises: set[str]) -> None:
    with world(sqlite_url, seed=3, readers=12, window=5, rate=0, mutant=mutant) as made:
        worker = made.start(failpoint="answered", spared=1)
        assert worker.wait(timeout=60) == -signal.SIGKILL
        made.forget(worker)

        made.drain()

        assert promises <= {fault[:2] for fault in made.broken()}
