"""The clock: one idempotent tick per concern. A tick looks into the database and says "there is work".

Whose digest is due is decided by our own code in each subscriber's own zone; this clock runs in UTC at
plain intervals and knows no schedule. Two of them do no harm, and nothing is lost while none runs.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.schedulers.blocking import BlockingScheduler
from celery import Task
from kombu.exceptions import OperationalError
from sqlalchemy import exists, select
from sqlalchemy.exc import DBAPIError

from digest import inbox, outbox, rates, sources, subscriptions, watching
from digest.errors import DigestError
from digest.model import Lane, PaperRow
from digest.publishing.gathering import is_due
from workers import tasks
from workers.app import BULK, PROMPT, app
from workers.house import house

log = logging.getLogger(__name__)

PER_TASK = 1_000  #: deliveries for which another delivery task is worth its while
MOST_TASKS = 8
ARRIVAL = 300  #: seconds for which a dump in the folder is worth waiting for

Tick = Callable[[], None]


def collect() -> None:
    """Have the dumps folder looked at."""
    enqueue(tasks.collect_dumps, queue=BULK)


def poll() -> None:
    """Have the sources asked that are due; one that is being asked is not due."""
    with house().reading() as session:
        due = sources.due(session, house().clock())
    for name in due:
        enqueue(tasks.poll_source, name, queue=BULK)


def publish() -> None:
    """Have due digests composed, if anybody's is and no papers are on their way; wake who was on leave."""
    now = house().clock()
    if is_arriving(house().settings.dumps, now):
        return
    with house().reading() as session:
        is_wanted = session.scalar(select(exists().where(is_due(now)) & exists(select(PaperRow.id))))
        is_wanted = is_wanted or bool(subscriptions.sleepers_due(session, now))
    if is_wanted:
        enqueue(tasks.publish, queue=BULK)


def is_arriving(folder: Path, now: datetime) -> bool:
    """Return whether a dump was put into the folder minutes ago and is not loaded yet.

    Its papers belong into the digests that are due, and an edition is composed once. An upload that
    never ends holds nobody up for long.
    """
    try:
        changed = [entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return False
    return any(now.timestamp() - moment < ARRIVAL for moment in changed)


def sweep() -> None:
    """Have due deliveries of each lane delivered: new ones, deferred ones, those whose worker died."""
    for lane, queue in ((Lane.PROMPT, PROMPT), (Lane.BULK, BULK)):
        with house().reading() as session:
            due = outbox.waiting(session, lane=lane, now=house().clock(), at_most=PER_TASK * MOST_TASKS)
        wanted = min(-(-due // PER_TASK), MOST_TASKS)
        enqueue(tasks.deliver, lane.value, queue=queue, times=wanted)


def beat() -> None:
    """Leave a sign of life, and ask a worker for one."""
    with house().writing() as session:
        watching.beat(session, "scheduler", house().clock())
    enqueue(tasks.heartbeat, queue=PROMPT)


def watch() -> None:
    """Stop the mail if too much goes wrong, and write to the operator about it. The end of this clock is noticed by the web door."""
    ours = house()
    with ours.writing() as session:
        rates.brake(session, ours.settings.limits.brakes, now=ours.clock())
        found = watching.troubles(session, now=ours.clock())
        watching.write_to_operator(
            session, found, site=ours.site, operator=ours.settings.operator_email, now=ours.clock()
        )


def remind() -> None:
    """Write once more to those who did not answer our question for a day."""
    ours = house()
    with ours.writing() as session:
        subscriptions.remind_unanswered(session, ours.site, ours.clock())
        session.commit()


def understand() -> None:
    """Look at mail and notices that were kept and not looked at: whoever took them in has died, or could not."""
    ours = house()
    with ours.writing() as session:
        inbox.look_through(session, site=ours.site, now=ours.clock())


def tidy() -> None:
    """Have forgotten, once a day, what no digest can need any more."""
    enqueue(tasks.tidy, queue=BULK)


#: With their seconds.
TICKS: dict[Tick, float] = {
    beat: 30, watch: 60, publish: 5, sweep: 3, collect: 5, poll: 20, remind: 300, understand: 60, tidy: 86_400,
}  # fmt: skip


def enqueue(task: Task[Any, Any], *arguments: Any, queue: str, times: int = 1) -> None:
    """Say that there is work, unless that is being said already and nobody has listened yet."""
    if times and waiting(queue) == 0:
        for _ in range(times):
            task.apply_async(arguments, queue=queue)


def waiting(queue: str) -> int:
    """Return how many messages wait in a queue."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue, durable=True).message_count)


def ticking(tick: Tick) -> Tick:
    """Return the tick as the clock runs it: what it needs may be away for a while."""

    def tried() -> None:
        try:
            tick()
        except (DigestError, DBAPIError, OperationalError, OSError) as error:
            log.warning("%s has to wait: %s", tick.__name__, str(error).splitlines()[0])

    return tried


def run() -> None:
    """Tick until told to stop."""
    clockwork = BlockingScheduler(
        timezone="UTC",
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    now = house().clock()
    for place, (tick, seconds) in enumerate(TICKS.items()):
        first = now + (watching.SILENCE if tick is watch else timedelta(seconds=place * 0.2))
        clockwork.add_job(ticking(tick), "interval", seconds=seconds, id=tick.__name__, next_run_time=first)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: clockwork.shutdown(wait=False))
    clockwork.start()
