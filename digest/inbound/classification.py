"""Classify and process stored mail; the action and the deletion of the mail are one transaction."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.orm import Session

from digest import bounces, failpoints, links, subscribers
from digest.bounces import Complaint, Failure, NoActionNeeded, NoticeReport
from digest.bounces.report_parser import AUTOMATIC_REPLY
from digest.bounces.sns_topics import is_topic_arn
from digest.db.tables import Delivery, InboundMail, MailState, Subscriber
from digest.inbound import command_handlers, mail_commands, sender_proof
from digest.inbound.sender_proof import SenderProof
from digest.letters.dkim_verification import Lookup
from digest.site_profile import Site

log = logging.getLogger(__name__)

BOUNCE_ADDRESS = re.compile(rb"bounce\+\d{1,19}\.[0-9a-f]{20}@[a-z0-9.-]+", re.IGNORECASE)
UNSUBSCRIBE_LINK = re.compile(rb"/u/([0-9a-f]{6}\.\d{1,19}-\d{1,9}\.[\w-]{24})")
MESSAGE_ID = re.compile(
    rb"^message-id:\s*<([\w.-]{8,100})@[\w.-]*amazonses\.com>", re.IGNORECASE | re.MULTILINE
)
SOFT_BREAK = re.compile(rb"=\r?\n")

#: Addresses that every domain must have (RFC 2142); a person reads mail to them.
ROLE_ADDRESSES = frozenset({"postmaster", "abuse"})

MaySignUp = frozenset[str] | None  #: domains whose addresses may subscribe; None for all
NOBODY: frozenset[str] = frozenset()


def no_lookup(name: str) -> list[str]:
    """Return no keys, so that no sender is proven."""
    del name
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifiedRecipient:
    """The recipient of a reported letter, identified by a signature or an id."""

    email: str | None
    subscriber: Subscriber | None
    delivery_id: int | None = None
    letter: str = ""


class UnclassifiedMail(Exception):
    """The reason why a person must read a mail."""


def is_accepted_recipient(site: Site, recipient: str) -> bool:
    """Return whether we accept mail to an address: a signed address, a role address or our sender address."""
    local, _, domain = recipient.lower().rpartition("@")
    if domain != site.inbound_domain.lower():
        return False
    if any(links.verify_address(site, purpose, recipient) for purpose in ("bounce", "unsubscribe")):
        return True
    return local in ROLE_ADDRESSES or recipient.lower() == site.sender_address.lower()


def process_stored_mails(
    session: Session,
    *,
    site: Site,
    may_sign_up: MaySignUp = NOBODY,
    lookup: Lookup = no_lookup,
    now: datetime,
) -> int:
    """Process all new stored mail; return how many there were."""
    waiting = session.scalars(
        select(InboundMail.id).where(InboundMail.state == MailState.NEW).order_by(InboundMail.id)
    ).all()
    session.commit()
    for number in waiting:
        process_mail(session, site=site, number=number, may_sign_up=may_sign_up, lookup=lookup, now=now)
    return len(waiting)


def process_mail(
    session: Session,
    *,
    site: Site,
    number: int,
    may_sign_up: MaySignUp = NOBODY,
    lookup: Lookup = no_lookup,
    now: datetime,
) -> str:
    """Process a mail and delete or shunt it; return the outcome for the log."""
    try:
        row, proof = lock_mail(session, site, number, lookup, now)
        if row is None:  # another process has processed the mail
            session.rollback()
            return "gone"
        row.state = MailState.NEW  # the mail may have been shunted before
        outcome = classify_and_apply(session, site, row, may_sign_up, proof, now)
        if row.state == MailState.NEW:
            session.delete(row)
        failpoints.reach("mail-processed")
        session.commit()
        failpoints.reach("mail-committed")
    except UnclassifiedMail as error:
        outcome = shunt(session, number, str(error))
    except DataError as error:  # retrying would fail every time and block all other mail
        log.warning("mail %d cannot be stored: %s", number, type(error.orig).__name__)
        outcome = shunt(session, number, "the database cannot store its content")
    except DBAPIError:  # not caused by the mail, so it stays new and the next tick retries
        raise
    except Exception as error:
        log.exception("mail %d cannot be processed", number)
        outcome = shunt(session, number, f"{type(error).__name__} while processing it")
    log.info("mail %d: %s", number, outcome)
    return outcome


def lock_mail(
    session: Session, site: Site, number: int, lookup: Lookup, now: datetime
) -> tuple[InboundMail | None, SenderProof | None]:
    """Return a locked mail and the proof of its sender, if any; DNS is queried without the lock."""
    row = session.get(InboundMail, number, with_for_update=True)
    if row is None or not awaits_proof(site, row.recipient, row.content, now):
        return row, None
    content = row.content
    session.commit()
    proof = proof_of(site, content, lookup, now)
    return session.get(InboundMail, number, with_for_update=True, populate_existing=True), proof


def awaits_proof(site: Site, recipient: str, content: bytes, now: datetime) -> bool:
    """Return whether a mail asks to subscribe and has a signature that may prove the sender."""
    if recipient.lower() != site.sender_address.lower():
        return False
    email = command_handlers.address_to_subscribe(site, content)
    return bool(email and sender_proof.usable_signatures(content, email, to=site.sender_address, now=now))


def proof_of(site: Site, content: bytes, lookup: Lookup, now: datetime) -> SenderProof | None:
    """Return the proof of the sender of a mail that asks to subscribe, if any."""
    email = command_handlers.address_to_subscribe(site, content)
    return (
        sender_proof.prove_sender(content, email, to=site.sender_address, lookup=lookup, now=now)
        if email
        else None
    )


def shunt(session: Session, number: int, reason: str) -> str:
    """Keep a mail for a person to read, with the reason."""
    session.rollback()
    row = session.get(InboundMail, number)
    if row is not None:
        row.state, row.reason = MailState.SHUNTED, reason
    session.commit()
    return f"shunted: {reason}"


def classify_and_apply(  # noqa: PLR0911  (one return for each class of mail)
    session: Session,
    site: Site,
    row: InboundMail,
    may_sign_up: MaySignUp,
    proof: SenderProof | None,
    now: datetime,
) -> str:
    """Process a mail and return the outcome, or raise UnclassifiedMail."""
    unsubscribed = links.verify_address(site, "unsubscribe", row.recipient)
    if unsubscribed is not None:
        return apply_unsubscribe(session, site, unsubscribed, row, now)
    if is_topic_arn(row.recipient):
        return apply_notice(session, site, row, now)
    report = bounces.read_report(row.content)
    if report is None:
        return apply_commands(session, site, row, may_sign_up, proof, now)
    if report == AUTOMATIC_REPLY and row.recipient.partition("@")[0].lower() in ROLE_ADDRESSES:
        raise UnclassifiedMail("an automatic mail to postmaster or abuse")  # such as from a blocklist
    if isinstance(report, NoActionNeeded):
        return report.reason
    recipient = identify_recipient(session, site, row)
    if recipient is not None:
        return count_report(session, site, recipient, report, now)
    reader = reader_of_quoted_letter(session, site, row.content) if isinstance(report, Complaint) else None
    if reader is None:
        raise UnclassifiedMail("it reports on a letter that we cannot identify")
    subscribers.unsubscribe(session, site, reader, now=now)
    return f"subscriber {reader.id} unsubscribed: a complaint quotes a letter to them"


def apply_commands(
    session: Session,
    site: Site,
    row: InboundMail,
    may_sign_up: MaySignUp,
    proof: SenderProof | None,
    now: datetime,
) -> str:
    """Run the commands in a mail to the sender address of our letters."""
    is_to_us = row.recipient.lower() == site.sender_address.lower()
    commands = mail_commands.parse_commands(row.content) if is_to_us and row.sender else []
    if not commands:
        raise UnclassifiedMail("it is neither a report nor a command")
    try:
        done = command_handlers.run_commands(
            session, site, row.content, commands=commands, may_sign_up=may_sign_up, proof=proof, now=now
        )
    except command_handlers.CommandsIgnored as error:
        raise UnclassifiedMail(str(error)) from error
    if done.needs_human:
        row.state, row.reason = MailState.SHUNTED, done.outcome
    return done.outcome


def apply_notice(session: Session, site: Site, row: InboundMail, now: datetime) -> str:
    """Count the report in a provider's notice, whose signature was verified before it was stored."""
    notice = bounces.read_notice(row.content)
    if notice is None:
        raise UnclassifiedMail("it is not a known SES notice")
    if isinstance(notice.report, NoActionNeeded):
        return notice.report.reason
    recipient = identify_notice_recipient(session, site, notice)
    if recipient is None:
        raise UnclassifiedMail("it reports on an unknown letter")
    return count_report(session, site, recipient, notice.report, now)


