"""The first ten minutes of the README work at any hour of the day, with and without a running service."""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.product_processes import installation
from tests.support.real_servers import free_port
from tests.support.waiting import current_time
from tests.test_docs import examples

README = (ROOT / "README.md").read_text(encoding="utf-8")

#: Loaded by every process we start: its clock goes before the machine's.
SHIFT = """
import datetime as real, os

class Kind(type(real.datetime)):
    def __instancecheck__(cls, value):
        return isinstance(value, Plain)

Plain, AHEAD = real.datetime, real.timedelta(seconds=float(os.environ["SHIFTED_BY"]))

class Shifted(Plain, metaclass=Kind):
    def __new__(cls, *given, **named):
        return Plain(*given, **named)

    @classmethod
    def now(cls, tz=None):
        return Plain.now(tz) + AHEAD

real.datetime = Shifted
"""


@contextmanager
def checkout(folder: Path, hour: str) -> Iterator[Mapping[str, str]]:
    """A fresh checkout in which `digest` is a command and it is that hour; yields the environment."""
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    (folder / "digest-data" / "dumps").mkdir(parents=True, exist_ok=True)  # made by `make run`
    (folder / "bin").mkdir()
    command = folder / "bin" / "digest"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m digest "$@"\n')
    command.chmod(0o755)
    (folder / "clock").mkdir()
    (folder / "clock" / "sitecustomize.py").write_text(SHIFT)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DIGEST_")}
    yield inherited | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": f"{folder / 'clock'}:{ROOT}",
        "SHIFTED_BY": str(seconds_until(hour)), "COLUMNS": "120",
    }  # fmt: skip


def seconds_until(hour: str) -> float:
    """The seconds from now until it is that hour again, in UTC."""
    now = current_time()
    then = datetime.combine(now.date(), time.fromisoformat(hour), UTC)
    return ((then - now) % timedelta(days=1)).total_seconds()


def follow(folder: Path, environment: Mapping[str, str]) -> None:
    """Run every line, and compare its output with the README."""
    checker = doctest.OutputChecker()
    for command, wanted in examples(README):
        ran = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"$ {command}\n{ran.stdout}"
        assert checker.check_output(wanted, ran.stdout, doctest.ELLIPSIS), f"$ {command}\n{ran.stdout}"


@pytest.mark.parametrize(
    "hour", ["08:02", *(pytest.param(hour, marks=pytest.mark.whole) for hour in ("00:05", "23:40"))]
)
def test_every_command_of_the_readme_works_at_any_hour(tmp_path: Path, hour: str) -> None:
    with checkout(tmp_path, hour) as environment:
        follow(tmp_path, environment)


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("hour", ["03:00", "09:30"])
def test_every_command_of_the_readme_works_while_the_service_runs(tmp_path: Path, hour: str) -> None:
    data = tmp_path / "digest-data"
    with checkout(tmp_path, hour) as environment, installation(data, cwd=tmp_path) as ours:
        ours.settings = {"LISTEN": f"127.0.0.1:{free_port()}"}
        ours.inherited = environment
        ours.start("up")
        ours.wait_until("everything to be up", lambda: "Digest is up" in ours.logs())

        follow(tmp_path, environment)

        assert ours.stop() == [0]
