"""Erase all data about a subscriber: rows, SQLite's write-ahead log, and letters stored on this machine."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, delete, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs, suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery, FollowupSent, Shown
from digest.db.tables.inbound_mail import InboundMail
from digest.db.tables.subscribers import SignUp, Subscriber
from digest.delivery import outbox
from digest.delivery.transports import stored_copies
from digest.delivery.transports.mail_url import MailUrl
from digest.errors import BadField
from digest.mail import addresses
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows

OWNS_GROUPS = "%(email)s manages the digests of %(groups)s. First erase the groups' data, or let the operator name another owner."


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """The effects of an erasure outside the database tables."""

    copies: int  #: number of letters deleted from the folder that stores mail on this machine
    #: Whether SQLite's log was emptied; if not (another process was reading), the daily cleanup empties it.
    is_log_empty: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasedSubscriber:
    """An erased subscriber, whose letters may also be stored on this machine."""

    address: str
    letters: frozenset[int]


def erase(
    session: Session, site: Site, email: str, *, now: datetime, suppress: bool = False
) -> ErasedSubscriber:
    """Erase a subscriber's data; deliveries remain, with their states and counts but no address.

    With `suppress`, the address is also added to the suppression list, stored only as a keyed hash, so that
    it never gets mail again. Raises NotFound for an unknown address, and BadField if the address manages the
    digests of a group, because the group would be left without an owner.
    """
    if groups := subscriber_rows.groups_of(session, email):
        raise BadField("email", OWNS_GROUPS % {"email": email, "groups": ", ".join(groups)})
    subscriber = subscriber_rows.get(session, email)
    address = subscriber.email
    letters = erase_subscriber(session, site, subscriber, now=now)
    if suppress:
        suppressions.suppress(session, site, address, SuppressionReason.ERASED, "", now)
    return ErasedSubscriber(address=address, letters=letters)


def erase_copies(engine: Engine, erased: ErasedSubscriber, *, mail: MailUrl) -> Erasure:
    """Delete the letters to an erased subscriber from this machine, and empty the database's log."""
    copies = stored_copies.delete_copies(mail, erased.address, erased.letters)
    return Erasure(copies=copies, is_log_empty=db.truncate_log(engine))


def erase_subscriber(
    session: Session, site: Site, subscriber: Subscriber, *, now: datetime
) -> frozenset[int]:
    """Erase a subscriber's row and all data that identifies the subscriber, and record the erasure.

    Returns the ids of the letters to the subscriber, and of letters to the operator that
    contain the address.
    """
    lock_subscriber(session, subscriber)
    found = letters_naming(session, subscriber)
    ids = list(found)
    session.execute(update(Attempt).where(db.one_of(Attempt.__table__.c.delivery_id, ids)).values(reply=""))
    outbox.forget_recipient(session, ids, now=now)
    session.execute(delete(Shown).where(Shown.subscriber_id == subscriber.id))
    session.execute(delete(FollowupSent).where(FollowupSent.subscriber_id == subscriber.id))
    session.execute(delete(SignUp).where(SignUp.email_key == subscriber.email_key))
    delete_mails_naming(session, {subscriber.email, *filter(None, found.values())})
    opt_outs.record_erasure(session, site, subscriber.id, subscriber.created_at, now=now)
    session.delete(subscriber)
    session.flush()
    return frozenset(ids)


def letters_naming(session: Session, subscriber: Subscriber) -> dict[int, str | None]:
    """Return {id: address} of letters to a subscriber, and {id: None} of letters to the operator that name them.

    Each address is the one to which the letter was sent. The letters to the operator pass on incoming mail.
    """
    own = or_(Delivery.subscriber_id == subscriber.id, Delivery.email == subscriber.email)
    found = {row.id: row.email for row in session.execute(select(Delivery.id, Delivery.email).where(own))}
    named = addresses.mention_of({subscriber.email, *filter(None, found.values())})
    letters = session.execute(select(Delivery.id, Delivery.decision).where(Delivery.letter == "passed_on"))
    passed_on = [row.id for row in letters if named.search(strings_in(json.loads(row.decision)))]
    return dict.fromkeys(passed_on) | found


def strings_in(value: Any) -> str:
    """Return all strings in a decision, one on each line."""
    if isinstance(value, str):
        return value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(map(strings_in, inside))


def delete_mails_naming(session: Session, emails: Collection[str]) -> None:
    """Delete the stored mail that was sent from one of these addresses or contains it.

    All stored mail is searched; the limits on storage keep it small.
    """
    named = addresses.mention_of(emails)
    columns = select(InboundMail.id, InboundMail.sender, InboundMail.content)
    stored = session.execute(columns, execution_options={"yield_per": 10})
    ids = [
        row.id for row in stored if named.search(f"{row.sender}\n{row.content.decode('utf-8', 'replace')}")
    ]
    session.execute(delete(InboundMail).where(InboundMail.id.in_(ids)))


def lock_subscriber(session: Session, subscriber: Subscriber) -> None:
    """Lock the subscriber's row, so that no digest is published for them at the same time."""
    session.execute(select(Subscriber.id).where(Subscriber.id == subscriber.id).with_for_update())
