"""Record opt-outs: suppressions, unsubscribes and erasures, so that a restored backup cannot undo them.

Each opt-out is recorded in the transaction that makes the change. The scheduler (without a scheduler, the
next command that writes) appends the rows to a file outside the database (`backups.opt_out_file`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.inbound_mail import OptOut
from digest.site.links import address_hash
from digest.site.site_profile import Site

DELETE_BATCH = 1_000  #: number of rows deleted in one transaction


class OptOutKind(StrEnum):
    """The kinds of opt-outs, and of the changes that end an opt-out."""

    SUPPRESSED = "suppressed"
    UNSUPPRESSED = "unsuppressed"
    UNSUBSCRIBED = "unsubscribed"
    RESUBSCRIBED = "resubscribed"
    ERASED = "erased"


def record_suppressions(
    session: Session, kind: OptOutKind, hashes: Collection[str], *, reason: str = "", now: datetime
) -> None:
    """Record that the addresses with these hashes were suppressed or unsuppressed, as `kind` states."""
    shared = {"kind": kind, "reason": reason, "at": now}
    db.insert_many(session, OptOut, [{"hmac": one} for one in hashes], shared=shared)


def record_subscribers(session: Session, kind: OptOutKind, ids: Collection[int], *, now: datetime) -> None:
    """Record that these subscribers unsubscribed or resubscribed, as `kind` states."""
    rows = [{"subscriber_id": number} for number in ids]
    db.insert_many(session, OptOut, rows, shared={"kind": kind, "hmac": "", "reason": "", "at": now})


def record_erasure(
    session: Session, site: Site, subscriber_id: int, created_at: datetime, *, now: datetime
) -> None:
    """Record that a subscriber was erased."""
    hmac = subscriber_hash(site, subscriber_id, created_at)
    session.add(OptOut(kind=OptOutKind.ERASED, subscriber_id=subscriber_id, hmac=hmac, at=now))
    session.flush()


def subscriber_hash(site: Site, subscriber_id: int, created_at: datetime) -> str:
    """Return a keyed hash that identifies a subscriber, even after the address or the database changes."""
    return address_hash(site, f"{subscriber_id} {created_at.astimezone(UTC).isoformat()}")


def unsaved_opt_outs(session: Session, *, limit: int) -> list[OptOut]:
    """Return the oldest opt-outs that are not in the file yet."""
    query = select(OptOut).where(OptOut.saved_at.is_(None)).order_by(OptOut.id).limit(limit)
    return list(session.scalars(query))


def mark_saved(session: Session, ids: Collection[int], *, now: datetime) -> None:
    """Record that these opt-outs are in the file."""
    session.execute(update(OptOut).where(OptOut.id.in_(ids)).values(saved_at=now))


def delete_old_opt_outs(session: Session, *, before: datetime) -> Iterator[int]:
    """Delete opt-outs older than `before` that are in the file; yield the number in each batch."""
    oldest = select(OptOut.id, OptOut.at, OptOut.saved_at).order_by(OptOut.id).limit(DELETE_BATCH)
    while past := [row.id for row in session.execute(oldest) if row.at < before and row.saved_at]:
        session.execute(delete(OptOut).where(OptOut.id.in_(past)))
        yield len(past)
