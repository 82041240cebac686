"""Measure the cost of finding the readers of changed papers on a morning after hundreds of papers changed.

The readers were sent ten of five hundred papers a day for a month, so each was sent some of the changed
papers. A simple count in Python gives the expected updates.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from time import perf_counter, process_time

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.papers import ChangeRow, PaperRow
from digest.db.tables.subscribers import Subscriber
from digest.delivery import shown as shown_papers
from digest.delivery.outbox import enqueue
from digest.publishing import due_readers, pending_updates
from digest.publishing.publish_due import CHUNK_SUBSCRIBERS

DAYS, PAPERS_A_DAY, SENT_A_DAY = 30, 500, 10
CHANGED = 300


def time_updates(session: Session, readers: int, now: datetime) -> tuple[float, float]:
    """Return the seconds that each reader takes on the next morning, by the clock and of our processor time."""
    sent = sent_for_a_month(session, readers, now)
    changed = changes(session, sorted(set().union(*sent.values())), now)
    session.commit()
    morning, last_id = now + timedelta(days=1), 0
    clock = worked = 0.0
    while last_id < max(sent):
        found = due_readers.lock_due_readers(session, after_id=last_id, limit=CHUNK_SUBSCRIBERS, now=morning)
        found = [reader for reader in found if reader.id in sent]
        began, had_worked = perf_counter(), process_time()
        pending = pending_updates.load_pending(session, found, morning)
        clock, worked = clock + perf_counter() - began, worked + process_time() - had_worked
        for reader in found:
            updated = {one.paper for one in pending[reader.id].news} if reader.id in pending else set[int]()
            assert updated <= sent[reader.id] & changed, reader
            assert len(updated) == min(pending_updates.MAX_FOLLOWUPS, len(sent[reader.id] & changed)), reader
        last_id = found[-1].id
    return clock / readers, worked / readers


def sent_for_a_month(session: Session, readers: int, now: datetime) -> Mapping[int, set[int]]:
    """Record the papers sent to the first readers on the days before `now`, and return them."""
    chance = random.Random(6)
    ids = session.scalars(select(Subscriber.id).order_by(Subscriber.id).limit(readers)).all()
    sent: dict[int, set[int]] = {number: set() for number in ids}
    for day in range(DAYS, 0, -1):
        at = now - timedelta(days=day)
        papers = db.reserve_keys(session, PaperRow, PAPERS_A_DAY)
        rows = [{"id": n, "title": f"Paper {n}", "is_history": True, "first_seen_at": at} for n in papers]
        session.execute(insert(PaperRow), rows)
        own = [{"subscriber_id": number, "edition": f"daily-{at:%Y-%m-%d}"} for number in ids]
        same = {"state": DeliveryState.SENT, "dated_at": at, "due_at": at, "expires_at": at, "settled_at": at}
        deliveries = enqueue.queue_digests(session, own, shared=same)
        shown = {number: chance.sample(papers, SENT_A_DAY) for number in ids}
        some = [(number, deliveries[number], shown[number], at.date()) for number in ids]
        shown_papers.record_new(session, some)
        for number in ids:
            sent[number].update(shown[number])
    return sent


def changes(session: Session, papers: list[int], now: datetime) -> set[int]:
    """Mark some of the papers as published since then, and return them."""
    changed = random.Random(7).sample(papers, CHANGED)
    seen_at = now + timedelta(hours=20)
    rows = [
        {"paper_id": n, "kind": "published", "seen_at": seen_at, "detail": "J. Examples"} for n in changed
    ]
    session.execute(insert(ChangeRow), rows)
    return set(changed)
