"""Run the scheduler, which queries the database for due work at fixed intervals and enqueues tasks.

Every periodic job (a tick) is idempotent. The due time of a digest depends on the subscriber's time zone and
is stored in the database; the scheduler runs in UTC. Two schedulers may run at the same time, and while no
scheduler runs, no work is lost.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from celery import Task
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from digest.backups import opt_out_file
from digest.backups.opt_out_file import OPT_OUT_FILE
from digest.db import DBAPIError
from digest.db.tables.deliveries import Lane
from digest.delivery.limits import emergency_stops
from digest.delivery.outbox import delivery_listing
from digest.delivery.outbox.transitions import LEASE
from digest.dumps.intake import dumps_folder
from digest.dumps.sources import stored_sources
from digest.errors import DigestError
from digest.inbound import classification, mail_rules
from digest.monitoring import operator_letters, problems
from digest.monitoring.supervisor import find_supervisor
from digest.process import heartbeats
from digest.publishing import due_readers
from digest.subscribers import pauses, sign_up_queue, still_reading
from workers import tasks
from workers.app import BULK, PROMPT, app
from workers.folder_reader import FolderReader
from workers.worker_context import app_context, requeue_dead_claims

log = logging.getLogger(__name__)

LETTERS_PER_TASK = 1_000  #: number of due deliveries per delivery task
MAX_TASKS = 8
ARRIVAL_SECONDS = 300  #: how long digests wait for a dump that is still in the folder

FOLDER_READER = FolderReader()

Tick = Callable[[], None]


def scan_dumps() -> None:
    """Read new files in this machine's dumps folder."""
    FOLDER_READER.read_new_files(app_context().settings.dumps)


def report_unread() -> None:
    """Record the unread files in this machine's dumps folder."""
    with app_context().write_session() as session:
        dumps_folder.report_unread(session, app_context().settings.dumps, now=app_context().clock())


def poll() -> None:
    """Enqueue a poll of each due source that is not already being polled."""
    with app_context().read_session() as session:
        due = stored_sources.due(session, app_context().clock())
    for name in due:
        enqueue(tasks.poll_source, name, queue=BULK)


def publish() -> None:
    """Enqueue publishing if a digest is due or a pause is over, unless a dump has just arrived."""
    now = app_context().clock()
    if is_arriving(app_context().settings.dumps, now):
        return
    with app_context().read_session() as session:
        is_due_now = due_readers.are_due(session, now) or bool(pauses.due_to_resume(session, now))
    if is_due_now:
        enqueue(tasks.publish, queue=BULK)


