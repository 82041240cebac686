"""Mail the links to a subscriber's data, export and erase the data, and change the address.

The settings link appears in many letters, so it does not authorise these actions. Each action needs a link
that was mailed to the subscriber within the last 24 hours. A new address is used only after its owner has
confirmed it. An erasure covers rows, SQLite's write-ahead log, and letters stored on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, func, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import opt_outs, suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db import Base
from digest.db.tables.deliveries import Attempt, Delivery, FollowupSent, Shown
from digest.db.tables.inbound_mail import InboundMail
from digest.db.tables.subscribers import (
    SUBSCRIBED,
    Consent,
    OperatorAct,
    SavedPaper,
    SettingsChange,
    SignUp,
    Subscriber,
)
from digest.delivery.outbox import planned_letters, withdrawals
from digest.delivery.transports import stored_copies
from digest.delivery.transports.mail_url import MailUrl
from digest.errors import BadField
from digest.mail import addresses
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    confirmations,
    reader_settings,
    subscriber_letters,
    subscriber_rows,
    subscriber_topics,
)

ACCOUNT_LINK_LIFETIME = timedelta(hours=24)
NEW_ADDRESS_LIFETIME = timedelta(hours=48)
#: Maximum number of letters to new addresses that a subscriber can request within 24 hours.
MAX_NEW_ADDRESSES = 3


def queue_account_link(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> bool:
    """Queue a letter with a new link to the subscriber's data, at most once an hour; return whether it was."""
    letter = planned_letters.AccountLinkLetter(
        subscriber_id=subscriber.id, hour=f"{now:%Y-%m-%d-%H}", contents={"made_at": int(now.timestamp())}
    )
    number = subscriber_letters.queue_letter(
        session, site, subscriber, letter, now=now, expires_at=now + ACCOUNT_LINK_LIFETIME
    )
    return number is not None


def subscriber_of_account_link(
    session: Session, site: Site, token: str, *, now: datetime
) -> Subscriber | None:
    """Return the subscriber whose data an account link opens, or None if the link is invalid or revoked.

    Raises BadField if the link has expired.
    """
    found = links.read_account_token(site, token)
    subscriber = subscriber_rows.find_by_link(session, found[0], found[1]) if found else None
    if found and subscriber and now.timestamp() - found[2] > ACCOUNT_LINK_LIFETIME.total_seconds():
        raise BadField("link", "This link has expired. Ask for a new one in your settings.")
    return subscriber


# ── change of address ───────────────────────────────────────────────────────────────────────────


