"""Whatever dies at whatever instant: nothing is lost, nothing comes twice unless it was counted as in doubt.

The short runs are part of every test run; `make chaos` plays everything on both databases, for longer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos import errands
from tests.chaos.cases import BOTH, CASES, FAILPOINTS, MUTANTS, Case, Unavailable, caught, ground
from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEED, SECONDS = 7, 3
SHORT = [(case, kind) for case in CASES for kind in case.short]


def test_every_failpoint_in_the_code_is_tried() -> None:
    sources = (path.read_text() for path in Path(ROOT, "digest").rglob("*.py"))

    named = {name for source in sources for name in re.findall(r'failpoints\.reach\("([a-z-]+)"\)', source)}

    assert named == {*FAILPOINTS, *errands.FAILPOINTS}


@pytest.mark.parametrize(
    ("case", "kind"), [pytest.param(case, kind, id=f"{case.says} ({kind})") for case, kind in SHORT]
)
def test_every_promise_is_kept_through(case: Case, kind: str, postgres_server: str) -> None:
    try:
        with ground(kind, needs=case.needs, server=postgres_server) as found:
            result = case.run(found, SEED, SECONDS)
    except Unavailable as reason:
        pytest.skip(str(reason))
    print(result)
    hit = re.match(r"(\d+) of (\d+)", result.told)
    assert hit is None or hit[1] == hit[2]
    assert result.broken == []


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in MUTANTS for kind in MUTANTS[name].on])
def test_a_broken_design_is_caught(name: str, kind: str, postgres_server: str) -> None:
    with ground(kind, server=postgres_server) as found:
        assert caught(found, name) >= MUTANTS[name].breaks


@pytest.mark.parametrize("kind", BOTH)
def test_the_design_as_it_is_bears_what_catches_the_broken_ones(kind: str, postgres_server: str) -> None:
    with ground(kind, server=postgres_server) as found:
        assert caught(found, "") == set()


def test_the_docs_tell_of_every_misfortune() -> None:
    told = Path(ROOT, "docs", "delivery.md").read_text()

    rows = [case.says for case in CASES] + [mutant.says for mutant in MUTANTS.values()]
    assert [row for row in rows if f"| {row} |" not in told] == []
