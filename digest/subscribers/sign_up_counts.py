"""Count recent confirmations, used and unused; the counts determine how fast new ones are sent.

Invitations do not count. Confirmations requested by the operator or by a proven sender do not count either,
since strangers cannot cause them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Confirmation, SignUp
from digest.subscribers import invitations
from digest.subscribers import sign_up_limits as limits
from digest.subscribers.sign_up_limits import Counts, Recent

BY_A_STRANGER = and_(
    Confirmation.requested_settings != invitations.INVITED_MARK,
    Confirmation.network != Confirmation.BY_OPERATOR,
    Confirmation.network.not_like(f"{limits.PROVEN}%"),
)
UNANSWERED = func.coalesce(func.sum(case((Confirmation.used_at.is_(None), 1), else_=0)), 0)
ANSWERED = func.coalesce(func.sum(case((Confirmation.used_at.is_not(None), 1), else_=0)), 0)


def counts(session: Session, now: datetime) -> Counts:
    """Return the counts of all networks together."""
    unanswered, used = session.execute(
        select(UNANSWERED, ANSWERED).where(Confirmation.made_at > now - limits.REMEMBERED_FOR, BY_A_STRANGER)
    ).one()
    return Counts(unanswered=unanswered, answered=used)


def counts_by_network(session: Session, now: datetime) -> dict[str, Counts]:
    """Return the counts of each network from which a sign-up is waiting."""
    found = session.execute(
        select(Confirmation.network, UNANSWERED, ANSWERED)
        .where(
            Confirmation.made_at > now - limits.REMEMBERED_FOR,
            BY_A_STRANGER,
            Confirmation.network.in_(select(SignUp.network)),
        )
        .group_by(Confirmation.network)
    )
    return {network: Counts(unanswered=unanswered, answered=used) for network, unanswered, used in found}


def counts_of_network(session: Session, network: str, now: datetime) -> Counts:
    """Return the counts of one network."""
    unanswered, used = session.execute(
        select(UNANSWERED, ANSWERED).where(
            Confirmation.made_at > now - limits.REMEMBERED_FOR, Confirmation.network == network
        )
    ).one()
    return Counts(unanswered=unanswered, answered=used)


def recent(session: Session, now: datetime) -> Recent:
    """Return the recent confirmations that sign-ups from all networks caused.

    The values are the counts, the number in the last minute, and the time since the newest confirmation.
    """
    minute = select(func.count()).where(Confirmation.made_at > now - timedelta(minutes=1), BY_A_STRANGER)
    newest = session.scalar(
        select(func.max(Confirmation.made_at)).where(Confirmation.made_at <= now, BY_A_STRANGER)
    )
    return Recent(
        counts=counts(session, now),
        last_minute=session.scalar(minute) or 0,
        since_last=now - newest if newest else None,
    )


def are_slow(session: Session, now: datetime) -> bool:
    """Return whether so many confirmations are unanswered that new ones are sent at the lowest rate."""
    return limits.is_lowest(counts(session, now))