def apply_unsubscribe(session: Session, site: Site, subject: str, row: InboundMail, now: datetime) -> str:
    """Unsubscribe the subscriber whose unsubscribe address received a mail from any sender."""
    if not row.sender:
        return "a report on mail to an unsubscribe address"
    number, _, link_version = subject.partition("-")
    subscriber = session.get(Subscriber, int(number))
    if subscriber is None or subscriber.link_version != int(link_version):
        return "an unsubscribe address of an unknown subscriber"
    subscribers.unsubscribe(session, site, subscriber, now=now)
    return f"subscriber {number} unsubscribed"


def count_report(
    session: Session, site: Site, recipient: IdentifiedRecipient, report: Failure | Complaint, now: datetime
) -> str:
    """Count a failure or complaint against its address; a complaint also unsubscribes."""
    if recipient.email is None or recipient.letter == "alarm":
        return "about a letter that counts against no address"
    result = bounces.record_failure(
        session,
        site,
        recipient.email,
        report,
        now=now,
        delivery_id=recipient.delivery_id,
        cadence=recipient.subscriber.cadence if recipient.subscriber else "daily",
    )
    if isinstance(report, Complaint) and recipient.subscriber is not None:
        subscribers.mark_unsubscribed(session, recipient.subscriber, now=now)
    which = f" on delivery {recipient.delivery_id}" if recipient.delivery_id else ""
    ending = ", frozen" if result.is_frozen else ", suppressed" if result.is_suppressed else ""
    return f"{result.kind}{which}{ending}"


