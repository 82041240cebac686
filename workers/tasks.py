"""The tasks: each may run twice, or never, and nothing is lost. They carry ids and moments only."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import db, delivery, intake, presses, publishing, rates, sources, watching
from digest.model import Lane, Subscriber
from digest.publishing.gathering import is_due
from workers.app import BULK, PROMPT, app, is_stopping
from workers.house import house

log = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=20)  #: then a delivery task makes room for others


@app.task(queue=BULK)
def collect_dumps() -> None:
    """Load what lies in the dumps folder, and publish if that brought papers."""
    ours = house()
    with ours.writing() as session:
        loads = intake.collect(
            session,
            ours.settings.dumps,
            now=ours.clock(),
            incomplete_ok=ours.settings.sends_short_dumps,
        )
    for loaded in loads:
        log.info("dump %s: %s, %d papers, %d new", loaded.path.name, loaded.state, loaded.papers, loaded.new)
    if any(loaded.new for loaded in loads):
        publish.delay()


@app.task(queue=BULK)
def poll_source(name: str) -> None:
    """Ask a source that is due for its papers, and publish if that brought some."""
    ours, now = house(), house().clock()
    with ours.writing() as session:
        found = sources.poll(ours.line(session, now), names=[name], if_due=True)
    for one in found:
        log.info("source %s: %s", one.source, one.result)
    if any(one.new for one in found):
        publish.delay()


@app.task(queue=BULK)
def publish() -> None:
    """Prepare the press for whoever is due now, and let the workers share the subscribers."""
    ours, now = house(), house().clock()
    with ours.writing() as session:
        press = publishing.prepare(session, site=ours.site, templates=ours.templates, now=now)
        starts = chunk_starts(session, now) if press else []
    for after_id in starts:
        publish_chunk.delay(press.name if press else "", after_id, now.isoformat())


def chunk_starts(session: Session, now: datetime) -> list[int]:
    """Return the ids after which each chunk of due subscribers begins."""
    place = func.row_number().over(order_by=Subscriber.id)
    due = select(Subscriber.id, place.label("place")).where(is_due(now)).subquery()
    borders = select(due.c.id).where(due.c.place % publishing.CHUNK == 0).order_by(due.c.id)
    return [0, *session.scalars(borders)]


@app.task(queue=BULK)
def publish_chunk(press_name: str, after_id: int, now: str) -> None:
    """Compose the digests of one chunk of subscribers, and have them delivered."""
    ours = house()
    with ours.writing() as session:
        press = presses.load(session, press_name)
        published, _ = publishing.publish_chunk(
            session,
            press,
            site=ours.site,
            after_id=after_id,
            limit=publishing.CHUNK,
            now=datetime.fromisoformat(now),
        )
    if published.queued:
        log.info("digests published: %d", published.queued)
        deliver.apply_async((Lane.BULK.value,), queue=BULK)


@app.task(queue=PROMPT)
def deliver(lane: str) -> None:
    """Deliver what is due. Prompt letters never wait behind digests: each claim looks for them first."""
    ours = house()
    with ours.writing() as session, ours.transport() as transport:
        report = delivery.deliver(
            session,
            site=ours.site,
            templates=ours.templates,
            transport=transport,
            clock=db.common_clock(session, ours.clock),
            signers=ours.signers,
            limits=ours.settings.limits,
            window=ours.settings.window,
            lane=Lane.PROMPT if lane == Lane.PROMPT else None,
            patience=PATIENCE,
            is_stopping=is_stopping,
        )
    if report != delivery.Report():
        log.info("delivered: %s", in_words(report))


def in_words(report: delivery.Report) -> str:
    """Return `202 sent, 6 in doubt`."""
    told = {fate.replace("_", " "): number for fate, number in asdict(report).items() if number}
    return ", ".join(f"{number} {fate}" for fate, number in told.items())


@app.task(queue=PROMPT)
def heartbeat() -> None:
    """Leave a sign of life: broker, worker and database all did their part."""
    with house().writing() as session:
        watching.beat(session, "worker", house().clock())


@app.task(queue=BULK)
def tidy() -> None:
    """Forget what no digest can need any more."""
    with house().writing() as session:
        rates.tidy(session, now=house().clock())
        shown, made = publishing.tidy(session, now=house().clock())
    if shown or made:
        log.info("forgot %d showings and %d presses past their time", shown, made)
