"""Freeze the bounces of a domain that is itself broken, until the operator forgives or accepts them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, distinct, exists, func, select, update
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import BounceRow, Suppression
from digest.db.tables.subscribers import Subscriber
from digest.mail import addresses

MASS_FAILURE_WINDOW = timedelta(hours=24)
MASS_FAILURE_COUNT = 10  #: a domain with at least this many failing addresses in a day may be broken
MASS_FAILURE_SHARE = 0.2  #: minimum ratio of failing addresses to subscribers for such a domain to be broken
#: The start of a suppression's note; the domain follows.
ACCEPTED_NOTE = "accepted by the operator as gone, with others at "


def is_domain_broken(session: Session, domain: str, now: datetime) -> bool:
    """Return whether enough of a domain's addresses failed within a day for the domain to count as broken."""
    recent = (
        BounceRow.domain == domain,
        BounceRow.at > now - MASS_FAILURE_WINDOW,
        BounceRow.forgiven_at.is_(None),
        ~is_accepted(),
        ~is_about_other_letter(),
    )
    if session.scalar(select(BounceRow.id).where(*recent, BounceRow.frozen_at.is_not(None)).limit(1)):
        return True
    failing = session.scalar(
        select(func.count(distinct(BounceRow.hmac))).where(*recent, BounceRow.kind == FailureKind.HARD)
    )
    if not failing or failing < MASS_FAILURE_COUNT:
        return False
    most = int(failing / MASS_FAILURE_SHARE)  # with more subscribers, the failing share is below the minimum
    of_domain = select(Subscriber.id).where(Subscriber.email_key.endswith(f"@{domain}", autoescape=True))
    readers = session.scalar(select(func.count()).select_from(of_domain.limit(most + 1).subquery())) or 0
    return readers <= most


def is_about_other_letter() -> ColumnElement[bool]:
    """Return the SQL condition for failures of letters other than digests, which strangers can cause."""
    return exists().where(Delivery.id == BounceRow.delivery_id, Delivery.edition.is_(None))


def is_accepted() -> ColumnElement[bool]:
    """Return the SQL condition for failures whose address the operator accepted as gone."""
    return exists().where(
        Suppression.hmac == BounceRow.hmac, Suppression.note == ACCEPTED_NOTE + BounceRow.domain
    )


def freeze_domain(session: Session, domain: str, now: datetime) -> None:
    """Freeze a domain's hard failures of the last day, and lift the suppressions that they caused."""
    recent = (
        BounceRow.domain == domain,
        BounceRow.at > now - MASS_FAILURE_WINDOW,
        BounceRow.kind == FailureKind.HARD,
        BounceRow.forgiven_at.is_(None),
        ~is_accepted(),
    )
    session.execute(
        update(BounceRow)
        .where(*recent, BounceRow.frozen_at.is_(None))
        .values(frozen_at=now)
        .execution_options(synchronize_session=False)
    )
    hashes = select(BounceRow.hmac).where(*recent)
    lift_bounce_suppressions(session, hashes, since=now - MASS_FAILURE_WINDOW, now=now)


def frozen_domains(session: Session, *, since: datetime) -> dict[str, int]:
    """Return {domain: number of addresses} for the frozen failures after `since`."""
    found = session.execute(
        select(BounceRow.domain, func.count(distinct(BounceRow.hmac)))
        .where(
            BounceRow.frozen_at.is_not(None),
            BounceRow.forgiven_at.is_(None),
            BounceRow.at > since,
            ~is_accepted(),
        )
        .group_by(BounceRow.domain)
        .order_by(BounceRow.domain)
    )
    return {row[0]: row[1] for row in found}


def forgive_domain(
    session: Session, *, domain: str, since: datetime, now: datetime, is_dry_run: bool = False
) -> tuple[int, int]:
    """Forgive a domain's failures from `since` on; a dry run only counts them.

    Returns the number of forgiven failures and the number of lifted suppressions.
    """
    failures = (BounceRow.domain == addresses.ascii_domain(domain), BounceRow.at >= since)
    lifted = lift_bounce_suppressions(session, select(BounceRow.hmac).where(*failures), since=since, now=now)
    forgiving = update(BounceRow).where(*failures, BounceRow.forgiven_at.is_(None)).values(forgiven_at=now)
    done = session.execute(
        forgiving.returning(BounceRow.id).execution_options(synchronize_session=False)
    ).all()
    if is_dry_run:
        session.rollback()
    return len(done), lifted


def accept_failures(
    session: Session, *, domain: str, since: datetime, now: datetime, is_dry_run: bool = False
) -> int:
    """Suppress the addresses of a domain's frozen failures; a dry run only counts them.

    Returns the number of addresses added to the suppression list.
    """
    frozen = (
        BounceRow.domain == addresses.ascii_domain(domain),
        BounceRow.at >= since,
        BounceRow.frozen_at.is_not(None),
        BounceRow.forgiven_at.is_(None),
    )
    hashes = session.scalars(select(BounceRow.hmac).where(*frozen).distinct()).all()
    note = ACCEPTED_NOTE + addresses.ascii_domain(domain)
    new = suppressions.suppress_hashes(session, hashes, SuppressionReason.BOUNCE, note, now)
    if is_dry_run:
        session.rollback()
    return new


def lift_bounce_suppressions(session: Session, hashes: Select[Any], *, since: datetime, now: datetime) -> int:
    """Lift suppressions of the addresses with these hashes, and return their number.

    Only suppressions that bounces caused at `since` or later are lifted.
    """
    return suppressions.unsuppress_matching(
        session,
        Suppression.hmac.in_(hashes),
        Suppression.reason == SuppressionReason.BOUNCE,
        Suppression.since >= since,
        now=now,
    )
