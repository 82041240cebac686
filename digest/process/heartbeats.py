"""Record the heartbeats of processes, and find processes that have died.

A process that stops cleanly removes its row. If a row has no recent heartbeat, or its process is gone from this
machine, the process has died. A
process of the same role that starts later, on any machine, replaces the dead process. A dead process that is
not replaced is reported for a day.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread

from sqlalchemy import Engine, and_, delete, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.service_state import Heartbeat
from digest.errors import DigestError

log = logging.getLogger(__name__)

BEAT_SECONDS = 20.0  #: time between two heartbeats of a process
SILENT_AFTER = timedelta(seconds=100)  #: a process without a heartbeat for this long is considered dead
FORGOTTEN_AFTER = timedelta(days=1)  #: how long after its last heartbeat a dead process is reported
QUEUE_ROLE = "queue"  #: the role of the row that records when a task last reached a worker
RUN_ROLE = "run"  #: the role of the row that records when `digest run` last ran
MAIN_NAMESPACE = "pid:[4026531836]"  #: the namespace in which Linux itself numbers processes

# Workers fork, and a child must not inherit locks that are held while a heartbeat is written.
FORK_LOCK = Lock()
os.register_at_fork(
    before=FORK_LOCK.acquire, after_in_parent=FORK_LOCK.release, after_in_child=FORK_LOCK.release
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRecord:
    """The recorded heartbeat of a process."""

    role: str
    host: str
    pid: int
    at: datetime
    started_at: datetime
    is_gone: bool = False  #: whether this machine has no such process any more
    is_here: bool = False  #: whether this machine has it

    def is_dead(self, now: datetime) -> bool:
        """Return whether the process has died; a process that stopped cleanly has no row."""
        return self.is_gone or now - self.at > SILENT_AFTER

    def is_hung(self, now: datetime) -> bool:
        """Return whether the process exists and does nothing, such as after SIGSTOP."""
        return self.is_here and now - self.at > SILENT_AFTER


# ── decisions ───────────────────────────────────────────────────────────────────────────────────


def missing_processes(processes: Sequence[ProcessRecord], now: datetime) -> list[ProcessRecord]:
    """Return those of the `processes`, all of one role, that died within the last day and were not replaced.

    A process replaces at most one process, which must have died before the new process started.
    """
    starts = sorted(process.started_at for process in processes)
    missing = []
    for process in sorted(processes, key=lambda one: one.at, reverse=True):
        if not process.is_dead(now):
            continue
        if starts and starts[-1] > process.at:
            starts.pop()
        elif now - process.at <= FORGOTTEN_AFTER:
            missing.append(process)
    return missing[::-1]


def without_replaced(processes: Sequence[ProcessRecord], now: datetime) -> list[ProcessRecord]:
    """Return the live processes, and the dead ones that were not replaced."""
    roles = {process.role for process in processes}
    missing = [
        one for role in roles for one in missing_processes([p for p in processes if p.role == role], now)
    ]
    return [process for process in processes if not process.is_dead(now) or process in missing]


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def record_heartbeat(
    session: Session, role: str, now: datetime, *, started_at: datetime | None = None
) -> None:
    """Record this process's heartbeat, and delete rows of its role without a heartbeat for a day."""
    row = {
        "role": role,
        "host": machine_name(),
        "pid": os.getpid(),
        "at": now,
        "started_at": started_at or now,
    }
    write_heartbeat(session, row, changed={"at": now} | ({"started_at": started_at} if started_at else {}))
    session.execute(delete(Heartbeat).where(Heartbeat.role == role, Heartbeat.at < now - FORGOTTEN_AFTER))


def record_queue_heartbeat(session: Session, now: datetime) -> None:
    """Record that a task reached a worker through the broker."""
    record_event(session, QUEUE_ROLE, now)


def record_run(session: Session, now: datetime) -> None:
    """Record that `digest run` did all due work."""
    record_event(session, RUN_ROLE, now)


def record_event(session: Session, role: str, now: datetime) -> None:
    """Record when something last happened that is not the heartbeat of a process."""
    write_heartbeat(session, {"role": role, "host": "", "pid": 0, "at": now}, changed={"at": now})


def write_heartbeat(session: Session, row: Mapping[str, object], *, changed: Mapping[str, object]) -> None:
    """Insert or update the row of a process."""
    adding = db.upsert(session, Heartbeat).values(row)
    session.execute(adding.on_conflict_do_update(index_elements=["role", "host", "pid"], set_=changed))


def remove_heartbeat(session: Session, role: str, *, started_at: datetime) -> None:
    """Remove the row of this process when it stops cleanly.

    The processes of its role that died before it started are no longer reported, because it replaced them.
    """
    is_this_process = and_(Heartbeat.host == machine_name(), Heartbeat.pid == os.getpid())
    is_past = or_(is_this_process, Heartbeat.at < started_at)
    session.execute(delete(Heartbeat).where(Heartbeat.role == role, is_past))


def list_processes(session: Session) -> list[ProcessRecord]:
    """Return every recorded process, ordered by role and machine."""
    rows = session.scalars(
        select(Heartbeat)
        .where(Heartbeat.role.not_in((QUEUE_ROLE, RUN_ROLE)))
        .order_by(Heartbeat.role, Heartbeat.host, Heartbeat.pid)
    )
    here = machine_name()
    return [
        ProcessRecord(
            role=row.role, host=row.host, pid=row.pid, at=row.at, started_at=row.started_at or row.at,
            is_gone=row.host == here and not is_running(row.pid),
            is_here=row.host == here and is_of_role(row.pid, row.role),
        )
        for row in rows
    ]  # fmt: skip


