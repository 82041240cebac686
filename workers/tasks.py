"""Define the tasks, whose arguments are only ids and times; a task that runs twice or is lost does no harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from time import sleep

from digest import db
from digest.db.tables.deliveries import Lane
from digest.delivery import delivery_run, press_store
from digest.dumps.intake import dumps_folder
from digest.dumps.sources import polling
from digest.process import heartbeats
from digest.publishing import chunk_of_digests, cleanup, due_readers, publish_due
from workers.app import BULK, PROMPT, app, is_stopping
from workers.worker_context import app_context

log = logging.getLogger(__name__)

#: Number of chunks that a task publishes. Each process evaluates the filters for itself, which takes as long as
#: publishing the digests of about three chunks.
CHUNKS_PER_TASK = 5
MAX_DELIVERY_TIME = timedelta(seconds=20)  #: time after which a long task ends, so that other tasks can run


@app.task(queue=BULK)
def poll_source(name: str) -> None:
    """Poll a due source, and publish if it had new papers."""
    context, now = app_context(), app_context().clock()
    with context.write_session() as session:
        found = polling.poll(context.poll_context(session, now), names=[name], if_due=True)
    for one in found:
        log.info("source %s: %s", one.source, one.result)
    if any(one.new for one in found):
        publish.delay()


@app.task(queue=BULK)
def publish() -> None:
    """Prepare the content of the due digests (the press), and enqueue a task for every few subscriber chunks."""
    context, now = app_context(), app_context().clock()
    with context.write_session() as session:
        press = publish_due.prepare_press(context.publication(session, now))
        size = CHUNKS_PER_TASK * publish_due.CHUNK_SUBSCRIBERS
        starts = due_readers.chunk_starts(session, now, size=size) if press else []
    for after_id in starts:
        publish_chunks.delay(press.name if press else "", after_id, now.isoformat())


@app.task(queue=BULK)
def publish_chunks(press_name: str, after_id: int | None, now: str) -> None:
    """Publish the digests of the next few chunks of subscribers, and enqueue the delivery of each chunk."""
    context = app_context()
    with context.write_session() as session:
        press = press_store.load_press(session, press_name, context.caches)
        publication = replace(context.publication(session, datetime.fromisoformat(now)), fixed_press=press)
        for _ in range(CHUNKS_PER_TASK):
            if after_id is None or is_stopping():
                break
            published, after_id = chunk_of_digests.publish_chunk(
                publication, after_id=after_id, limit=publish_due.CHUNK_SUBSCRIBERS
            )
            if published.queued:
                log.info("digests published: %d", published.queued)
                deliver.apply_async((Lane.BULK.value,), queue=BULK)


@app.task(queue=PROMPT)
def deliver(lane: str) -> None:
    """Deliver due letters. Each claim takes prompt letters first, so prompt letters never wait for digests."""
    context = app_context()
    with context.write_session() as session:
        report = context.deliver(
            session,
            clock=db.common_clock(session, context.clock),
            lane=Lane.PROMPT if lane == Lane.PROMPT else None,
            max_time=MAX_DELIVERY_TIME,
            is_stopping=is_stopping,
            sleep=sleep,
        )
    if report != delivery_run.DeliveryReport():
        log.info("delivered: %s", report_in_words(report))


def report_in_words(report: delivery_run.DeliveryReport) -> str:
    """Return a report as text, such as `202 sent, 6 in doubt`."""
    counts = {outcome.replace("_", " "): count for outcome, count in asdict(report).items() if count}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


@app.task(queue=PROMPT)
def heartbeat() -> None:
    """Record that a task reached a worker through the broker, and the unread files in this machine's folder."""
    context, now = app_context(), app_context().clock()
    with context.write_session() as session:
        heartbeats.record_queue_heartbeat(session, now)
        dumps_folder.report_unread(session, context.settings.dumps, now=now)


@app.task(queue=BULK)
def tidy() -> None:
    """Delete old rows for up to 20 seconds, then enqueue a task for the remaining rows or `shown` rows."""
    context = app_context()
    with context.write_session() as session:
        kept, is_over = context.settings.keep, task_deadline()
        gone, is_all = cleanup.delete_old_rows(session, kept=kept, now=context.clock(), is_over=is_over)
    if summary := ", ".join(f"{number} {what}" for what, number in gone.items() if number):
        log.info("deleted old rows: %s", summary)
    (delete_old_shown if is_all else tidy).apply_async(queue=BULK)


@app.task(queue=BULK)
def delete_old_shown(after_id: int = 0) -> None:
    """Delete old `shown` rows of readers with ids above `after_id`, for up to 20 seconds.

    A further task deletes the remaining rows.
    """
    context = app_context()
    with context.write_session() as session:
        gone, after = cleanup.delete_old_shown(
            session, now=context.clock(), after=after_id, is_over=task_deadline()
        )
    if gone:
        log.info("deleted old rows: %d shown papers", gone)
    if after is not None:
        delete_old_shown.apply_async((after,), queue=BULK)


def task_deadline() -> Callable[[], bool]:
    """Return a function that checks whether the task should end so that other tasks can run."""
    began = time.monotonic()
    return lambda: is_stopping() or time.monotonic() - began > MAX_DELIVERY_TIME.total_seconds()
