"""Check the design: Spin searches every state of a small model of delivery."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.judge.installed_programs import program

MODEL = Path(__file__).parent / "delivery_model" / "delivery.pml"
PAGE = ROOT / "docs" / "delivery.md"

#: Every state is searched. With WINDOW=2 both letters go out under one intent; without CRASHES it is SQLite.
BOUNDS = {
    "no fault": {"FAULTS": 0},
    "one fault": {"FAULTS": 1},
    "one fault, two letters in a window": {"FAULTS": 1, "WINDOW": 2},
    "two faults": {"FAULTS": 2},
    "two faults, two letters in a window": {"FAULTS": 2, "WINDOW": 2},
    "two faults on SQLite": {"FAULTS": 2, "CRASHES": 0},
}
LOST = "nothing lost"
COPIED = "no second copy without a counted doubt"
CALLED_SENT = "what is called sent was accepted"
DOUBTED = "no doubt without a cause"
#: Switches that break the design, and what they break. The first two are those of the chaos suite.
MUTANTS = {
    "MARK_FIRST": {LOST, CALLED_SENT},
    "NO_INTENT": {COPIED},
    "NO_DOUBT": {COPIED},
    "NO_FENCE": {COPIED},
    "SETTLE_WITHOUT_DISK": {DOUBTED},
    "CLAIMED_ONLY": {DOUBTED},
}
#: How the assertions of the properties begin in the checker's report.
ASSERTIONS = {"((((": LOST, "(copies[l]>0)": CALLED_SENT, "(copies[": COPIED, "db[": DOUBTED}


@dataclass(frozen=True, kw_only=True)
class Search:
    """The result of a search."""

    states: int
    depth: int
    seconds: float
    report: str

    @property
    def violated(self) -> str:
        """Return the first property that is violated, or nothing."""
        found = re.search(r"assertion violated (\S+)", self.report)
        return name_of(found[1]) if found else ""

    @property
    def is_clean(self) -> bool:
        """Return whether the whole search found no error."""
        return "errors: 0" in self.report and "Search not completed" not in self.report


def name_of(assertion: str) -> str:
    """Return which property an assertion checks."""
    return next(name for start, name in ASSERTIONS.items() if assertion.startswith(start))


def search(folder: Path, switches: Mapping[str, Any], *, finds_cycles: bool = False) -> Search:
    """Compile the model with these switches and search all of it, for errors or for cycles."""
    spin, compiler = program("spin", package="spin"), program("gcc", package="gcc")
    defined = [f"-D{name}={value}" for name, value in switches.items()]
    kind = "-DNP" if finds_cycles else "-DSAFETY"
    run(folder, spin, "-a", *defined, str(MODEL))
    fixed = ["-w", kind, "-DNOREDUCE", "-DNOFAIR", "-DCOLLAPSE", "-DVECTORSZ=2048", "-opan", "pan.c"]
    optimised = ["-O1"] if switches["FAULTS"] > 1 else []  # it compiles for ten seconds
    run(folder, compiler, *optimised, *fixed)
    report = run(folder, "./pan", "-m400000", "-w24", *(["-l"] if finds_cycles else []))
    states, depth = re.search(r"(\d+) states, stored", report), re.search(r"depth reached (\d+)", report)
    took = re.search(r"elapsed time (\S+) seconds", report)
    assert states, report
    assert depth, report
    assert took, report
    return Search(states=int(states[1]), depth=int(depth[1]), seconds=float(took[1]), report=report)


def run(folder: Path, *command: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def report_figures(title: str, found: Search) -> None:
    """Print the figures that docs/delivery.md quotes."""
    print(f"{title}: {found.states} states, depth {found.depth}, {found.seconds} s {found.violated}")


@pytest.mark.parametrize("name", BOUNDS)
def test_every_state_keeps_the_promises(name: str, tmp_path: Path) -> None:
    found = search(tmp_path, BOUNDS[name])

    report_figures(name, found)
    assert found.is_clean, found.report


def test_no_worker_loops_forever(is_full: bool, tmp_path: Path) -> None:
    found = search(tmp_path, {"FAULTS": 2 if is_full else 1}, finds_cycles=True)

    report_figures("cycles", found)
    assert found.is_clean, found.report


@pytest.mark.parametrize("mutant", MUTANTS)
def test_broken_design_is_caught(mutant: str, is_full: bool, tmp_path: Path) -> None:
    if not is_full:
        pytest.skip("checks the model itself: JUDGE=full make judge")
    found = search(tmp_path, {"FAULTS": 1, mutant: 1})
    report_figures(mutant, found)
    caught = {found.violated}
    if found.violated == CALLED_SENT:  # what else it breaks
        again = search(tmp_path, {"FAULTS": 1, mutant: 1, "CALLED_SENT_UNCHECKED": 1})
        report_figures(f"{mutant}, without that check", again)
        caught.add(again.violated)

    assert caught == MUTANTS[mutant]