def is_arriving(folder: Path, now: datetime) -> bool:
    """Return whether a dump arrived in the folder in the last five minutes and is not loaded yet.

    The dump's papers belong in the due digests, and each edition is published only once. An upload that breaks
    off delays the digests until five minutes after its last write.
    """
    try:
        changed = [entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return False
    return any(now.timestamp() - moment < ARRIVAL_SECONDS for moment in changed)


def sweep() -> None:
    """Enqueue the delivery of all due letters of each lane: new, deferred, or with an expired lease."""
    for lane, queue in ((Lane.PROMPT, PROMPT), (Lane.BULK, BULK)):
        with app_context().read_session() as session:
            due = delivery_listing.count_due(
                session, lane=lane, now=app_context().clock(), limit=LETTERS_PER_TASK * MAX_TASKS
            )
        task_count = min(-(-due // LETTERS_PER_TASK), MAX_TASKS)
        enqueue(tasks.deliver, lane.value, queue=queue, times=task_count)


def requeue_claims() -> None:
    """Requeue the letters that a worker had claimed which died in the last half hour."""
    now = app_context().clock()
    with app_context().read_session() as session:
        died = [
            one for one in heartbeats.list_processes(session) if one.role == "worker" and one.is_dead(now)
        ]
    if any(now - one.at < 2 * LEASE for one in died):
        requeue_dead_claims()


def probe_queue() -> None:
    """Enqueue a task that records that it reached a worker through the broker."""
    enqueue(tasks.heartbeat, queue=PROMPT)


def watch() -> None:
    """Stop mail if a threshold is exceeded, and queue letters to the operator about problems.

    If the scheduler itself has died, a web server reports this.
    """
    context = app_context()
    with context.write_session() as session:
        emergency_stops.check_thresholds(
            session, context.settings.limits.stop_thresholds, now=context.clock()
        )
        found = problems.find_problems(
            session, now=context.clock(), supervisor=find_supervisor(context.settings.data_dir)
        )
        operator_letters.queue_alarm_letters(
            session, found, site=context.site, operator=context.settings.operator_email, now=context.clock()
        )


def report_week() -> None:
    """Queue the weekly report to the operator, if the report is enabled and due."""
    context = app_context()
    settings = context.settings
    if settings.weekly_report == "off" or not settings.operator_email:
        return
    with context.write_session() as session:
        operator_letters.queue_weekly_report(
            session,
            site=context.site,
            operator=settings.operator_email,
            timezone=settings.timezone,
            now=context.clock(),
        )


def remind() -> None:
    """Send one reminder to subscribers who did not confirm within a day, and delete expired sign-ups."""
    context = app_context()
    with context.write_session() as session:
        sign_up_queue.remind_unconfirmed(session, context.site, context.clock())


def ask_still_reading() -> None:
    """Ask inactive readers whether they still read their digests, and pause those who do not respond."""
    context = app_context()
    with context.write_session() as session:
        still_reading.take_steps(
            session, context.site, after=context.settings.keep.inactive, now=context.clock()
        )


def confirm() -> None:
    """Send confirmations to the next sign-ups in the queue."""
    context = app_context()
    with context.read_session() as session:
        if not sign_up_queue.are_waiting(session):
            return
    with context.write_session() as session:
        sign_up_queue.send_confirmations(session, context.site, context.clock())


def process_stored_mail() -> None:
    """Process mail and notices that were stored but not processed when they were received."""
    context = app_context()
    with context.write_session() as session:
        classification.process_stored_mails(
            session, site=context.site, rules=mail_rules.rules_of(context), now=context.clock()
        )


def save_opt_outs() -> None:
    """Append new opt-outs to the file that a restore reads, in this machine's data directory."""
    context = app_context()
    with context.write_session() as session:
        path = context.settings.data_dir / OPT_OUT_FILE
        opt_out_file.save_opt_outs_in_batches(session, context.site, path, now=context.clock())


def tidy() -> None:
    """Once a day, delete old files in `done/` of the dumps folder, and enqueue the deletion of old rows."""
    context = app_context()
    dumps_folder.prune_done(context.settings.dumps, before=context.clock() - context.settings.keep.dumps)
    enqueue(tasks.tidy, queue=BULK)


#: All ticks, with their intervals in seconds.
TICKS: dict[Tick, float] = {
    probe_queue: 30, watch: 60, publish: 5, sweep: 3, requeue_claims: 20, scan_dumps: 5, report_unread: 30, poll: 20, confirm: 3, remind: 300, ask_still_reading: 3600, process_stored_mail: 60, save_opt_outs: 10, report_week: 300, tidy: 86_400,
}  # fmt: skip


def enqueue(task: Task[Any, Any], *arguments: Any, queue: str, times: int = 1) -> None:
    """Enqueue a task `times` times, unless the queue still contains messages."""
    if times and count_queued(queue) == 0:
        for _ in range(times):
            task.apply_async(arguments, queue=queue)


def count_queued(queue: str) -> int:
    """Return the number of messages in a queue."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue, durable=True).message_count)


def safe_tick(tick: Tick) -> Tick:
    """Return a tick that logs errors of the database, broker and files; the next run tries again."""

    def tried() -> None:
        try:
            tick()
        except (DigestError, DBAPIError, OperationalError, RedisError, OSError) as error:
            log.warning("%s failed: %s; the next run tries again", tick.__name__, str(error).splitlines()[0])

    return tried


def run() -> None:
    """Run all ticks until stopped."""
    scheduler = BackgroundScheduler(
        timezone="UTC",
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    now = app_context().clock()
    for place, (tick, seconds) in enumerate(TICKS.items()):
        first = now + (heartbeats.SILENT_AFTER if tick is watch else timedelta(seconds=place * 0.2))
        scheduler.add_job(
            safe_tick(tick),
            "interval",
            seconds=seconds,
            id=tick.__name__,
            name=tick.__name__,
            next_run_time=first,
        )
    requests, request = os.pipe()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: os.write(request, b"."))  # stopping takes locks that it may interrupt
    with heartbeats.heartbeat_while("scheduler", app_context().engine, app_context().clock):
        scheduler.start()
        os.read(requests, 1)
        scheduler.shutdown(wait=False)
    safe_tick(save_opt_outs)()
    FOLDER_READER.stop()
