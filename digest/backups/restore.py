"""Restore a backup into an empty database, with all mail stopped.

The rows, the changes to them and the stop are committed together, so an interrupted restore leaves the
database empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from msgspec.structs import asdict
from sqlalchemy import Connection, Engine, Table, delete, select
from sqlalchemy.orm import Session

from digest import db
from digest.backups.backup_file import MADE, BackupFile
from digest.backups.expire_past import expire_past
from digest.backups.opt_out_file import SavedOptOut, SavedOptOuts
from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import SuppressionReason
from digest.db import database_copy
from digest.db.tables.inbound_mail import OptOut, Suppression
from digest.db.tables.service_state import Observation
from digest.db.tables.subscribers import Subscriber
from digest.delivery.limits import emergency_stops
from digest.delivery.limits.decisions import ALL
from digest.process import key_fingerprints
from digest.site.site_profile import Site
from digest.subscribers import account, unsubscribe_and_undo

DAY = timedelta(days=1)
#: Number of ids to skip for each day begun since the backup: links sent since then may contain these ids.
SKIPPED_IDS = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreReport:
    """The result of a restore."""

    made_at: datetime  #: when the backup was made
    rows: int
    letters: int  #: number of open letters recorded as expired
    editions: int  #: number of editions due since the backup and recorded as expired
    #: number of opt-outs made since the backup that were applied again and changed a subscriber or the
    #: suppression list
    opt_outs: int
    damaged: int  #: number of unreadable lines in the file of opt-outs


def restore(
    backup: BackupFile,
    target: Engine,
    site: Site,
    *,
    saved: SavedOptOuts,
    templates_fingerprint: str,
    now: datetime,
    progress: Callable[[int], None],
) -> RestoreReport:
    """Copy a backup into an empty database and stop all mail.

    Raises SetupMismatch if this machine's keys or pepper do not match the backup, UsageError if the database
    is not empty, and DigestError if not all rows arrive in it.
    """
    with db.read_session(backup.engine) as session:
        key_fingerprints.check_keys(key_fingerprints.stored_fingerprints(session), site)
    figures: dict[str, int] = {}

    def finish(writing: Connection) -> None:
        with Session(writing, expire_on_commit=False) as session:
            figures.update(change_restored(session, backup, site, saved, now=now))
            key_fingerprints.record_fingerprints(session, site, templates_fingerprint, now=now)
            session.flush()
        db.advance_sequences(writing, database_copy.tables())
        database_copy.skip_keys(writing, SKIPPED_IDS * (1 + max(0, (now - backup.made_at) // DAY)))

    replaced = database_copy.MACHINE_TABLES
    counts = database_copy.copy(backup.engine, target, progress, replaces=replaced, finish=finish)
    db.truncate_log(target)  # the log contains the rows of readers who were erased after the backup
    return RestoreReport(made_at=backup.made_at, rows=sum(counts.values()), damaged=saved.damaged, **figures)


def change_restored(
    session: Session, backup: BackupFile, site: Site, saved: SavedOptOuts, *, now: datetime
) -> dict[str, int]:
    """Stop all mail, expire open letters and editions, and apply the opt-outs again; return the counts."""
    session.execute(delete(Observation).where(Observation.name == MADE))
    made = f"{backup.made_at:%Y-%m-%d %H:%M} UTC"
    emergency_stops.emergency_stop(session, f"restored from the backup of {made}", scope=ALL, now=now)
    letters, editions = expire_past(session, site, made_at=backup.made_at, now=now)
    opt_outs = apply_opt_outs(session, site, saved.opt_outs, now=now)
    return {"letters": letters, "editions": editions, "opt_outs": opt_outs}


# ── opt-outs that the backup lacks ──


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
        account.erase_subscriber(session, site, subscriber, now=now)
        return True
    if kinds[-1:] == [OptOutKind.UNSUBSCRIBED]:
        return unsubscribe_and_undo.mark_unsubscribed(session, subscriber, now=now)
    return False
