"""Define the rivals' Celery application, with a task for every reader or for some hundred readers.

A rival's worker has the settings of the product's workers (`celery_mornings.py`). Everything that is made
once a day is made before the worker is ready, and so before the time is measured: ranking, indexes, the
matches of every filter, and some first letters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_process_init
from sqlalchemy import select

from digest import db
from digest.app_context import AppContext, open_context
from digest.db.tables.subscribers import FilterRow, Subscriber
from digest.delivery import press_store
from digest.settings import load_settings
from digest.topics.paper_index import PaperIndex
from tests.bench import competent_rival, naive_rival
from tests.support.shared_caches import CACHES

FIRST = 20  #: number of letters that every worker renders before it is ready

app = Celery("rivals")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_proc_alive_timeout=300,  # maximum time for the warm-up
    broker_connection_retry_on_startup=True,
)


@app.task
def naive_letter(subscriber_id: int) -> None:
    """Send one reader's digest."""
    with db.write_session(app_context().engine) as session:
        naive_rival.send_to(session, morning(), subscriber_id)


@app.task
def middle_chunk(ids: Sequence[int]) -> None:
    """Send the digests of some hundred readers."""
    with db.write_session(app_context().engine) as session:
        competent_rival.send_chunk(session, worker_state(), ids)


# ── what a worker keeps ─────────────────────────────────────────────────────────────────────────


@cache
def app_context() -> AppContext:
    return open_context(load_settings())


@cache
def morning() -> naive_rival.Morning:
    ours, now = app_context(), app_context().clock()
    with ours.write_session() as session:
        press = press_store.current_press(
            session,
            site=ours.site,
            templates=ours.templates,
            caches=CACHES,
            now=now,
            since=press_store.press_start(now, None),
        )
    return naive_rival.Morning(
        site=ours.site,
        press=press,
        index=PaperIndex(press.papers),
        templates=ours.templates,
        port=ours.settings.mail.servers[0].port,
        now=now,
    )


@cache
def worker_state() -> competent_rival.WorkerState:
    return competent_rival.make_state(morning())


# ── making ready ────────────────────────────────────────────────────────────────────────────────


def warm_up_naive(session: db.Session) -> None:
    """Render the first letters without sending them."""
    for subscriber in session.scalars(select(Subscriber).order_by(Subscriber.id).limit(FIRST)):
        digest, filters = naive_rival.compose_digest(session, morning(), subscriber)
        naive_rival.write_message(
            morning(), digest, naive_rival.personalization_of(morning(), subscriber, filters)
        )


def warm_up_competent(session: db.Session) -> None:
    """Evaluate every filter and render the first letters without sending them."""
    for number, canonical in session.execute(select(FilterRow.id, FilterRow.canonical)):
        competent_rival.matching_papers(worker_state(), number, canonical)
    readers = session.execute(select(*Subscriber.__table__.c).order_by(Subscriber.id).limit(FIRST)).all()
    held = competent_rival.topics_of(session, [reader.id for reader in readers])
    for reader in readers:
        competent_rival.write_message(
            worker_state(), *competent_rival.compose_digest(worker_state(), reader, held[reader.id])
        ).as_bytes()


READY: dict[str, Callable[[db.Session], None]] = {"naive": warm_up_naive, "middle": warm_up_competent}


@worker_process_init.connect
def make_ready(**_details: Any) -> None:
    """Warm up, and write a file when ready."""
    with db.write_session(app_context().engine) as session:
        READY[os.environ["RIVAL"]](session)
    (Path(load_settings().data_dir) / f"ready-{os.getpid()}").touch()
