"""Limit the confirmations that strangers can cause: for one address, for one network, and for all together.

Anybody can enter any address in the form, so the owner of an address may not have asked for the confirmation.
While most confirmations are answered, sign-ups wait only a few seconds. Unanswered confirmations lower the
rate; each answered confirmation offsets two unanswered ones.

Invitations do not count. Confirmations requested by the operator or by a proven sender do not count for all together,
since strangers cannot cause them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Confirmation
from digest.delivery.limits import daily_counts
from digest.mail import addresses
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import invitations

MAX_WAIT = timedelta(hours=48)  #: time after which a waiting sign-up is dropped without a letter
#: How long a confirmation counts towards the limits; must be longer than `MAX_WAIT`.
REMEMBERED_FOR = timedelta(hours=72)

MINUTE = timedelta(minutes=1)
PER_MINUTE = 60
SLOWER_FROM = 50  #: number of unanswered confirmations above which fewer are sent per minute
LOWEST_FROM = 100  #: number of unanswered confirmations from which `LOWEST_PER_MINUTE` applies
#: Confirmations per minute at `LOWEST_FROM`; twice as many unanswered ones halve the number.
LOWEST_PER_MINUTE = 5
CREDIT = 2  #: number of unanswered confirmations that each answered confirmation offsets

#: The maximum number of confirmations to one address in each period, so that the form cannot be used to
#: flood an address.
PER_ADDRESS = ((1, timedelta(hours=24)), (3, timedelta(days=30)))
#: The same for confirmations that lift a suppression.
PER_SUPPRESSED_ADDRESS = (1, timedelta(days=30))
PER_MAILBOX_A_DAY = 3  #: the same for all addresses of one mailbox, which differ in a tag after `+`
PER_NETWORK = 10  #: a network with this many unanswered confirmations must wait; answered ones allow more
PER_NETWORK_AT_LOWEST = 1
MAX_WAITING_PER_NETWORK = 40  #: maximum number of waiting sign-ups per network
#: Maximum number of waiting sign-ups; at this number, the newest sign-up of the largest network is dropped.
MAX_WAITING = 10_000
#: Maximum number of new settings links that one network may request a day, and all unknown networks together.
LINKS_A_DAY, LINKS_A_DAY_UNKNOWN = 20, 500

UNKNOWN = ""  #: stands for the network of sign-ups from this machine or through an unconfigured proxy
BY_MAIL = "mail"  #: stands for the unknown networks of sign-ups by mail from unproven senders
PROVEN = "@"  #: prefix of the network of a proven sender of a sign-up by mail; the sender's domain follows
#: Networks shared by many people, to which the limit on waiting sign-ups does not apply.
SHARED = frozenset({UNKNOWN, BY_MAIL})

IS_ASKED_FOR = Confirmation.requested_settings != invitations.INVITED_MARK
BY_A_STRANGER = and_(
    IS_ASKED_FOR,
    Confirmation.network != Confirmation.BY_OPERATOR,
    Confirmation.network.not_like(f"{PROVEN}%"),
)
UNANSWERED = func.count().filter(Confirmation.used_at.is_(None))
ANSWERED = func.count(Confirmation.used_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many confirmations are unanswered and answered, among those that still count."""

    unanswered: int = 0
    answered: int = 0

    @property
    def surplus(self) -> int:
        """Return how many unanswered confirmations are not offset by answered ones."""
        return max(0, self.unanswered - CREDIT * self.answered)

    @property
    def per_minute(self) -> float:
        """Return the number of confirmations that may be sent per minute."""
        if not self.is_slower:
            return PER_MINUTE
        if self.is_lowest:
            return LOWEST_PER_MINUTE * LOWEST_FROM / self.surplus
        left = (LOWEST_FROM - self.surplus) / (LOWEST_FROM - SLOWER_FROM)
        return LOWEST_PER_MINUTE + left * (PER_MINUTE - LOWEST_PER_MINUTE)

    @property
    def is_slower(self) -> bool:
        """Return whether unanswered confirmations have lowered the rate of sending."""
        return self.surplus > SLOWER_FROM

    @property
    def is_lowest(self) -> bool:
        """Return whether so many confirmations are unanswered that the lowest rate applies."""
        return self.surplus >= LOWEST_FROM


def counts(session: Session, now: datetime, which: ColumnElement[bool] = BY_A_STRANGER) -> Counts:
    """Return the counts of these confirmations, by default of those that strangers caused."""
    query = select(UNANSWERED, ANSWERED).where(Confirmation.made_at > now - REMEMBERED_FOR, which)
    unanswered, answered = session.execute(query).one()
    return Counts(unanswered=unanswered, answered=answered)


def confirmations_allowed(session: Session, now: datetime, counted: Counts) -> int:
    """Return how many confirmations may be sent at this moment: several a minute, or one in several minutes."""
    pace = counted.per_minute
    since = now - max(MINUTE, MINUTE / pace)
    lately = select(func.count()).where(Confirmation.made_at > since, BY_A_STRANGER)
    return max(0, max(1, int(pace)) - (session.scalar(lately) or 0))


def has_reached_limit(session: Session, network: str, now: datetime) -> bool:
    """Return whether a network has so many unanswered confirmations that it must wait."""
    counted = counts(session, now, Confirmation.network == network)
    return counted.unanswered >= PER_NETWORK + CREDIT * counted.answered


def is_address_capped(session: Session, subscriber_id: int, now: datetime, *, is_suppressed: bool) -> bool:
    """Return whether an address has got as many confirmations as it may in any of the periods."""
    sent = select(func.count()).where(Confirmation.subscriber_id == subscriber_id, IS_ASKED_FOR)
    rules = [(sent, *rule) for rule in PER_ADDRESS]
    if is_suppressed:
        rules.append((sent.where(Confirmation.lifts_suppression), *PER_SUPPRESSED_ADDRESS))
    return any(
        (session.scalar(those.where(Confirmation.made_at > now - window)) or 0) >= most
        for those, most, window in rules
    )


def is_mailbox_capped(session: Session, site: Site, email: str, now: datetime) -> bool:
    """Count a confirmation to a mailbox, which gets mail to many addresses with tags; return whether it gets no more today."""
    mailbox = links.address_hash(site, addresses.mailbox_of(email))
    counted = daily_counts.count_today(session, "confirmations", mailbox, most=PER_MAILBOX_A_DAY, now=now)
    return counted is None