# ── the recipient ───────────────────────────────────────────────────────────────────────────────


def identify_recipient(session: Session, site: Site, row: InboundMail) -> IdentifiedRecipient | None:
    """Return the recipient identified by a bounce address in a report; only mail servers see bounce addresses."""
    content = SOFT_BREAK.sub(b"", row.content)
    shown = (found[0].decode() for found in BOUNCE_ADDRESS.finditer(content))
    for address in (row.recipient, *shown):
        number = links.verify_address(site, "bounce", address)
        if number is not None:
            return recipient_of_delivery(session, int(number))
    return None


def reader_of_quoted_letter(session: Session, site: Site, content: bytes) -> Subscriber | None:
    """Return the subscriber whose letter a report quotes.

    Digests get forwarded, so this proves only that somebody had the letter. It therefore has no more
    effect than opening the letter's unsubscribe link.
    """
    content = SOFT_BREAK.sub(b"", content)
    for found in UNSUBSCRIBE_LINK.finditer(content):
        named = links.read_subscriber_token(site, "unsubscribe", found[1].decode())
        subscriber = session.get(Subscriber, named[0]) if named else None
        if named and subscriber and subscriber.link_version == named[1]:
            return subscriber
    for found in MESSAGE_ID.finditer(content):
        number = session.scalar(select(Delivery.id).where(Delivery.provider_id == found[1].decode()))
        if number is not None:
            return recipient_of_delivery(session, number).subscriber
    return None


def identify_notice_recipient(
    session: Session, site: Site, notice: NoticeReport
) -> IdentifiedRecipient | None:
    """Return the recipient of a notice by the provider's id, our envelope sender, or the recipient's address."""
    if notice.provider_id:
        named = select(Delivery.id).where(Delivery.provider_id == notice.provider_id.partition("@")[0])
        if (number := session.scalar(named)) is not None:
            return recipient_of_delivery(session, number)
    signed = links.verify_address(site, "bounce", notice.sender)
    if signed is not None:
        return recipient_of_delivery(session, int(signed))
    if notice.recipient:
        is_recipient = func.lower(Delivery.email) == notice.recipient.strip("<> ").lower()
        last = select(Delivery.id).where(is_recipient).order_by(Delivery.id.desc()).limit(1)
        if (number := session.scalar(last)) is not None:
            return recipient_of_delivery(session, number)
    return None


def recipient_of_delivery(session: Session, number: int) -> IdentifiedRecipient:
    """Return the recipient of a delivery, without an address if the delivery is unknown or erased."""
    delivery = session.get(Delivery, number)
    if delivery is None:
        return IdentifiedRecipient(email=None, subscriber=None)
    subscriber = session.get(Subscriber, delivery.subscriber_id) if delivery.subscriber_id else None
    return IdentifiedRecipient(
        email=delivery.email, subscriber=subscriber, delivery_id=number, letter=delivery.letter
    )
