"""Two machines share a database and a broker, and each has its own dumps folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from digest.dumps.intake import dumps_folder, load_dump
from digest.monitoring import problems
from tests.dumps import abstract, pairs
from tests.support.product_processes import Installation, installation
from tests.support.waiting import current_time, wait_until

pytestmark = pytest.mark.postgresql

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
DUMP = pairs(("Tidal Sorting of Loose Gravel", abstract("gravel")))


@pytest.fixture
def machines(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> Iterator[tuple[Installation, Installation]]:
    """Two data directories that share keys, database and broker."""
    shared = {
        "DATABASE_URL": postgres_url, "BROKER_URL": redis_url, "MAIL_URL": f"eml://{tmp_path}/mail",
        "SECRET_KEY": "shared by both", "PEPPER": "shared by both",
    }  # fmt: skip
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(installation(tmp_path / name / "data", settings=shared))
            for name in ("one", "two")
        )  # type: ignore[misc]


def drop(machine: Installation, name: str) -> Path:
    machine.dumps.mkdir(exist_ok=True)
    path = machine.dumps / name
    (machine.dumps / f"{name}.part").write_text(DUMP)
    (machine.dumps / f"{name}.part").rename(path)
    return path


@pytest.mark.whole
@pytest.mark.promise
@pytest.mark.slow
def test_a_dump_is_read_on_the_machine_that_has_it_while_the_workers_run_on_another(
    machines: tuple[Installation, Installation],
) -> None:
    first, second = machines
    first.run("status")  # makes the schema
    second.dumps.mkdir()
    second.start("worker")
    first.start("scheduler")
    second.wait_until("a worker on the second machine", lambda: "worker" in roles(second))

    path = drop(first, "monday.txt")

    first.wait_until("the dump to be read", lambda: not path.exists())
    wait_until("it to be in the catalog", lambda: first.json("status")["catalog"]["papers"] == 1)
    assert (first.dumps / "done" / "monday.txt").exists()
    assert first.stop() == [0]
    assert second.stop() == [0]
    assert first.processes() == second.processes() == []


@pytest.mark.whole
@pytest.mark.promise
@pytest.mark.slow
def test_a_dump_on_a_machine_without_a_scheduler_is_reported_by_every_machine(
    machines: tuple[Installation, Installation],
) -> None:
    first, second = machines
    first.run("status")
    path = drop(second, "monday.txt")
    hurried = [sys.executable, "-m", "tests.support.short_waits"]
    first.command = second.command = hurried
    second.start("worker")
    first.start("scheduler")
    first.command = (sys.executable, "-m", "digest")

    first.wait_until(
        "status to name it", lambda: str(path) in first.run("status", "--json", check=False).stdout
    )

    assert path.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "dumps"
    path.mkdir()
    return path


def roles(machine: Installation) -> set[str]:
    reported = machine.run("status", "--json", check=False)  # it exits with 1 until every role has reported
    return {beat["role"] for beat in json.loads(reported.stdout)["heartbeats"]}


def test_a_complete_file_unread_for_five_minutes_is_a_problem(session: Session, folder: Path) -> None:
    now = current_time()
    (folder / "monday.txt").write_text(DUMP)
    (folder / "tuesday.txt.part").write_text(DUMP)
    os.utime(folder / "monday.txt", (0, 0))  # it was written long ago, and moved here just now

    def found(after: timedelta) -> list[str]:
        dumps_folder.report_unread(session, folder, now=now + after)
        return [problem.message for problem in problems.find_problems(session, now=now + after)]

    assert found(timedelta(minutes=4)) == []
    assert found(timedelta(minutes=6)) == ["A dump has not been read"]
    dumps_folder.load_folder(session, folder, now=now, settle_seconds=0)
    assert found(timedelta(minutes=7)) == []


def test_a_dump_that_is_being_loaded_is_not_unread(session: Session, folder: Path) -> None:
    now = current_time() + timedelta(minutes=6)
    path = folder / "monday.txt"
    path.write_text(DUMP)
    load_dump.load(session, path, now=now)
    session.connection().exec_driver_sql("UPDATE dump SET state = 'loading'")
    session.commit()

    dumps_folder.report_unread(session, folder, now=now)
    assert problems.find_problems(session, now=now) == []

    dumps_folder.report_unread(session, folder, now=now + timedelta(hours=2))
    assert [problem.cause for problem in problems.find_problems(session, now=now + timedelta(hours=2))] == [
        "unread-dumps"
    ]