def live_processes(session: Session, now: datetime) -> list[ProcessRecord]:
    """Return the processes with a recent heartbeat."""
    return [process for process in list_processes(session) if not process.is_dead(now)]


def dead_machines(session: Session, now: datetime) -> set[str]:
    """Return the machines whose workers have all died."""
    workers = [process for process in list_processes(session) if process.role == "worker"]
    alive = {process.host for process in workers if not process.is_dead(now)}
    return {process.host for process in workers} - alive


def has_scheduler(session: Session, now: datetime) -> bool:
    """Return whether a scheduler is running, or has died within the last day and should be replaced."""
    since = now - FORGOTTEN_AFTER
    return any(process.role == "scheduler" and process.at > since for process in list_processes(session))


def last_queue_heartbeat(session: Session) -> datetime | None:
    """Return when a task last reached a worker through the broker."""
    return session.scalar(select(Heartbeat.at).where(Heartbeat.role == QUEUE_ROLE))


def last_run(session: Session) -> datetime | None:
    """Return when `digest run` last did all due work."""
    return session.scalar(select(Heartbeat.at).where(Heartbeat.role == RUN_ROLE))


def machine_name() -> str:
    """Return the name of this machine, and of its namespace if its processes are numbered apart, as in a container."""
    with suppress(OSError):
        if (numbers := str(Path("/proc/self/ns/pid").readlink())) != MAIN_NAMESPACE:
            return f"{socket.gethostname()[:200]} {numbers}"
    return socket.gethostname()[:255]


# ── leases ──────────────────────────────────────────────────────────────────────────────────────


def new_lease() -> str:
    """Return a new fencing token, which names this process."""
    return f"{machine_key(machine_name())}-{os.getpid():x}-{token_hex(6)}"


def machine_key(host: str) -> str:
    """Return the short name of a machine in leases."""
    return sha256(host.encode()).hexdigest()[:8]


def is_lease_of_dead(lease: str, dead_machines: Collection[str]) -> bool:
    """Return whether the process that took a lease is dead: gone from this machine, or on a dead machine."""
    machine, *rest = lease.split("-")
    if machine == machine_key(machine_name()):
        return not is_running(int(rest[0], 16))
    return machine in {machine_key(host) for host in dead_machines}


def is_running(pid: int) -> bool:
    """Return whether this machine has a process with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_of_role(pid: int, role: str) -> bool:
    """Return whether this machine has a process with this number and a command that names the role."""
    try:
        return role.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


# ── while a process lives ───────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class HeartbeatThread:
    """A thread that records its process's heartbeat at intervals.

    Each heartbeat uses a new connection, so a worker's child processes inherit no connection.
    """

    role: str
    engine: Engine
    clock: Callable[[], datetime]
    stop_event: Event = field(default_factory=Event)
    thread: Thread | None = None
    is_broken: bool = False  #: whether the process ends because of an error, so that its row stays

    def start(self) -> None:
        """Start the thread."""
        self.thread = Thread(target=self.run, name="heartbeat", daemon=True)
        self.thread.start()

    def stop(self, *, is_broken: bool = False) -> None:
        """Stop the thread; do nothing if it was never started. After an error, the row reports the process as dead."""
        self.is_broken = is_broken
        self.stop_event.set()
        if self.thread is not None:
            self.thread.join(timeout=BEAT_SECONDS)

    def run(self) -> None:
        """Record heartbeats until stopped, then remove this process's row, unless an error ended the process."""
        started_at, is_fine = self.clock(), True
        while not self.stop_event.is_set():
            is_fine = self.try_write(
                lambda session: record_heartbeat(session, self.role, self.clock(), started_at=started_at),
                was_fine=is_fine,
            )
            self.stop_event.wait(BEAT_SECONDS)
        if not self.is_broken:
            self.try_write(
                lambda session: remove_heartbeat(session, self.role, started_at=started_at), was_fine=is_fine
            )

    def try_write(self, write: Callable[[Session], None], *, was_fine: bool) -> bool:
        """Call `write` with a session; return whether it succeeded. Logs only the first of several consecutive failures."""
        try:
            with FORK_LOCK, fresh_session(self.engine) as session:
                write(session)
        except (DigestError, SQLAlchemyError, OSError) as error:
            if was_fine:
                log.warning("heartbeat not recorded: %s", str(error).splitlines()[0])
            return False
        return True


@contextmanager
def fresh_session(engine: Engine) -> Iterator[Session]:
    """Open a session on a new connection to the same database, and close the connection afterwards."""
    fresh = db.make_engine(engine.url.render_as_string(hide_password=False))
    try:
        with db.write_session(fresh) as session:
            yield session
    finally:
        fresh.dispose()


@contextmanager
def heartbeat_while(role: str, engine: Engine, clock: Callable[[], datetime]) -> Iterator[None]:
    """Record heartbeats while the block runs, and remove the row at its end, unless the block raised an error."""
    heartbeat, is_broken = HeartbeatThread(role=role, engine=engine, clock=clock), False
    heartbeat.start()
    try:
        yield
    except Exception:
        is_broken = True
        raise
    finally:
        heartbeat.stop(is_broken=is_broken)