def request_new_address(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    email: str,
    *,
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> None:
    """Queue the letter that asks the owner of a new address to confirm it.

    Raises BadField if the address is invalid, may not sign up or is the subscriber's current address, and if
    the subscriber has made too many requests. The same letter is queued if the address belongs to another
    subscriber. Otherwise, the list of letters in the exported data would reveal that the address is
    subscribed.
    """
    address = addresses.parse_address(email)
    confirmations.check_policy(address.email, may_sign_up)
    if address.folded == subscriber.email_key:
        raise BadField("email", "Your digests already go to this address.")
    kind, day = planned_letters.NewAddressLetter.kind, timedelta(hours=24)
    today = (Delivery.subscriber_id == subscriber.id, Delivery.letter == kind, Delivery.dated_at > now - day)
    count = session.scalar(select(func.count()).where(*today)) or 0
    if count >= MAX_NEW_ADDRESSES:
        raise BadField("email", "Too many requests. Try again tomorrow.")
    letter = planned_letters.NewAddressLetter(
        subscriber_id=subscriber.id, at=now, number=count, contents={"made_at": int(now.timestamp())}
    )
    expires_at = now + NEW_ADDRESS_LIFETIME
    subscriber_letters.queue_letter(
        session, site, subscriber, letter, email=address.email, now=now, expires_at=expires_at
    )


def new_address_of_link(
    session: Session, site: Site, token: str, *, now: datetime
) -> tuple[Subscriber, str] | None:
    """Return the subscriber and new address in a link, or None if the link is invalid, expired or revoked.

    The link stays valid after the change, so that opening it a second time shows the same page.
    """
    found = links.read_new_address_token(site, token)
    if found is None or now.timestamp() - found[2] > NEW_ADDRESS_LIFETIME.total_seconds():
        return None
    number, link_version, _made_at, email = found
    subscriber = session.get(Subscriber, number)
    if subscriber is None or subscriber.state not in SUBSCRIBED:
        return None
    is_done = subscriber.email_key == addresses.fold_address(email)
    return (subscriber, email) if is_done or subscriber.link_version == link_version else None


def change_address(
    session: Session, site: Site, subscriber: Subscriber, email: str, *, now: datetime
) -> None:
    """Give a subscriber a confirmed new address, revoke all links in earlier letters, and notify the old address.

    Raises BadField if the address belongs to another subscriber. Calling the function again changes nothing.
    """
    address = addresses.parse_address(email)
    session.refresh(subscriber, with_for_update=True)
    if subscriber.email_key == address.folded:
        return
    if subscriber_rows.find(session, address.email) is not None:
        raise BadField("email", "This address already gets digests.")
    old = subscriber.email
    subscriber.email, subscriber.email_key = address.email, address.folded
    subscriber.link_version += 1
    session.add(Consent(subscriber_id=subscriber.id, given_at=now, how="new address confirmed by link"))
    session.flush()
    withdrawals.readdress_queued(session, subscriber.id, old=old, new=subscriber.email)
    # A notice's link restores the old address, and every member of a group could use it.
    if not subscriber.is_group:
        queue_notice_of_change(session, site, subscriber, old, now=now)


def queue_notice_of_change(
    session: Session, site: Site, subscriber: Subscriber, old: str, *, now: datetime
) -> None:
    """Queue a letter that notifies the old address of the change and has a link that restores that address.

    The new address is masked in the letter, since other people may read the old mailbox.
    """
    moved_to = addresses.masked_address(subscriber.email)
    letter = planned_letters.AddressChangedLetter(
        subscriber_id=subscriber.id,
        link_version=subscriber.link_version,
        contents={"made_at": int(now.timestamp()), "moved_to": moved_to},
    )
    expires_at = now + NEW_ADDRESS_LIFETIME
    subscriber_letters.queue_letter(
        session, site, subscriber, letter, email=old, now=now, expires_at=expires_at
    )


# ── export ──────────────────────────────────────────────────────────────────────────────────────


def export_data(session: Session, subscriber: Subscriber) -> dict[str, Any]:
    """Return a subscriber's rows as JSON values; bounces and incoming mail are not included."""
    owned = {
        "consents": Consent,
        "shown_papers": Shown,
        "saved_papers": SavedPaper,
        "updates": FollowupSent,
        "changes": SettingsChange,
    }
    return {
        "subscriber": row_values(subscriber),
        "settings": reader_settings.texts_of(subscriber),
        "topics": [
            {"name": topic.name, "filter": topic.text, "muted": topic.is_muted}
            for topic in subscriber_topics.topics_of(session, subscriber)
        ],
        **{
            name: rows_of(session, table, table.__table__.c.subscriber_id == subscriber.id)
            for name, table in owned.items()
        },
        "operator_acts": rows_of(
            session, OperatorAct, OperatorAct.subscriber_id == subscriber.id, without={"operator"}
        ),
        "letters": rows_of(
            session, Delivery, Delivery.subscriber_id == subscriber.id, without={"lease", "leased_until"}
        ),
    }


def rows_of(
    session: Session, table: type[Base], condition: Any, *, without: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return the matching rows as JSON values, without `subscriber_id` and the columns in `without`."""
    left_out = {*without, "subscriber_id"}
    return [
        {name: value for name, value in row_values(row).items() if name not in left_out}
        for row in session.scalars(select(table).where(condition))
    ]


def row_values(row: Base) -> dict[str, Any]:
    """Return the columns of a row as JSON values."""
    values = {column.name: getattr(row, column.name) for column in row.__table__.columns}
    return {
        name: value if isinstance(value, str | int | bool | float | None) else str(value)
        for name, value in values.items()
    }


# ── erasure ──────────────────────────────────────────────────────────────────────────────────────────


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
    withdrawals.forget_recipient(session, ids, now=now)
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
