"""The rivals' Celery application: a task for every reader, or one for some hundred of them.

A worker of theirs is started with the settings of ours (`mornings.py`). Whatever is made once a day is made
before it says that it is ready, so that the rivals' clock starts later than ours: the papers ranked, the
index, FTS5 filled and every filter asked, the first letters written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.signals import worker_process_init
from sqlalchemy import select

from digest import db, presses, topics
from digest.house import House, opened
from digest.model import FilterRow, Subscriber
from digest.settings import load
from tests.bench import middle, naive

FIRST = 20  #: letters that every worker writes before it is ready

app = Celery("rivals")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_proc_alive_timeout=300,  # it makes ready for so long
    broker_connection_retry_on_startup=True,
)


@app.task
def naive_letter(subscriber_id: int) -> None:
    """Write to one reader."""
    with db.writing(house().engine) as session:
        naive.send_to(session, morning(), subscriber_id)


@app.task
def middle_chunk(ids: Sequence[int]) -> None:
    """Write to some hundred readers."""
    with db.writing(house().engine) as session:
        middle.send_chunk(session, desk(), ids)


# ── what a worker keeps ─────────────────────────────────────────────────────────────────────────


@cache
def house() -> House:
    return opened(load())


@cache
def morning() -> naive.Morning:
    ours, now = house(), house().clock()
    with ours.writing() as session:
        press = presses.current(
            session, site=ours.site, templates=ours.templates, now=now, since=presses.since(now, None)
        )
    return naive.Morning(
        site=ours.site,
        press=press,
        index=topics.Index(press.papers),
        templates=ours.templates,
        port=urlsplit(ours.settings.mail).port or 25,
        now=now,
    )


@cache
def desk() -> middle.Desk:
    return middle.desk(morning())


# ── making ready ────────────────────────────────────────────────────────────────────────────────


def naively(session: db.Session) -> None:
    """Write the first letters, and send none."""
    for subscriber in session.scalars(select(Subscriber).order_by(Subscriber.id).limit(FIRST)):
        digest, filters = naive.composed(session, morning(), subscriber)
        naive.written(morning(), digest, naive.copy_for(morning(), subscriber, filters))


def competently(session: db.Session) -> None:
    """Ask every filter, write the first letters, and send none."""
    for number, canonical in session.execute(select(FilterRow.id, FilterRow.canonical)):
        middle.chosen(desk(), number, canonical)
    readers = session.execute(select(*Subscriber.__table__.c).order_by(Subscriber.id).limit(FIRST)).all()
    held = middle.topics_of(session, [reader.id for reader in readers])
    for reader in readers:
        middle.written(desk(), *middle.composed(desk(), reader, held[reader.id])).as_bytes()


READY: dict[str, Callable[[db.Session], None]] = {"naive": naively, "middle": competently}


@worker_process_init.connect
def make_ready(**_details: Any) -> None:
    """Make ready, and leave a file that says so."""
    with db.writing(house().engine) as session:
        READY[os.environ["RIVAL"]](session)
    (Path(load().data_dir) / f"ready-{os.getpid()}").touch()
