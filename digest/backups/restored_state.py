"""Change a restored database so that nobody is mailed twice, and nobody who opted out is mailed again.

A backup does not contain later events. Therefore all mail is stopped, every open delivery and every edition
that was due before the restore ends as expired, and the next digests consider only newer papers. Opt-outs
made since the backup are read from the file of `backups.opt_out_file`. The caller commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, delete, select
from sqlalchemy.orm import Session

from digest import bounces, db, subscribers
from digest.backups.opt_out_file import SavedOptOut
from digest.bounces import OptOutKind, SuppressionReason
from digest.db.tables import (
    Heartbeat,
    OptOut,
    SignUp,
    Subscriber,
    SubscriberState,
    Suppression,
    UnreadDump,
)
from digest.delivery import outbox
from digest.editions import restore_point
from digest.editions.schedule import Edition, missed_editions, next_edition, open_edition
from digest.publishing.missed_editions import expired_row
from digest.site_profile import Site
from digest.subscribers import schedule_of

RESTORED = "restored"  #: the recorded reason of letters and editions that a restore ended
NOTE = "recovered after a restore"  #: the note of suppressions that were read from the file of opt-outs
BATCH_READERS = 1_000


def expire_past(session: Session, site: Site, *, made_at: datetime, now: datetime) -> tuple[int, int]:
    """Record all unsent letters and due editions as expired; return both numbers.

    Sign-ups that wait for a confirmation letter are deleted, because the letter may have been sent already.
    """
    restore_point.set_restore_point(session, now)
    letters = outbox.expire_open(session, RESTORED, now=now)
    subscribers.skip_reminders(session, site, RESTORED, now=now)
    for table in (SignUp, Heartbeat, UnreadDump):
        session.execute(delete(table))
    return letters, expire_editions(session, made_at=made_at, now=now)


def expire_editions(session: Session, *, made_at: datetime, now: datetime) -> int:
    """Record every edition that was due since the backup as expired, and return their number."""
    expired, last_id = 0, 0
    while readers := next_readers(session, last_id):
        last_id = readers[-1].id
        expired += record_editions(session, readers, made_at=made_at, now=now)
        changes = [{"id": one.id, **reader_changes(one, now)} for one in readers]
        db.update_many(session, Subscriber, changes)
    return expired


def next_readers(session: Session, last_id: int) -> Sequence[Subscriber]:
    """Return the next batch of readers who get digests, now or after a pause."""
    has_digests = Subscriber.state.in_((SubscriberState.ACTIVE, SubscriberState.PAUSED))
    query = select(Subscriber).where(has_digests, Subscriber.id > last_id).order_by(Subscriber.id)
    return session.scalars(query.limit(BATCH_READERS)).all()


def reader_changes(reader: Subscriber, now: datetime) -> dict[str, Any]:
    """Return the new column values of a reader, so that the next digest considers papers from now on."""
    return {
        "considered_until": now,
        "considered_paper_id": None,
        "last_mail_at": now,
        "next_due_at": next_edition(schedule_of(reader), now).due_at,
    }


def record_editions(
    session: Session, readers: Iterable[Subscriber], *, made_at: datetime, now: datetime
) -> int:
    """Record the editions of these readers that were due since the backup as expired; return their number."""
    by_edition: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for reader in readers:
        for edition in past_editions(reader, made_at=made_at, now=now):
            row = expired_row(reader.id, reader.email, edition, now, reason=RESTORED)
            by_edition[edition.name].append(row)
    return sum(len(outbox.queue_digests(session, rows)) for rows in by_edition.values())


def past_editions(reader: Subscriber, *, made_at: datetime, now: datetime) -> list[Edition]:
    """Return the editions due between the reader's next due time in the backup and now."""
    if reader.state == SubscriberState.PAUSED:
        return []
    schedule = schedule_of(reader)
    since = reader.next_due_at or max(reader.confirmed_at or reader.created_at, made_at)
    current = open_edition(schedule, now)
    return [*missed_editions(schedule, since, now), *([current] if current else [])]


# ── opt-outs ────────────────────────────────────────────────────────────────────────────────────


def apply_opt_outs(session: Session, site: Site, saved: Iterable[SavedOptOut], *, now: datetime) -> int:
    """Apply the opt-outs that the backup lacks; return the number of changed addresses and subscribers."""
    known = {(row.id, row.kind) for row in session.execute(select(OptOut.id, OptOut.kind))}
    new = [one for one in saved if (one.id, one.kind) not in known]
    record_as_saved(session, new, now=now)
    changed = apply_suppressions(session, [one for one in new if one.subscriber_id is None])
    by_subscriber: defaultdict[int, list[SavedOptOut]] = defaultdict(list)
    for one in new:
        if one.subscriber_id is not None:
            by_subscriber[one.subscriber_id].append(one)
    return changed + sum(
        apply_to_subscriber(session, site, number, events, now=now)
        for number, events in by_subscriber.items()
    )


def record_as_saved(session: Session, saved: Sequence[SavedOptOut], *, now: datetime) -> None:
    """Add these opt-outs to the database, marked as already in the file."""
    rows = [asdict(one) for one in saved]
    db.insert_many(session, OptOut, rows, shared={"saved_at": now}, key=("id",))
    db.advance_sequences(session.connection(), [cast(Table, OptOut.__table__)])


def apply_suppressions(session: Session, saved: Iterable[SavedOptOut]) -> int:
    """Suppress the addresses whose last line in the file is a suppression, and return their number.

    The suppressions of the other addresses in the file are deleted.
    """
    last = {one.hmac: one for one in saved}
    session.execute(delete(Suppression).where(db.one_of(Suppression.__table__.c.hmac, list(last))))
    rows = [
        {"hmac": one.hmac, "reason": one.reason or SuppressionReason.OPERATOR, "since": one.at}
        for one in last.values()
        if one.kind is OptOutKind.SUPPRESSED
    ]
    db.insert_many(session, Suppression, rows, shared={"note": NOTE})
    return len(rows)


def apply_to_subscriber(
    session: Session, site: Site, number: int, events: Iterable[SavedOptOut], *, now: datetime
) -> bool:
    """Erase or unsubscribe a subscriber as these opt-outs require; return whether the subscriber changed.

    Opt-outs whose hash does not match the subscriber are ignored, because they may be from an earlier
    database.
    """
    subscriber = session.get(Subscriber, number)
    if subscriber is None:
        return False
    hmac = bounces.subscriber_hash(site, number, subscriber.created_at)
    kinds = [one.kind for one in events if one.hmac == hmac]
    if OptOutKind.ERASED in kinds:
        subscribers.erase_subscriber(session, site, subscriber, now=now)
        return True
    if kinds[-1:] == [OptOutKind.UNSUBSCRIBED]:
        return subscribers.mark_unsubscribed(session, subscriber, now=now)
    return False
