"""After Ctrl-C, one sentence reports what was done and what was not, and the exit code is 130."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from digest import __main__
from digest.process import gc_control
from tests.cli.conftest import Digest
from tests.conftest import ROOT
from tests.support.waiting import HANG_SECONDS, current_time, pause, wait_until

heed_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)


def pressed(
    *arguments: str | Path,
    after: float = 0.0,
    reads: Path | None = None,
    until: Callable[[], bool] = lambda: True,
) -> tuple[int, str]:
    """Run a command, press Ctrl-C when it reads from a pipe or a condition holds.

    Return its exit code and stderr.
    """
    running = subprocess.Popen(
        [sys.executable, "-m", "digest", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - a shell's background job ignores Ctrl-C
    )  # fmt: skip
    with ExitStack() as stack:
        if reads is not None:
            pipe = stack.enter_context(reads.open("w"))  # returns once the command has opened it, too
            pipe.write("email,state\nreader@example.org,active\n")
            pipe.flush()
        wait_until("the moment for Ctrl-C", until)
        pause(after, "the command is at work")
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=HANG_SECONDS)
    return running.returncode, stderr


@pytest.mark.parametrize(
    "after",
    [0.12, 0.3, *(pytest.param(after, marks=pytest.mark.whole) for after in (0.06, 0.2, 0.45, 0.7, 1.0))],
)
def test_ctrl_c_in_the_first_second_gives_no_traceback(after: float) -> None:
    code, stderr = pressed("status", after=after)

    if "Traceback" in stderr and "/digest/" not in stderr:
        pytest.skip("Python itself was not up yet")
    assert "Traceback" not in stderr
    assert code in {0, 130, -signal.SIGINT}


def test_ctrl_c_while_a_class_is_created_gives_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Attribute:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def create_class() -> int:
        type("Owner", (), {"attribute": Attribute()})
        return 0

    for name in ("pause_during_imports", "skip_final_collection"):
        monkeypatch.setattr(gc_control, name, lambda: None)
    monkeypatch.setattr("digest.cli.main", create_class)

    assert __main__.main() == 130
    assert capsys.readouterr().err == "digest: Stopped.\n"


def test_a_stopped_import_imports_nobody(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    os.mkfifo(tmp_path / "people.csv")

    code, stderr = pressed(
        "subscribers",
        "import",
        tmp_path / "people.csv",
        "--consent",
        "x",
        reads=tmp_path / "people.csv",
        after=0.5,
    )

    message = "digest: Stopped. Nothing was imported. Run the command again.\n"
    assert (code, stderr) == (130, message)
    assert digest("status", "--json").document["subscribers"]["active"] == 0


def test_a_stopped_import_says_what_was_added_and_continues_when_repeated(
    digest: Digest, tmp_path: Path
) -> None:
    digest("status")
    rows = [f"reader{number}@example.org,active" for number in range(24_000)]
    (tmp_path / "people.csv").write_text("\n".join(["email,state", *rows, ""]))

    code, stderr = pressed(
        "subscribers", "import", tmp_path / "people.csv", "--consent", "x", until=lambda: count(tmp_path) > 0
    )
    kept = count(tmp_path)
    again = digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x", "--json").document

    assert code == 130, stderr
    assert stderr.startswith("digest: Stopped. ")
    assert "run the command again: it skips rows that are already imported" in stderr
    assert 0 < kept < 24_000
    assert (again["unchanged"], again["added"]) == (kept, 24_000 - kept)


def count(place: Path) -> int:
    """Return the number of subscribers."""
    with closing(sqlite3.connect(place / "data" / "digest.sqlite3", timeout=HANG_SECONDS)) as database:
        return int(database.execute("SELECT count(*) FROM subscriber").fetchone()[0])


def test_a_stopped_intake_names_the_files_that_were_not_read(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    (tmp_path / "first.txt").write_text((ROOT / "docs" / "examples" / "today.txt").read_text())
    with (tmp_path / "second.jsonl").open("w") as file:
        for number in range(60_000):
            file.write(json.dumps({"title": f"Paper {number}", "abstract": f"It says {number}."}) + "\n")

    code, stderr = pressed(
        "intake", tmp_path / "first.txt", tmp_path / "second.jsonl", until=lambda: is_loaded(tmp_path)
    )

    assert code == 130, stderr
    assert "1 file was read; not finished: second.jsonl." in stderr


def test_a_stopped_run_keeps_what_was_read_and_the_next_run_reads_the_rest(
    digest: Digest, tmp_path: Path
) -> None:
    digest("status")
    folder = tmp_path / "data" / "dumps"
    folder.mkdir(exist_ok=True)
    (folder / "first.txt").write_text((ROOT / "docs" / "examples" / "today.txt").read_text())
    with (folder / "second.jsonl").open("w") as file:
        for number in range(60_000):
            file.write(json.dumps({"title": f"Paper {number}", "abstract": f"It says {number}."}) + "\n")
    for name, seconds in (("first.txt", 60), ("second.jsonl", 30)):
        os.utime(folder / name, (current_time().timestamp() - seconds,) * 2)

    code, stderr = pressed("run", until=lambda: is_loaded(tmp_path))

    assert code == 130, stderr
    assert "Those that were read completely are kept, and the next run reads the others." in stderr
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["second.jsonl"]


def is_loaded(place: Path) -> bool:
    """Return whether the first dump is in the catalog."""
    with closing(sqlite3.connect(place / "data" / "digest.sqlite3", timeout=HANG_SECONDS)) as database:
        (count,) = database.execute("SELECT count(*) FROM dump WHERE state = 'loaded'").fetchone()
        return bool(count)
