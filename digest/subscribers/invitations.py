"""Invite each address that an operator added, at most once; invitations are spread over time.

An invitation is the only letter that may be sent to an unconfirmed address that did not ask for one. Its
dedupe key depends only on the address, so an address that is removed and then imported again gets no second
invitation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.subscribers import Confirmation
from digest.delivery.outbox import enqueue, planned_letters, withdrawals
from digest.delivery.outbox.enqueue import LETTER_LIFE
from digest.delivery.outbox.open_deliveries import IS_OPEN
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers.subscriber_topics import clean_line

#: Minimum time between two invitations, which prevents a burst of unsolicited mail.
INVITATION_INTERVAL = timedelta(minutes=1)
ANSWER_WITHIN = timedelta(days=14)
#: The value stored as the requested settings of an invitation; reminders skip such confirmations.
INVITED_MARK = '{"invited":true}'
MAX_NAMED = 8  #: maximum number of topics named in an invitation
MAX_NAME_LENGTH = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitee:
    """An unconfirmed subscriber added by an operator."""

    id: int
    email: str
    email_key: str
    topics: tuple[str, ...]  #: names of the topics chosen by the operator


def queue_invitations(
    session: Session, site: Site, invitees: Collection[Invitee], *, invited_by: str, now: datetime
) -> int:
    """Queue an invitation to each address that was never invited, a minute apart; return their number.

    `invited_by` names the person who added the addresses, in the operator's words.
    """
    if not invitees:
        return 0
    by_key = {invitation_to(site, one.email_key).key: one for one in invitees}
    key = Delivery.__table__.c.dedupe_key
    for used in session.scalars(select(key).where(db.one_of(key, list(by_key)))):
        del by_key[used]
    confirmations = [
        {
            "subscriber_id": one.id,
            "made_at": due_at,
            "expires_at": due_at + ANSWER_WITHIN,
            "email": one.email,
            "requested_settings": INVITED_MARK,
            "network": Confirmation.BY_OPERATOR,
        }
        for one, due_at in zip(by_key.values(), free_moments(session, now), strict=False)
    ]
    made = db.insert_many(session, Confirmation, confirmations, returning=("id", "subscriber_id", "made_at"))
    by_id = {one.id: one for one in by_key.values()}
    letters = [invitation_row(site, by_id[one.subscriber_id], one, invited_by) for one in made]
    return enqueue.queue_bulk_letters(session, letters, site=site, now=now)


def invitation_row(site: Site, invitee: Invitee, confirmation: Row[Any], invited_by: str) -> dict[str, Any]:
    """Return an invitation as a row of the outbox."""
    due_at = confirmation.made_at
    contents = {
        "confirmation_id": confirmation.id,
        "invited_by": clean_line(invited_by)[:MAX_NAME_LENGTH],
        "topics": invitee.topics[:MAX_NAMED],
        "days": ANSWER_WITHIN.days,
    }
    return {
        **replace(invitation_to(site, invitee.email_key), contents=contents).columns(),
        "subscriber_id": invitee.id,
        "email": invitee.email,
        "dated_at": due_at,
        "due_at": due_at,
        "expires_at": due_at + LETTER_LIFE,
    }


def invitation_to(site: Site, email_key: str) -> planned_letters.InviteLetter:
    """Return the invitation to an address; its key prevents a second one."""
    return planned_letters.InviteLetter(address_hash=links.address_hash(site, email_key))


def never_asked(session: Session, invitees: Sequence[Invitee]) -> list[Invitee]:
    """Return the invitees without a confirmation of any kind, past or present."""
    column = Confirmation.__table__.c.subscriber_id
    query = select(column).where(db.one_of(column, [one.id for one in invitees]))
    asked = set(session.scalars(query)) if invitees else set()
    return [one for one in invitees if one.id not in asked]


def free_moments(session: Session, now: datetime) -> Iterator[datetime]:
    """Yield due times for invitations, a minute apart, beginning after the last queued invitation."""
    last = session.scalar(
        select(func.max(Delivery.due_at)).where(
            IS_OPEN,
            Delivery.lane == Lane.BULK,
            Delivery.letter == planned_letters.InviteLetter.kind,
            Delivery.state == DeliveryState.QUEUED,
        )
    )
    moment = now if last is None else max(now, last + INVITATION_INTERVAL)
    while True:
        yield moment
        moment += INVITATION_INTERVAL


def withdraw_invitation(session: Session, site: Site, email_key: str, *, now: datetime) -> None:
    """Withdraw a queued invitation whose recipient has signed up."""
    withdrawals.withdraw_letter(session, invitation_to(site, email_key), "they signed up themselves", now=now)
