"""No letter is lost, and a letter arrives twice only if it was counted as in doubt, whatever fails at any time.

Every test run includes the short runs, except those that start servers, which `.ci/run` adds; `make chaos` runs
every case on both databases, for longer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos import crash_points
from tests.chaos.failures import BOTH, CASES, FAILPOINTS, MUTANTS, FailureCase, Unavailable, caught, ground
from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.postgresql]

SEED, SECONDS = 7, 3
SHORT = [(case, kind) for case in CASES for kind in case.short]
LONG = [pytest.mark.whole, pytest.mark.promise]


def test_every_failpoint_in_the_code_is_tested() -> None:
    sources = (path.read_text() for path in Path(ROOT, "digest").rglob("*.py"))

    named = {name for source in sources for name in re.findall(r'failpoints\.reach\("([a-z-]+)"\)', source)}

    assert named == {*FAILPOINTS, *crash_points.FAILPOINTS}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{case.title} ({kind})", marks=LONG if case.starts_servers else ())
        for case, kind in SHORT
    ],
)
def test_every_promise_is_kept(case: FailureCase, kind: str, postgres_server: str) -> None:
    try:
        with ground(kind, needs=case.needs, server=postgres_server) as found:
            result = case.run(found, SEED, SECONDS)
    except Unavailable as reason:
        pytest.skip(str(reason))
    print(result)
    hit = re.match(r"(\d+) of (\d+)", result.summary)
    assert hit is None or hit[1] == hit[2]
    assert result.broken == []


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in MUTANTS for kind in MUTANTS[name].on])
def test_broken_design_is_caught(name: str, kind: str, postgres_server: str) -> None:
    with ground(kind, server=postgres_server) as found:
        assert caught(found, name) >= MUTANTS[name].breaks


@pytest.mark.parametrize("kind", BOTH)
def test_real_design_passes_the_tests_of_the_broken_ones(kind: str, postgres_server: str) -> None:
    with ground(kind, server=postgres_server) as found:
        assert caught(found, "") == set()


def test_docs_list_every_case() -> None:
    page = Path(ROOT, "docs", "delivery.md").read_text()

    rows = [case.title for case in CASES] + [mutant.title for mutant in MUTANTS.values()]
    assert [row for row in rows if f"| {row} |" not in page] == []
