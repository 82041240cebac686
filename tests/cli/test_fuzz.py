"""Any input gives a result, or one sentence and an exit code; never a traceback."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from digest.cli import main
from tests.cli.conftest import every_command
from tests.conftest import ROOT
from tests.support.waiting import HANG_SECONDS

SEED = 20261122
RUNS = 8 * hypothesis.settings().max_examples  #: 200 in `make test`
ENDS = {0, 1, 2, 130}
LONG_RUNNING = {
    "up",
    "web",
    "worker",
    "scheduler",
    "inbound",
}  #: these run until they are stopped: see `call`

NUMBERS = ["0", "-1", "1", "3", "²", "nan", "1e999", "0x10", f"{2**31}", f"{2**63}", f"{10**40}", "9" * 5_000]
TIMES = [
    "2026-11-20", "2026-11-20T08:00Z", "0001-01-01", "9999-12-31", "9999-12-31T23:59:59Z", "1900-01-01T00:00+14:00",
    "2999-12-31T23:59:59-12:00", "2026-W47", "08:00", "24:00", "8", "Europe/Oslo", "../UTC", "weekly-", "monthly",
]  # fmt: skip
TEXTS = [
    "", " ", "-", "--", "-x", "=", "a", "é", "\u202e", "😀", "\ufffe", "\r\nBcc: x@example.org", "a" * 10_000, "\udcff",
    "'; DROP TABLE delivery; --", "%s%n{}", "../..", "*", '"', "{}", "[1]", "null", "\x1b[2J",
]  # fmt: skip
ADDRESSES = [
    "@",
    "a@b",
    "ada@example.org",
    "é@é.example",
    "a@" + "b" * 300,
    "ada@[127.0.0.1]",
    '"a b"@example.org',
]
FILTERS = [
    "diffusion", "Vision=diffusion OR image*", "NAME=", "=x", "ti:(", "(" * 2_000, "a OR " * 2_000 + "a", "NOT " * 3_000 + "a",
    "use:lab/nlp", "upvotes:>=" + "9" * 400, "cited:..", "date:9999-12-31..", "a*" * 500, "10.1234/" * 100, "arxiv:cs.CL",
]  # fmt: skip
URLS = [
    "http://[", "http://[::1", "http://127.0.0.1:99999", "https://127.0.0.1:1/x", "sqlite:///", "sqlite:////dev/null/x", "mysql://x",
    "postgresql://x:y@127.0.0.1:1/z", "redis://[::1", "redis://127.0.0.1:port", "smtp://127.0.0.1:1", "smtp://", "nonsense",
]  # fmt: skip
PLACES = [
    "there", "there/below", "missing", "missing/below", "folder", "bytes", "x" * 300, "/dev/null", "/dev/full",
    "/dev/null/x", ".", "a\nb",
]  # fmt: skip
HOSTILE = [*NUMBERS, *TIMES, *TEXTS, *ADDRESSES, *FILTERS, *URLS, *PLACES]
SETTINGS = [
    "DATABASE_URL", "BROKER_URL", "MAIL_URL", "BASE_URL", "SENDER", "DATA_DIR", "DUMPS_DIR", "RATES", "SEND_HOURS",
    "WARM_UP", "CANARY", "STOP_AT", "TIMEZONE", "LISTEN", "PROXIES", "SIGNUP", "INBOUND", "SECRET_KEY", "DKIM_KEYS",
    "FOOTER_LINKS", "PUBLIC", "KEEP", "LOG_FORMAT", "WINDOW",
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with a few files, a subscriber and some papers."""
    (tmp_path / "there").write_text("Title: A paper\nAbstract: About nothing at all.\n")
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "folder").mkdir()
    assert main(["intake", str(ROOT / "docs" / "examples" / "today.txt")]) == 0
    added = ["subscribers", "add", "ada@example.org", "--topic", "Vision=diffusion"]
    assert main([*added, "--confirmed", "--consent", "a test"]) == 0
    shutil.copytree(tmp_path / "data", tmp_path / "kept")
    return tmp_path


