"""A pytest plugin that records which test runs which line, and runs chosen tests in a chosen order.

It is loaded into the tests of any checkout by its name alone, so it imports nothing of this one. Coverage runs in
every process because of COVERAGE_PROCESS_START; a child process of a test finds that test's name in the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

CONTEXT = "REACHED_BY"  #: the variable with the name of the running test or fixture
records: dict[str, dict[str, Any]] = {}  #: by test


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reached-tests", type=Path, help="a file with the ids of the only tests to run, in order"
    )
    parser.addoption("--test-records", type=Path, help="the folder in which each process records its tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen: Path | None = config.getoption("--reached-tests")
    if chosen is not None:
        places = {name: place for place, name in enumerate(chosen.read_text().splitlines())}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in places])
        items[:] = sorted(
            (item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid]
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    records[item.nodeid] = {"fixtures": getattr(item, "fixturenames", []), "seconds": 0.0, "passed": True}
    switch(item.nodeid)
    result = yield
    switch("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.nodeid in records:  # else another process ran it
        records[report.nodeid]["seconds"] += report.duration
        records[report.nodeid]["passed"] &= report.outcome != "failed"


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Attribute what a shared fixture runs to the fixture, since all tests that use it reach those lines."""
    test = os.environ[CONTEXT]
    if fixturedef.scope != "function":
        switch(f"fixture {fixturedef.argname}")
    try:
        return (yield)
    finally:
        switch(test)


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder: Path | None = session.config.getoption("--test-records")
    if folder is not None and records:
        (folder / f"tests-{os.getpid()}.json").write_text(json.dumps(records))


def switch(context: str) -> None:
    """Attribute what runs from now on, here and in new child processes, to a test or a fixture."""
    os.environ[CONTEXT] = context
    if (current := coverage.Coverage.current()) is not None:
        current.switch_context(context)
