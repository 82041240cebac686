"""Expire what was due before a restore, so that nobody is mailed twice.

A backup does not contain later events. Therefore every open delivery and every edition that was due before
the restore ends as expired, and the next digests consider only newer papers. The caller commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import UnreadDump
from digest.db.tables.service_state import Heartbeat
from digest.db.tables.subscribers import SignUp, Subscriber, SubscriberState
from digest.delivery import restore_point
from digest.delivery.outbox import enqueue, withdrawals
from digest.delivery.restore_point import RESTORED
from digest.editions.schedule import ScheduleStatus, schedule_status
from digest.publishing.missed_editions import expired_row
from digest.site.site_profile import Site
from digest.subscribers import confirmation_letters, next_digest, pauses
from digest.subscribers.subscriber_rows import schedule_of

BATCH_READERS = 1_000


def expire_past(session: Session, site: Site, *, made_at: datetime, now: datetime) -> tuple[int, int]:
    """Record all unsent letters and due editions as expired; return both numbers.

    Sign-ups that wait for a confirmation letter are deleted, because the letter may have been sent already.
    """
    restore_point.set_restore_point(session, now)
    letters = withdrawals.expire_open(session, RESTORED, now=now)
    confirmation_letters.skip_reminders(session, site, RESTORED, now=now)
    for table in (SignUp, Heartbeat, UnreadDump):
        session.execute(delete(table))
    return letters, expire_editions(session, made_at=made_at, now=now)


def expire_editions(session: Session, *, made_at: datetime, now: datetime) -> int:
    """Record every edition that was due since the backup as expired, and return their number."""
    expired, last_id = 0, 0
    has_digests = Subscriber.state.in_((SubscriberState.ACTIVE, SubscriberState.PAUSED))
    query = select(Subscriber).where(has_digests).order_by(Subscriber.id).limit(BATCH_READERS)
    while readers := session.scalars(query.where(Subscriber.id > last_id)).all():
        last_id = readers[-1].id
        decided = enqueue.decided_editions(session, [one.id for one in readers], made_at)
        status = {
            one.id: status_at_backup(one, decided.get(one.id, ()), made_at=made_at, now=now)
            for one in readers
        }
        expired += record_editions(session, readers, status, now=now)
        # The next digest considers papers from now on.
        changes = {"considered_until": now, "considered_paper_id": None, "last_mail_at": now}
        upcoming = [
            {"id": one.id, "next_due_at": status[one.id].upcoming.due_at, **changes} for one in readers
        ]
        db.update_many(session, Subscriber, upcoming)
    return expired


def record_editions(
    session: Session, readers: Iterable[Subscriber], status: Mapping[int, ScheduleStatus], *, now: datetime
) -> int:
    """Record the missed and due editions of those readers whose pause, if any, is over as expired; return their number."""
    by_edition: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for reader in readers:
        found = status[reader.id]
        editions = [*found.missed, *([found.due] if found.due else [])]
        is_paused = reader.state == SubscriberState.PAUSED and not pauses.is_pause_over(reader, now)
        for edition in editions if not is_paused else ():
            row = expired_row(reader.id, reader.email, edition, now, reason=RESTORED)
            by_edition[edition.name].append(row)
    return sum(len(enqueue.queue_digests(session, rows)) for rows in by_edition.values())


def status_at_backup(
    reader: Subscriber, decided: Collection[str], *, made_at: datetime, now: datetime
) -> ScheduleStatus:
    """Return the status of a reader's editions since the due time that was promised in the backup."""
    joined_at = reader.confirmed_at or reader.created_at
    promised = next_digest.promised_to(reader, now) or max(joined_at, made_at)
    return schedule_status(schedule_of(reader), now, promised=promised, decided=decided)
