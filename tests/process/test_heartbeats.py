"""A process that died is reported until another replaces it; a process that stopped cleanly is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from digest import db
from digest.monitoring import figures, problems
from digest.process import heartbeats
from digest.process.heartbeats import HeartbeatThread, ProcessRecord
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgresql

DEAD = heartbeats.SILENT_AFTER + timedelta(seconds=1)


def worker(now: datetime, pid: int, *, started: float, seen: float = 0.0) -> ProcessRecord:
    """A worker that started and was last seen so many minutes ago."""
    return ProcessRecord(
        role="worker",
        host="lab1",
        pid=pid,
        started_at=now - timedelta(minutes=started),
        at=now - timedelta(minutes=seen),
    )


def pids(found: list[ProcessRecord]) -> list[int]:
    return [process.pid for process in found]


def test_a_silent_process_is_missing_after_less_than_two_minutes(now: datetime) -> None:
    both = [worker(now, 1, started=60), worker(now, 2, started=60)]

    assert heartbeats.missing_processes(both, now) == []
    later = [worker(now, 1, started=60), worker(now, 2, started=60, seen=2)]
    assert pids(heartbeats.missing_processes(later, now)) == [2]
    assert timedelta(minutes=2) > heartbeats.SILENT_AFTER


def test_a_new_process_replaces_exactly_one_dead_process(now: datetime) -> None:
    dead = [worker(now, 1, started=90, seen=30), worker(now, 2, started=90, seen=20)]

    assert pids(heartbeats.missing_processes([*dead, worker(now, 3, started=10)], now)) == [1]
    assert pids(heartbeats.missing_processes([*dead, worker(now, 3, started=25)], now)) == [2]
    both = [*dead, worker(now, 3, started=25), worker(now, 4, started=10)]
    assert heartbeats.missing_processes(both, now) == []


def test_a_process_that_is_started_again_and_again_leaves_one_gap_at_most(now: datetime) -> None:
    dying = [worker(now, pid, started=60 - 5 * pid, seen=58 - 5 * pid) for pid in range(10)]

    assert pids(heartbeats.missing_processes(dying, now)) == [9]
    assert heartbeats.missing_processes([*dying, worker(now, 10, started=1)], now) == []


def test_status_leaves_out_dead_processes_that_were_replaced(now: datetime) -> None:
    dead, alive = worker(now, 1, started=90, seen=30), worker(now, 2, started=20)

    assert pids(heartbeats.without_replaced([dead], now)) == [1]
    assert pids(heartbeats.without_replaced([dead, alive], now)) == [2]


def test_a_clean_stop_also_removes_the_dead_process_that_was_replaced(
    session: Session, now: datetime
) -> None:
    put(session, "worker", now, started_at=now)
    started = now + timedelta(hours=1)
    heartbeats.record_heartbeat(session, "worker", started, started_at=started)
    heartbeats.remove_heartbeat(session, "worker", started_at=started)

    assert heartbeats.list_processes(session) == []


def test_a_process_that_nobody_replaces_is_forgotten_after_a_day(now: datetime) -> None:
    found = [worker(now, 1, started=5_000), worker(now, 2, started=5_000, seen=1_439)]
    assert pids(heartbeats.missing_processes(found, now)) == [2]
    found = [worker(now, 1, started=5_000), worker(now, 2, started=5_000, seen=1_441)]
    assert heartbeats.missing_processes(found, now) == []


def test_a_process_of_this_machine_is_dead_as_soon_as_it_is_gone(session: Session, now: datetime) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for host in (heartbeats.machine_name(), "lab2"):
        put(session, "worker", now, started_at=now, pid=gone.pid, host=host)

    dead = [one.host for one in heartbeats.list_processes(session) if one.is_dead(now)]
    assert dead == [heartbeats.machine_name()]
    assert causes(session)(now) == ["silent-scheduler"]  # a worker may be about to replace it


def test_a_heartbeat_thread_keeps_its_row_until_it_stops(engine: Engine, now: datetime) -> None:
    heart = HeartbeatThread(role="worker", engine=engine, clock=lambda: now)
    heart.start()

    def alive() -> list[int]:
        with db.read_session(engine) as session:
            return pids(heartbeats.list_processes(session))

    wait_until("a heartbeat", lambda: alive() == [os.getpid()])
    heart.stop()
    assert alive() == []


def test_a_process_that_starts_again_under_its_old_number_counts_from_then(
    session: Session, now: datetime
) -> None:
    def started_at(moment: datetime) -> datetime:
        heartbeats.record_heartbeat(session, "worker", moment, started_at=moment)
        (process,) = heartbeats.list_processes(session)
        return process.started_at

    assert started_at(now) == now
    assert started_at(now + timedelta(hours=1)) == now + timedelta(hours=1)


def put(
    session: Session, role: str, at: datetime, *, started_at: datetime, host: str = "lab2", pid: int = 7
) -> None:
    """Record a process of another machine."""
    row = {"role": role, "host": host, "pid": pid, "at": at, "started_at": started_at}
    heartbeats.write_heartbeat(session, row, changed=row)
    session.commit()


def causes(session: Session) -> Callable[[datetime], list[str]]:
    return lambda now: [trouble.cause for trouble in problems.find_problems(session, now=now)]


def test_a_worker_that_died_is_named_with_its_machine(session: Session, now: datetime) -> None:
    for role in ("scheduler", "worker"):
        heartbeats.record_heartbeat(session, role, now, started_at=now - timedelta(minutes=10))
    put(session, "worker", now - DEAD, started_at=now - timedelta(hours=1))

    (trouble,) = problems.find_problems(session, now=now)
    assert trouble.message == "1 of 2 workers stopped unexpectedly"
    assert trouble.facts[0].startswith("process 7 on lab2, last seen ")


def test_a_scheduler_that_died_is_not_held_against_the_workers(session: Session, now: datetime) -> None:
    heartbeats.record_heartbeat(session, "worker", now)
    put(session, "scheduler", now - DEAD, started_at=now - timedelta(hours=1))

    assert causes(session)(now) == ["silent-scheduler"]


def test_a_machine_for_only_mail_or_pages_reports_no_missing_process(session: Session, now: datetime) -> None:
    for role in ("inbound", "web"):
        heartbeats.record_heartbeat(session, role, now)

    assert causes(session)(now) == []


def test_a_queue_from_which_no_task_is_taken_is_noticed(session: Session, now: datetime) -> None:
    before = now - figures.PATIENCE - timedelta(minutes=1)
    for role in ("scheduler", "worker"):
        heartbeats.record_heartbeat(session, role, now, started_at=before)
    assert causes(session)(now) == ["queue"]

    heartbeats.record_queue_heartbeat(session, now - timedelta(minutes=1))
    assert causes(session)(now) == []
