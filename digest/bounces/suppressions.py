"""Addresses we must not write to: why, and since when.

Only the keyed hash of an address is kept, so the list can outlive an erasure and tells nobody
whom it is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest import addresses, db
from digest.links import Site, address_hash
from digest.model import Suppression


class Reason(StrEnum):
    """Why an address must not be written to."""

    OPERATOR = "operator"  #: the operator said so
    BOUNCE = "bounce"  #: mail to it comes back
    COMPLAINT = "complaint"  #: its owner reported our mail as spam
    ERASED = "erased"  #: its owner asked to be forgotten and never written to again


@dataclass(frozen=True, kw_only=True, slots=True)
class Suppressed:
    """One line of the list."""

    hmac: str
    reason: Reason
    note: str
    since: datetime


def suppress(session: Session, site: Site, email: str, reason: Reason, note: str, now: datetime) -> bool:
    """Put an address on the list; return whether it was new there. The first reason stands."""
    row = {"hmac": hashed(site, email), "reason": Reason(reason), "note": note, "since": now}
    done = session.execute(
        db.upsert(session, Suppression).values(row).on_conflict_do_nothing().returning(Suppression.hmac)
    )
    return done.first() is not None


def lift(session: Session, site: Site, email: str) -> bool:
    """Take an address off the list; return whether it was on it."""
    done = session.execute(
        delete(Suppression).where(Suppression.hmac == hashed(site, email)).returning(Suppression.hmac)
    )
    return done.first() is not None


def is_suppressed(session: Session, site: Site, email: str) -> bool:
    """Return whether an address must not be written to."""
    return bool(suppressed(session, site, [email]))


HMAC: Any = Suppression.__table__.c.hmac
LISTED = select(HMAC).where(db.among(HMAC, db.many("hashes", HMAC)))


def suppressed(session: Session, site: Site, emails: Iterable[str]) -> set[str]:
    """Return those of `emails`, as spelled there, that must not be written to."""
    hashes = {email: hashed(site, email) for email in emails}
    listed = {row[0] for row in session.connection().execute(LISTED, {"hashes": hashes.values()})}
    return {email for email, hmac in hashes.items() if hmac in listed}


def listing(session: Session) -> list[Suppressed]:
    """Return the whole list, oldest first."""
    rows = session.scalars(select(Suppression).order_by(Suppression.since, Suppression.hmac))
    return [
        Suppressed(hmac=row.hmac, reason=Reason(row.reason), note=row.note, since=row.since) for row in rows
    ]


def hashed(site: Site, email: str) -> str:
    """Return the keyed hash of the folded address."""
    return address_hash(site, addresses.key(email))