def call(chance: random.Random, path: tuple[str, ...], params: list[Any]) -> list[str]:
    """Return a command with hostile values for some parameters, and an unknown option if it would not end."""
    words = [*path]
    for param in params:
        value = chance.choice(HOSTILE)
        if param.param_type_name == "argument":
            words += [value] if chance.random() < 0.95 else []
        elif chance.random() < (0.9 if param.required else 0.3):
            words += [chance.choice(param.opts), *([] if param.is_flag else [value])]
    runs_until_stopped = path[0] in LONG_RUNNING or "--watch" in words
    return [*words, "--no-such-option"] if runs_until_stopped else words


def calls(count: int) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield settings and arguments, the same in every run."""
    chance = random.Random(SEED)
    known = [(tuple(words.split()), found.params) for words, found in every_command().items()]
    for number in range(count):
        path, params = known[number % len(known)]
        settings = {}
        if chance.random() < 0.15:
            settings[f"DIGEST_{chance.choice(SETTINGS)}"] = chance.choice(HOSTILE)
        before = ["--data-dir", chance.choice(PLACES)] if chance.random() < 0.03 else []
        yield settings, [*before, *call(chance, path, params)]


@pytest.mark.timeout(1_800)
@pytest.mark.filterwarnings("default")
def test_no_input_makes_a_command_end_in_a_traceback(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = []
    for settings, arguments in calls(RUNS):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.StringIO(""))
            patched.setenv("DIGEST_DATA_DIR", str(place / "data"))
            for name, value in settings.items():
                patched.setenv(name, value)
            try:
                code = main(arguments)
            except BaseException:  # noqa: BLE001  (all of them are listed)
                failures.append(f"{settings} {shown(arguments)}\n{traceback.format_exc()[-1500:]}")
                code = 0
        output = capsys.readouterr()
        if code not in ENDS or "Traceback" in output.err:
            failures.append(f"{settings} {shown(arguments)} gave {code}\n{output.err[-1500:]}")
        if code:  # restored now and then, so that there are always subscribers and papers
            shutil.rmtree(place / "data", ignore_errors=True)
            shutil.copytree(place / "kept", place / "data")
    assert not failures, f"{len(failures)} of {RUNS}:\n\n" + "\n".join(failures[:20])


def shown(arguments: list[str]) -> str:
    """Return the arguments as they can be read in a report."""
    return ascii([word if len(word) < 80 else f"{word[:20]}...({len(word)})" for word in arguments])


#: Command lines of bytes that are not UTF-8, and files that are devices or directories.
REFUSED = [
    [b"subscribers", b"resume", b"\xff"],
    [b"intake", b"\xff\xfe"],
    [b"--data-dir", b"\xff", b"status"],
    [b"subscribers", b"import", b"/dev/full", b"--consent", b"x"],
    [b"db", b"copy", b"nonsense"],
    [b"db", b"copy", b"mysql://x"],
    [b"publish", b"--dry-run", b"--out", b"there"],
    [b"status", b"--now", b"9999-12-31T23:59:59Z"],
    [b"--data-dir", b"there", b"status"],
]
IN_PROCESSES = 3  #: how many of them run in a process of their own, whose output has an encoding


def test_a_command_line_that_is_refused_gets_one_sentence_and_a_code(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, arguments in enumerate(REFUSED):
        if number < IN_PROCESSES:
            ran = subprocess.run(
                [sys.executable.encode(), b"-m", b"digest", *arguments],
                cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False, timeout=HANG_SECONDS,
            )  # fmt: skip
            code, error = ran.returncode, ran.stderr.decode()
        else:
            capsys.readouterr()
            code, error = main([os.fsdecode(word) for word in arguments]), capsys.readouterr().err

        assert code in {1, 2}, arguments
        assert "Traceback" not in error, arguments
        assert error.startswith("digest: ") or "not loaded" in error, arguments
        assert len(error.splitlines()) == 1, arguments
