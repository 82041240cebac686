"""Understanding: what a mail asks of us is done once, in the transaction that lets go of the mail."""

from __future__ import annotations

import email as mail
import logging
import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.orm import Session

from digest import bounces, failpoints, links, subscriptions
from digest.bounces import Complaint, Failure, Nothing, Told
from digest.bounces.reading import AUTOMATIC, is_automatic
from digest.inbox import commands, notices, obeying
from digest.links import Site
from digest.model import Delivery, MailIn, MailState, Subscriber

log = logging.getLogger(__name__)

BOUNCE_ADDRESS = re.compile(rb"bounce\+\d{1,19}\.[0-9a-f]{20}@[a-z0-9.-]+", re.IGNORECASE)
UNSUBSCRIBE_LINK = re.compile(rb"/u/([0-9a-f]{6}\.\d{1,19}-\d{1,9}\.[\w-]{24})")
MESSAGE_ID = re.compile(
    rb"^message-id:\s*<([\w.-]{8,100})@[\w.-]*amazonses\.com>", re.IGNORECASE | re.MULTILINE
)
SOFT_BREAK = re.compile(rb"=\r?\n")

#: Names at which every domain must be reachable (RFC 2142); what comes there is for a person.
FOR_A_PERSON = frozenset({"postmaster", "abuse"})

MaySignUp = frozenset[str] | None  #: the domains whose people may subscribe; None: everybody
NO_ONE: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """Whom a mail is about, proven by something only we can have made."""

    email: str | None
    subscriber: Subscriber | None
    delivery_id: int | None = None
    letter: str = ""


class NotUnderstood(Exception):
    """Why a mail is shown to a person."""


def is_for_us(site: Site, recipient: str) -> bool:
    """Return whether mail to this address is taken in: our own names, and addresses we have made."""
    local, _, domain = recipient.lower().rpartition("@")
    if domain != site.inbound_domain.lower():
        return False
    if any(links.opened_address(site, purpose, recipient) for purpose in ("bounce", "leave")):
        return True
    return local in FOR_A_PERSON or recipient.lower() == site.sender_address.lower()


def look_through(session: Session, *, site: Site, may_sign_up: MaySignUp = NO_ONE, now: datetime) -> int:
    """Look at every mail that was kept and not yet looked at; return how many those were."""
    waiting = session.scalars(
        select(MailIn.id).where(MailIn.state == MailState.NEW).order_by(MailIn.id)
    ).all()
    session.commit()
    for number in waiting:
        look(session, site=site, number=number, may_sign_up=may_sign_up, now=now)
    return len(waiting)


def look(session: Session, *, site: Site, number: int, may_sign_up: MaySignUp = NO_ONE, now: datetime) -> str:
    """Do what a mail asks and let go of it, or shunt it; return what came of it."""
    row = session.get(MailIn, number, with_for_update=True)
    if row is None:  # somebody else was faster
        session.rollback()
        return "gone"
    try:
        outcome = done(session, site, row, may_sign_up, now)
        session.delete(row)
        failpoints.reach("mail-understood")
        session.commit()
        failpoints.reach("mail-let-go")
    except NotUnderstood as error:
        outcome = shunt(session, number, str(error))
    except (
        DataError
    ) as error:  # what it says cannot be kept: it would stand in the way of all others for ever
        log.warning("mail %d cannot be kept: %s", number, type(error.orig).__name__)
        outcome = shunt(session, number, "it says what the database cannot keep")
    except DBAPIError:  # not the mail's fault: it stays as it is, and the next tick looks again
        raise
    except Exception as error:
        log.exception("mail %d cannot be read", number)
        outcome = shunt(session, number, f"{type(error).__name__} while reading it")
    log.info("mail %d: %s", number, outcome)
    return outcome


def shunt(session: Session, number: int, reason: str) -> str:
    """Keep a mail for a person to look at, with the reason."""
    session.rollback()
    row = session.get(MailIn, number)
    if row is not None:
        row.state, row.reason = MailState.SHUNTED, reason
    session.commit()
    return f"shunted: {reason}"


def done(session: Session, site: Site, row: MailIn, may_sign_up: MaySignUp, now: datetime) -> str:
    """Do what a mail asks and return what that was, or raise NotUnderstood."""
    leaving = links.opened_address(site, "leave", row.recipient)
    if leaving is not None:
        return leave(session, site, leaving, row, now)
    if notices.is_topic(row.recipient):
        return noticed(session, site, row, now)
    meaning = bounces.read(row.content)
    if meaning is None:
        return obeyed(session, site, row, may_sign_up, now)
    if meaning == AUTOMATIC and row.recipient.partition("@")[0].lower() in FOR_A_PERSON:
        raise NotUnderstood("a machine wrote it, and to a person")  # an abuse desk, or who lists our address
    if isinstance(meaning, Nothing):
        return meaning.because
    about = subject_of(session, site, row)
    if about is None:
        raise NotUnderstood("it reports on a letter that we cannot prove to be ours")
    return counted(session, site, about, meaning, now)


