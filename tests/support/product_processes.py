"""Start the product's processes as an operator does, and check that none is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import HANG_SECONDS, wait_until

ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class Installation:
    """One data directory, its settings, and the `digest` command that uses it."""

    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)  #: without the prefix DIGEST_
    command: Sequence[str] = (sys.executable, "-m", "digest")
    cwd: Path = ROOT
    python_path: Path | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: os.environ)
    roles: Sequence[Sequence[str]] = (("up",),)  #: the options of `digest up`
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def dumps(self) -> Path:
        """Return the folder that is watched for dumps."""
        return self.data_dir / "dumps"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a started process, without the caller's own settings."""
        inherited = {name: value for name, value in self.inherited.items() if not name.startswith("DIGEST_")}
        ours = {"DATA_DIR": str(self.data_dir), **self.settings}
        path = {"PYTHONPATH": str(self.python_path)} if self.python_path else {}
        return inherited | path | {f"DIGEST_{name}": value for name, value in ours.items()}

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command until it ends."""
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, cwd=self.cwd, capture_output=True, text=True,
            timeout=HANG_SECONDS, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"digest {' '.join(arguments)} gave {done.returncode}:\n{done.stderr}")
        return done

    def json(self, *arguments: str) -> Any:
        """Run one command with --json and return its one document."""
        return json.loads(self.run(*arguments, "--json").stdout)

    def lines(self, *arguments: str) -> list[Any]:
        """Run one command with --json and return its JSON Lines."""
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]

    def open(self) -> None:
        """Start the whole service."""
        for role in self.roles:
            self.start(*role)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a long-running role in its own process group, as a terminal does."""
        log = self.data_dir.parent / f"{self.data_dir.name}-{'-'.join(arguments)}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.command, *arguments],
                env=self.environment, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> list[int]:
        """Send every role a signal, by default that of Ctrl-C; wait until all end, and return the exit codes."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, how)
        codes = [process.wait(timeout=HANG_SECONDS) for process in self.started]
        self.started.clear()
        return codes

    def wait_until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; raise AssertionError at once if a role ends meanwhile."""

        def standing() -> object:
            ended = [process.args for process in self.started if process.poll() is not None]
            if ended:
                raise AssertionError(f"{ended} ended while we waited for: {what}")
            return condition()

        wait_until(what, standing)

    def logs(self) -> str:
        """Return the output of all roles."""
        found = sorted(self.data_dir.parent.glob(f"{self.data_dir.name}-*.log"))
        return "\n".join(f"── {log.name}\n{log.read_text(errors='replace')}" for log in found)

    def processes(self) -> list[str]:
        """Return the command lines of all processes that use this data directory (Linux only)."""
        mark = f"DIGEST_DATA_DIR={self.data_dir}".encode()
        return [command for command, environment in all_processes() if mark in environment.split(b"\0")]


@contextmanager
def installation(data_dir: Path, **details: Any) -> Iterator[Installation]:
    """Yield an installation, and end all of its processes afterwards."""
    data_dir.mkdir(parents=True, exist_ok=True)
    ours = Installation(data_dir=data_dir, **details)
    try:
        yield ours
    except BaseException:
        print(ours.logs()[-8000:])
        raise
    finally:
        for process in ours.started:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a role that a failed test left running, with its child processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def all_processes() -> Iterator[tuple[str, bytes]]:
    """Yield (command line, environment) of every process that may be inspected."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield command, (folder / "environ").read_bytes()
        except OSError:  # it has ended, or belongs to another user
            continue
