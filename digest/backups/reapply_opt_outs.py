"""Apply the opt-outs again that a restored backup lacks: suppressions, unsubscribes and erasures.

The caller commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

from msgspec.structs import asdict
from sqlalchemy import Table, delete, select
from sqlalchemy.orm import Session

from digest import db
from digest.backups.opt_out_file import SavedOptOut
from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.inbound_mail import OptOut, Suppression
from digest.db.tables.subscribers import Subscriber
from digest.site.site_profile import Site
from digest.subscribers import erasure, unsubscribe_and_undo

NOTE = "recovered after a restore"  #: the note of suppressions that were read from the file of opt-outs


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
    hmac = opt_outs.subscriber_hash(site, number, subscriber.created_at)
    kinds = [one.kind for one in events if one.hmac == hmac]
    if OptOutKind.ERASED in kinds:
        erasure.erase_subscriber(session, site, subscriber, now=now)
        return True
    if kinds[-1:] == [OptOutKind.UNSUBSCRIBED]:
        return unsubscribe_and_undo.mark_unsubscribed(session, subscriber, now=now)
    return False