def obeyed(session: Session, site: Site, row: MailIn, may_sign_up: MaySignUp, now: datetime) -> str:
    """Do what a person asks in a mail to the address that our letters come from."""
    is_to_us = row.recipient.lower() == site.sender_address.lower()
    asked = commands.read(row.content) if is_to_us and row.sender else []
    if not asked:
        raise NotUnderstood("it is no report, and no command")
    try:
        return obeying.obey(session, site, row.content, asked=asked, may_sign_up=may_sign_up, now=now)
    except obeying.NotObeyed as error:
        raise NotUnderstood(str(error)) from error


def noticed(session: Session, site: Site, row: MailIn, now: datetime) -> str:
    """Do what a provider's notice asks; its signature was checked before it was kept."""
    told = bounces.read_notice(row.content)
    if told is None:
        raise NotUnderstood("it is no notice of SES that we know")
    if isinstance(told.meaning, Nothing):
        return told.meaning.because
    about = subject_of_notice(session, site, told)
    if about is None:
        raise NotUnderstood("it tells of a letter that we do not know")
    return counted(session, site, about, told.meaning, now)


def leave(session: Session, site: Site, subject: str, row: MailIn, now: datetime) -> str:
    """Let the subscriber go whose address was written to, whoever wrote."""
    if not row.sender:
        return "a report on mail to an address for leaving"
    number, _, epoch = subject.partition("-")
    subscriber = session.get(Subscriber, int(number))
    if subscriber is None or subscriber.epoch != int(epoch):
        return "somebody left who is not here"
    if is_automatic(mail.message_from_bytes(row.content)):
        subscriptions.leave(session, subscriber, now=now)
    else:
        subscriptions.unsubscribe(session, site, subscriber, now=now)
    return f"subscriber {number} left"


def counted(session: Session, site: Site, about: About, meaning: Failure | Complaint, now: datetime) -> str:
    """Count a failure or a complaint against its address; who complains has left."""
    if about.email is None or about.letter == "alarm":
        return "about a letter that counts for nobody"
    result = bounces.record(
        session,
        site,
        about.email,
        meaning,
        now=now,
        delivery_id=about.delivery_id,
        cadence=about.subscriber.cadence if about.subscriber else "daily",
    )
    if isinstance(meaning, Complaint) and about.subscriber is not None:
        subscriptions.leave(session, about.subscriber, now=now)
    which = f" on delivery {about.delivery_id}" if about.delivery_id else ""
    ending = ", frozen" if result.is_frozen else ", suppressed" if result.is_suppressed else ""
    return f"{result.kind}{which}{ending}"


# ── whom it is about ────────────────────────────────────────────────────────────────────────────


def subject_of(session: Session, site: Site, row: MailIn) -> About | None:
    """Return whom a report is about: by the address it came to, else by a letter of ours that it shows."""
    content = SOFT_BREAK.sub(b"", row.content)
    shown = (found[0].decode() for found in BOUNCE_ADDRESS.finditer(content))
    for address in (row.recipient, *shown):
        number = links.opened_address(site, "bounce", address)
        if number is not None:
            return of_delivery(session, int(number))
    for found in MESSAGE_ID.finditer(content):
        number_there = session.scalar(select(Delivery.id).where(Delivery.provider_id == found[1].decode()))
        if number_there is not None:
            return of_delivery(session, number_there)
    for found in UNSUBSCRIBE_LINK.finditer(content):
        named = links.subscriber_in(site, "unsubscribe", found[1].decode())
        subscriber = session.get(Subscriber, named[0]) if named else None
        if named and subscriber and subscriber.epoch == named[1]:
            return About(email=subscriber.email, subscriber=subscriber)
    return None


def subject_of_notice(session: Session, site: Site, told: Told) -> About | None:
    """Return whom a notice is about: by the provider's name for the letter, ours, or the address it went to."""
    if told.provider_id:
        named = select(Delivery.id).where(Delivery.provider_id == told.provider_id.partition("@")[0])
        if (number := session.scalar(named)) is not None:
            return of_delivery(session, number)
    sealed = links.opened_address(site, "bounce", told.sender)
    if sealed is not None:
        return of_delivery(session, int(sealed))
    if told.recipient:
        theirs = func.lower(Delivery.email) == told.recipient.strip("<> ").lower()
        last = select(Delivery.id).where(theirs).order_by(Delivery.id.desc()).limit(1)
        if (number := session.scalar(last)) is not None:
            return of_delivery(session, number)
    return None


def of_delivery(session: Session, number: int) -> About:
    """Return whom a delivery went to; one that is no longer known, or was erased, is about nobody."""
    delivery = session.get(Delivery, number)
    if delivery is None:
        return About(email=None, subscriber=None)
    subscriber = session.get(Subscriber, delivery.subscriber_id) if delivery.subscriber_id else None
    return About(email=delivery.email, subscriber=subscriber, delivery_id=number, letter=delivery.letter)
