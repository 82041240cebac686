"""Provide the command line, run in this process on a fresh data directory with a real SQLite file."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from digest import cli
from digest.cli import main

#: Build each command once per process: building them takes a quarter of the time of these tests.
build_command = cli.command
cli.command = cache(build_command)

FRIDAY = "2026-11-20T08:30:00+00:00"
EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "today.txt"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Digest = Callable[..., Ran]


def every_command(group: Any = None, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return every command, keyed by its words; `deliveries` is a command and a group."""
    group = group or cli.command()
    names = group.list_commands(None)  # builds those of the root
    found = {" ".join(words): group} if group.invoke_without_command else {}
    for name in names:
        below = group.commands[name]
        is_group = hasattr(below, "commands")
        found |= every_command(below, (*words, name)) if is_group else {" ".join((*words, name)): below}
    return found


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Remove this machine's settings, use a fresh working directory, and restore logging."""
    for name in os.environ:
        if name.startswith("DIGEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def digest(capsys: pytest.CaptureFixture[str]) -> Digest:
    """Run a command as a shell would, and return its code and output."""

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Three invented papers."""
    return Path(shutil.copy(EXAMPLE, tmp_path / "today.txt"))


@pytest.fixture
def schema(migrated_sqlite: Path, tmp_path: Path) -> None:
    """A data directory with an empty database, as the first command makes it."""
    (tmp_path / "data").mkdir(mode=0o700)
    database = Path(shutil.copyfile(migrated_sqlite, tmp_path / "data" / "digest.sqlite3"))
    database.chmod(0o600)


@pytest.fixture
def catalog(schema: None, digest: Digest, dump: Path) -> None:
    """Three papers, read on a Friday morning."""
    assert digest("intake", dump, "--date", "2026-11-20", "--now", FRIDAY).code == 0


@pytest.fixture
def ada(schema: None, digest: Digest) -> str:
    """An active subscriber with one topic."""
    added = digest(
        "subscribers", "add", "ada@example.org", "--topic", "Pictures=diffusion OR image*",
        "--confirmed", "--consent", "asked in the seminar", "--now", "2026-11-20T07:00:00Z",
    )  # fmt: skip
    assert added.code == 0
    return "ada@example.org"
