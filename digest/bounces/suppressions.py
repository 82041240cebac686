"""Store the suppression list: addresses that must get no mail, each with a reason and a date.

Only the keyed hash of an address is stored, so entries reveal no address and may remain after an erasure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs
from digest.bounces.opt_outs import OptOutKind
from digest.db.tables.inbound_mail import Suppression
from digest.errors import NotFound
from digest.mail import addresses
from digest.site.links import address_hash
from digest.site.site_profile import Site


class SuppressionReason(StrEnum):
    """The reason why an address is suppressed."""

    OPERATOR = "operator"  #: the operator suppressed the address
    BOUNCE = "bounce"  #: mail to the address bounces
    FULL = "full"  #: mail bounces for a reason that may pass, such as a full mailbox; ends after `TRY_AGAIN_AFTER`
    COMPLAINT = "complaint"  #: the owner of the address marked our mail as spam
    ERASED = "erased"  #: the owner of the address asked for erasure and no more mail


#: Reasons reported by mail servers and feedback loops, which can be wrong, so the owner may subscribe again.
OWNER_CAN_LIFT = frozenset({SuppressionReason.BOUNCE, SuppressionReason.FULL, SuppressionReason.COMPLAINT})
TRY_AGAIN_AFTER = timedelta(days=28)  #: how long an address with a full mailbox gets no mail


def suppress(
    session: Session, site: Site, email: str, reason: SuppressionReason, note: str, now: datetime
) -> bool:
    """Add an address to the suppression list; return whether it was new. Existing entries stay unchanged."""
    return bool(suppress_hashes(session, [address_hmac(site, email)], reason, note, now))


def suppress_many(
    session: Session, site: Site, emails: Iterable[str], reason: SuppressionReason, note: str, now: datetime
) -> None:
    """Add many addresses to the suppression list at once. Existing entries stay unchanged."""
    suppress_hashes(session, [address_hmac(site, email) for email in emails], reason, note, now)


def suppress_hashes(
    session: Session, hashes: Iterable[str], reason: SuppressionReason, note: str, now: datetime
) -> int:
    """Add the addresses with these hashes to the suppression list; return the number of new entries."""
    distinct = dict.fromkeys(hashes)
    listed = session.connection().execute(SUPPRESSED_QUERY, {"hashes": distinct.keys()})
    known = {row[0] for row in listed}
    new = [one for one in distinct if one not in known]
    shared = {"reason": reason, "note": note, "since": now}
    db.insert_many(session, Suppression, [{"hmac": one} for one in new], shared=shared, key=("hmac",))
    opt_outs.record_suppressions(session, OptOutKind.SUPPRESSED, new, reason=reason, now=now)
    return len(new)


def unsuppress(session: Session, site: Site, email: str, *, now: datetime) -> bool:
    """Remove an address from the suppression list; return whether it was on the list."""
    return bool(unsuppress_matching(session, Suppression.hmac == address_hmac(site, email), now=now))


def unsuppress_matching(session: Session, *conditions: ColumnElement[bool], now: datetime) -> int:
    """Remove the suppression entries that meet these conditions, and return their number."""
    removing = delete(Suppression).where(*conditions).returning(Suppression.hmac)
    removed = session.scalars(removing.execution_options(synchronize_session=False)).all()
    opt_outs.record_suppressions(session, OptOutKind.UNSUPPRESSED, removed, now=now)
    return len(removed)


def end_temporary_suppressions(session: Session, *, now: datetime) -> int:
    """Remove the suppressions of full mailboxes to which mail is tried again, and return their number."""
    is_over = Suppression.since <= now - TRY_AGAIN_AFTER
    return unsuppress_matching(session, Suppression.reason == SuppressionReason.FULL, is_over, now=now)


def unsuppress_by_operator(session: Session, site: Site, email: str, *, now: datetime) -> None:
    """Remove an address from the suppression list; raise NotFound if it is not on the list."""
    if not unsuppress(session, site, email, now=now):
        raise NotFound(f"{email} is not suppressed.")


def find_suppression(session: Session, site: Site, email: str) -> Suppression | None:
    """Return the suppression entry of an address, or None if the address is not suppressed."""
    return session.get(Suppression, address_hmac(site, email))


def is_suppressed(session: Session, site: Site, email: str) -> bool:
    """Return whether an address is suppressed."""
    return bool(find_suppressed(session, site, [email]))


HMAC_COLUMN: Any = Suppression.__table__.c.hmac
REASON_COLUMN: Any = Suppression.__table__.c.reason
SUPPRESSED_QUERY = select(HMAC_COLUMN).where(db.one_of(HMAC_COLUMN, db.values_param("hashes", HMAC_COLUMN)))
PERMANENTLY_SUPPRESSED_QUERY = SUPPRESSED_QUERY.where(REASON_COLUMN.not_in(OWNER_CAN_LIFT))


def find_suppressed(
    session: Session, site: Site, emails: Iterable[str], *, permanently: bool = False
) -> set[str]:
    """Return the suppressed addresses among `emails`, in the spelling given there.

    With `permanently`, return only addresses whose owners cannot lift the suppression by confirming.
    """
    hashes = {email: address_hmac(site, email) for email in emails}
    query = PERMANENTLY_SUPPRESSED_QUERY if permanently else SUPPRESSED_QUERY
    listed = {row[0] for row in session.connection().execute(query, {"hashes": hashes.values()})}
    return {email for email, hmac in hashes.items() if hmac in listed}


def list_suppressions(session: Session) -> list[Suppression]:
    """Return all entries of the suppression list, oldest first."""
    return [*session.scalars(select(Suppression).order_by(Suppression.since, Suppression.hmac))]


def address_hmac(site: Site, email: str) -> str:
    """Return the keyed hash of an address, which is the same for equivalent spellings of the address."""
    return address_hash(site, addresses.fold_address(email))
