"""Classify and process stored mail; each message is acted on and deleted in one transaction."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import func, select
from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.orm import Session

from digest.bounces import bounce_score, ses_notices
from digest.bounces.report_parser import AUTOMATIC_REPLY, Complaint, Failure, NoActionNeeded, failure_of_text
from digest.bounces.ses_notices import NoticeReport, is_topic_arn
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.inbound_mail import InboundMail, MailPurpose, MailState
from digest.db.tables.subscribers import Subscriber
from digest.inbound import (
    answered_letter,
    command_handlers,
    confirm_replies,
    find_commands,
    mail_text,
    mail_without_command,
    sender_proof,
    stored_mail,
    words_around_commands,
    writer_checks,
)
from digest.inbound.mail_commands import Confirm, Subscribe
from digest.inbound.mail_rules import MailContext, MailRules
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.reader_request import CommandMail, MailOutcome, topics_of
from digest.inbound.sender_proof import SenderProof
from digest.inbound.stored_mail import purpose_of
from digest.inbound.writer_checks import MailIgnored
from digest.process import failpoints
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import still_reading, subscriber_rows, unsubscribe_and_undo
from digest.subscribers.welcome_letters import ChoosePapers

log = logging.getLogger(__name__)

BOUNCE_ADDRESS = re.compile(rb"bounce\+\d{1,19}\.[0-9a-f]{20}@[a-z0-9.-]+", re.IGNORECASE)
#: The links and addresses in our letters that are signed for one subscriber, and the purpose of each link.
SIGNED_LINK = re.compile(rb"/([uvsl])/([0-9a-f]{6}\.\d{1,19}-\d{1,9}(?:-[\w-]{1,24})?\.[\w-]{24})")
LINK_PURPOSES = {b"u": "unsubscribe", b"v": "view", b"s": "paper", b"l": "paper"}
SIGNED_ADDRESS = re.compile(
    rb"(unsubscribe|reply)\+\d{1,19}-\d{1,9}(?:-[\w-]{1,24})?\.[0-9a-f]{20}@", re.IGNORECASE
)
MESSAGE_ID = re.compile(
    rb"^message-id:\s*<([\w.-]{8,100})@[\w.-]*amazonses\.com>", re.IGNORECASE | re.MULTILINE
)
SOFT_BREAK = re.compile(rb"=\r?\n")
MAX_QUOTED = 20  #: maximum number of quoted links and ids that are looked up, each with a query

DEFAULT_RULES = MailRules()


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifiedRecipient:
    """The recipient of a letter to which a report refers, identified by a signature or an id."""

    email: str | None
    subscriber: Subscriber | None
    delivery_id: int | None = None
    letter: str = ""

    @property
    def is_group(self) -> bool:
        """Return whether the letter went to a group's address, rather than to its owner."""
        return (
            self.subscriber is not None
            and self.subscriber.is_group
            and answered_letter.is_same_address(self.email or "", self.subscriber.email)
        )


def is_accepted_recipient(site: Site, recipient: str) -> bool:
    """Return whether we accept mail to an address: a signed address, a role address or a command address."""
    if recipient.lower().rpartition("@")[2] != site.inbound_domain.lower():
        return False
    if any(links.verify_address(site, purpose, recipient) for purpose in ("bounce", "unsubscribe", "reply")):
        return True
    return purpose_of(recipient) is MailPurpose.ROLE or find_commands.takes_commands_at(site, recipient)


def may_be_kept(site: Site, recipient: str, mail: ReceivedMail | None) -> bool:
    """Return whether a message is neither a command nor to a signed address, so that the operator may have to read it."""
    match purpose_of(recipient):
        case MailPurpose.SIGNED:
            return False
        case MailPurpose.COMMANDS if mail and not mail.report:
            return not find_commands.read_at(site, recipient, mail).commands
    return True


def process_stored_mails(
    session: Session, *, site: Site, rules: MailRules = DEFAULT_RULES, now: datetime
) -> int:
    """Process all new stored messages; return the number of processed messages.

    A message that the database refuses blocks no other message; its error is raised at the end.
    """
    waiting = session.scalars(
        select(InboundMail.id).where(InboundMail.state == MailState.NEW).order_by(InboundMail.id)
    ).all()
    session.commit()
    failed: DBAPIError | None = None
    for number in waiting:
        try:
            process_mail(session, site=site, number=number, rules=rules, now=now)
        except DBAPIError as error:
            session.rollback()
            failed = error
    if failed is not None:
        raise failed
    return len(waiting)


def process_mail(
    session: Session,
    *,
    site: Site,
    number: int,
    mail: ReceivedMail | None = None,
    rules: MailRules = DEFAULT_RULES,
    now: datetime,
) -> str:
    """Process a message, then delete it or keep it for the operator; return the outcome for the log.

    `mail` is the message, if it was parsed already.
    """
    try:
        outcome = lock_and_apply(
            MailContext(session=session, site=site, rules=rules, now=now), number=number, mail=mail
        )
    except MailIgnored as error:
        outcome = shunt(session, number, str(error))
    except DataError as error:  # a retry would fail every time and block all other mail
        log.warning("mail %d cannot be stored: %s", number, type(error.orig).__name__)
        outcome = shunt(session, number, "the database cannot store its content")
    except DBAPIError:  # the message is not the cause, so it stays new and the next run retries
        raise
    except Exception as error:
        log.exception("mail %d cannot be processed", number)
        outcome = shunt(session, number, f"{type(error).__name__} while processing it")
    log.info("mail %d: %s", number, outcome)
    return outcome


def lock_and_apply(context: MailContext, *, number: int, mail: ReceivedMail | None) -> str:
    """Process a message in one transaction with its deletion, and return the outcome."""
    session, known = context.session, prepare_facts(context, number, mail)
    row = session.get(InboundMail, number, with_for_update=True, populate_existing=True)
    if known is None or row is None:  # another process has processed the message
        session.rollback()
        return "gone"
    row.state = MailState.NEW  # an earlier attempt may have kept the message for the operator
    outcome = classify_and_apply(context, row, known)
    if row.state == MailState.NEW:
        session.delete(row)
    failpoints.reach("mail-processed")
    session.commit()
    failpoints.reach("mail-committed")
    return outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedFacts:
    """A parsed message and the facts that are slow to determine, prepared before the message is locked."""

    mail: ReceivedMail
    proof: SenderProof | None = None
    #: chooses the papers of the welcome letter; set only if the message may confirm a subscription
    choose_papers: ChoosePapers | None = None


def prepare_facts(context: MailContext, number: int, mail: ReceivedMail | None) -> PreparedFacts | None:
    """Parse a message and query the DNS outside any transaction; return None if the message is gone."""
    site, rules, row = context.site, context.rules, context.session.get(InboundMail, number)
    context.session.commit()
    if row is None:
        return None
    recipient, mail = row.recipient, mail or mail_text.read_mail(row.content)
    email = sender_to_prove(site, recipient, mail)
    may_confirm = links.read_confirm_address(site, recipient) is not None
    return PreparedFacts(
        mail=mail,
        proof=sender_proof.proof_of_sender(
            mail, email, to=recipient, authserv_id=rules.authserv_id, lookup=rules.lookup, now=context.now
        )
        if email
        else None,
        choose_papers=rules.prepare_welcome() if may_confirm and rules.prepare_welcome else None,
    )


def awaits_proof(site: Site, recipient: str, mail: ReceivedMail, now: datetime) -> bool:
    """Return whether the sender of this message must be proven and one of its signatures might prove it."""
    email = sender_to_prove(site, recipient, mail)
    return bool(email and sender_proof.usable_signatures(mail, email, to=recipient, now=now))


def sender_to_prove(site: Site, recipient: str, mail: ReceivedMail) -> str | None:
    """Return the From address of a message whose commands need proof of the sender; None for other mail.

    Only sign-ups and replies to letters need such proof.
    """
    if links.read_reply_address(site, recipient) is None and not find_commands.asks_to_subscribe(
        site, recipient, mail
    ):
        return None
    try:
        return writer_checks.address_of_writer(site, mail)
    except MailIgnored:
        return None


def shunt(session: Session, number: int, reason: str) -> str:
    """Keep a message for the operator to read, and store the reason."""
    session.rollback()
    row = session.get(InboundMail, number)
    if row is not None:
        stored_mail.keep(session, row, reason)
        still_reading.note_mail(session, row.sender, received_at=row.received_at)
    session.commit()
    return f"shunted: {reason}"


def classify_and_apply(  # noqa: PLR0911  (one return for each class of mail)
    context: MailContext, row: InboundMail, known: PreparedFacts
) -> str:
    """Process a message and return the outcome, or raise MailIgnored with the reason to keep it."""
    unsubscribed = links.verify_address(context.site, "unsubscribe", row.recipient)
    if unsubscribed is not None:
        return apply_unsubscribe(context, unsubscribed, row)
    if is_topic_arn(row.recipient):
        return apply_notice(context, row)
    report = known.mail.report
    if report is None and not row.sender and links.verify_address(context.site, "bounce", row.recipient):
        report = failure_of_text(known.mail.text)
    if report is None:
        return apply_personal_mail(context, row, known)
    if report == AUTOMATIC_REPLY and row.purpose == MailPurpose.ROLE:
        # For example, mail from a blocklist.
        raise MailIgnored("an automatic message to postmaster or abuse")
    if isinstance(report, NoActionNeeded):
        return report.reason
    recipient = identify_recipient(context, row)
    if recipient is not None:
        return count_report(context, recipient, report)
    if isinstance(report, Complaint):
        return count_quoted_complaint(context, row, report)
    raise MailIgnored("the report is about a letter that we cannot identify")


def count_quoted_complaint(context: MailContext, row: InboundMail, report: Complaint) -> str:
    """Unsubscribe the reader whose letter a complaint quotes, and count it if that letter was a digest."""
    session, site, now = context.session, context.site, context.now
    quoted = reader_of_quoted_letter(context, row.content)
    if quoted is None or quoted.subscriber is None:
        raise MailIgnored("the report is about a letter that we cannot identify")
    if quoted.is_group:
        return record_members_report(context, quoted, report)
    if quoted.delivery_id is not None and quoted.email is not None:
        bounce_score.store_report(
            session, site, quoted.email, report, now=now, delivery_id=quoted.delivery_id
        )
    unsubscribe_and_undo.unsubscribe(session, site, quoted.subscriber, now=now)
    return f"subscriber {quoted.subscriber.id} unsubscribed: a complaint quoted a letter to this subscriber"


def apply_personal_mail(context: MailContext, row: InboundMail, known: PreparedFacts) -> str:
    """Process a message that a person may have written: a confirmation, commands or any other text."""
    session, site = context.session, context.site
    if not row.sender or not find_commands.takes_commands_at(site, row.recipient):
        raise MailIgnored("the mail is neither a report nor a command")
    still_reading.note_mail(session, row.sender, received_at=row.received_at)
    confirmation = links.read_confirm_address(site, row.recipient)
    writer = subscriber_rows.find(session, writer_checks.address_of_writer(site, known.mail))
    topics = list(topics_of(session, writer)) if writer else []
    read = find_commands.read_at(site, row.recipient, known.mail, topics=topics)
    mail = CommandMail(
        message=known.mail,
        commands=read.commands,
        unread=read.unread,
        proof=known.proof,
        answered=answered_letter.find(session, site, row.recipient),
        network=row.network,
    )
    done = None
    if confirmation is not None and not mail.leaves:
        done = apply_confirmation(context, confirmation, mail, known)
    if done is None and mail.commands:
        done = command_handlers.run_commands(context, mail)
    done = done or mail_without_command.answer(context, mail)
    if done.needs_human:
        stored_mail.keep(session, row, done.outcome)
    return done.outcome


def apply_confirmation(
    context: MailContext, number: int, mail: CommandMail, known: PreparedFacts
) -> MailOutcome | None:
    """Process a reply to a confirmation letter; commands below a `yes` change the new settings at once."""
    reply = confirm_replies.apply_reply(context, number, mail, choose_papers=known.choose_papers)
    if reply is None:
        return None
    commands = [one for one in mail.commands if one.kind is not Confirm]
    others = [one for one in commands if one.argument or one.kind is not Subscribe]
    consent = words_around_commands.consent_in(confirm_replies.first_line(mail))
    is_wish = words_around_commands.WISH_BESIDE_YES.search
    rest = (
        line.removeprefix(consent).strip() for line in mail.unread if line not in consent or is_wish(line)
    )
    unread = [line for line in rest if not words_around_commands.is_polite(line)]
    if reply.confirmed is None or not (others or unread):
        return reply
    further = replace(mail, commands=others, unread=unread, is_confirmation=True)
    try:
        done = command_handlers.reply_to_reader(context, reply.confirmed, further)
    except MailIgnored:  # an answer too many does not undo the confirmation
        return reply
    return MailOutcome(outcome=f"{reply.outcome}; {done.outcome}", needs_human=done.needs_human)


def apply_notice(context: MailContext, row: InboundMail) -> str:
    """Count the bounce or complaint in a provider's notice, whose signature was verified earlier."""
    notice = ses_notices.read_notice(row.content)
    if notice is None:
        raise MailIgnored("the mail is not a known SES notice")
    if isinstance(notice.report, NoActionNeeded):
        return notice.report.reason
    recipient = identify_notice_recipient(context, notice)
    if recipient is None:
        raise MailIgnored("the report is about an unknown letter")
    return count_report(context, recipient, notice.report)


def apply_unsubscribe(context: MailContext, subject: str, row: InboundMail) -> str:
    """Unsubscribe the subscriber to whose unsubscribe address a message was sent, whoever sent it."""
    if not row.sender:
        return "a report on mail to an unsubscribe address"
    number, _, link_version = subject.partition("-")
    subscriber = context.session.get(Subscriber, int(number))
    if subscriber is None or subscriber.link_version != int(link_version):
        return "an unsubscribe address of an unknown subscriber"
    unsubscribe_and_undo.unsubscribe(context.session, context.site, subscriber, now=context.now)
    return f"subscriber {number} unsubscribed"


def count_report(context: MailContext, recipient: IdentifiedRecipient, report: Failure | Complaint) -> str:
    """Count a failure or complaint against the recipient's address; on a complaint, also unsubscribe them."""
    if recipient.email is None or recipient.letter == "alarm":
        return "about a letter that counts against no address"
    # An alias does not handle bounces, so we get the reports of failures at its members' mailboxes.
    failed = report.failed_mailboxes if isinstance(report, Failure) else ()
    is_own = any(answered_letter.is_same_address(one, recipient.email) for one in failed)
    is_of_member = isinstance(report, Complaint) or (bool(failed) and not is_own)
    if recipient.is_group and is_of_member:
        return record_members_report(context, recipient, report)
    result = bounce_score.record_failure(
        context.session,
        context.site,
        recipient.email,
        report,
        now=context.now,
        delivery_id=recipient.delivery_id,
        cadence=recipient.subscriber.cadence if recipient.subscriber else "daily",
    )
    if isinstance(report, Complaint) and recipient.subscriber is not None:
        unsubscribe_and_undo.mark_unsubscribed(context.session, recipient.subscriber, now=context.now)
    which = f" on delivery {recipient.delivery_id}" if recipient.delivery_id else ""
    ending = ", frozen" if result.is_frozen else ", suppressed" if result.is_suppressed else ""
    return f"{result.kind}{which}{ending}"


def record_members_report(
    context: MailContext, recipient: IdentifiedRecipient, report: Failure | Complaint
) -> str:
    """Return the outcome of a report that concerns one member and must not end the whole group's digests.

    A complaint is stored, because it counts towards the rate of complaints.
    """
    if isinstance(report, Failure):
        return "a failure at one member of a group; it counts against no address"
    bounce_score.store_report(
        context.session, context.site, recipient.email or "", report,
        now=context.now, delivery_id=recipient.delivery_id,
    )  # fmt: skip
    return "a complaint of one member of a group, whose digests continue"


# ── the recipient ───────────────────────────────────────────────────────────────────────────────


def identify_recipient(context: MailContext, row: InboundMail) -> IdentifiedRecipient | None:
    """Return the recipient that a report's bounce address identifies.

    Only mail servers see bounce addresses, so the address identifies the recipient reliably.
    """
    content = SOFT_BREAK.sub(b"", row.content)
    shown = (found[0].decode() for found in BOUNCE_ADDRESS.finditer(content))
    for address in (row.recipient, *shown):
        number = links.verify_address(context.site, "bounce", address)
        if number is not None:
            return recipient_of_delivery(context.session, int(number))
    return None


def reader_of_quoted_letter(context: MailContext, content: bytes) -> IdentifiedRecipient | None:
    """Return the subscriber whose letter a report quotes, and the digest that it was, if it was one.

    Mailbox providers remove the recipient and the envelope from a complaint, so any value that we signed
    counts. Digests are forwarded, so a quoted letter proves only that the sender had a copy. The report
    therefore has the same effect as opening the letter's unsubscribe link, and counts as one complaint.
    """
    session, content = context.session, SOFT_BREAK.sub(b"", content)
    subjects = list(dict.fromkeys(islice(signed_subjects(context.site, content), MAX_QUOTED)))
    for subject in sorted(subjects, key=lambda subject: subject.count("-") < 2):  # editions first
        number, link_version, *edition = subject.split("-", 2)
        subscriber = session.get(Subscriber, int(number))
        if subscriber is not None and subscriber.link_version == int(link_version):
            return recipient_of_digest(session, subscriber, *edition)
    for found in islice(MESSAGE_ID.finditer(content), MAX_QUOTED):
        delivery = session.scalar(select(Delivery.id).where(Delivery.provider_id == found[1].decode()))
        recipient = recipient_of_delivery(session, delivery) if delivery is not None else None
        if recipient is not None and recipient.subscriber is not None:
            return recipient
    return None


def signed_subjects(site: Site, content: bytes) -> Iterator[str]:
    """Yield what the signed links and addresses in a letter name: `NUMBER-VERSION` or `NUMBER-VERSION-EDITION`."""
    for found in SIGNED_LINK.finditer(content):
        if subject := links.verify_token(site, LINK_PURPOSES[found[1]], found[2].decode()):
            yield subject
    for found in SIGNED_ADDRESS.finditer(content):
        if subject := links.verify_address(site, found[1].decode().lower(), found[0].decode()):
            yield subject


def recipient_of_digest(session: Session, subscriber: Subscriber, edition: str = "") -> IdentifiedRecipient:
    """Return the recipient of a subscriber's digest of this edition, or else of the latest digest that was sent."""
    sent = select(Delivery.id).where(
        Delivery.subscriber_id == subscriber.id,
        Delivery.edition.is_not(None),
        Delivery.state == DeliveryState.SENT,
    )
    if edition:
        sent = sent.where(func.lower(Delivery.edition) == edition.lower())
    number = session.scalar(sent.order_by(Delivery.id.desc()).limit(1))
    if number is not None:
        return recipient_of_delivery(session, number)
    return IdentifiedRecipient(email=subscriber.email, subscriber=subscriber)


def identify_notice_recipient(context: MailContext, notice: NoticeReport) -> IdentifiedRecipient | None:
    """Return the recipient that a notice is about, found by provider id, envelope sender or address."""
    session, last = context.session, select(Delivery.id).order_by(Delivery.id.desc()).limit(1)
    number = session.scalar(last.where(Delivery.provider_id == notice.provider_id.partition("@")[0]))
    if number is None and (signed := links.verify_address(context.site, "bounce", notice.sender)):
        number = int(signed)
    if number is None and notice.recipient:
        number = session.scalar(
            last.where(func.lower(Delivery.email) == notice.recipient.strip("<> ").lower())
        )
    return recipient_of_delivery(session, number) if number is not None else None


def recipient_of_delivery(session: Session, number: int) -> IdentifiedRecipient:
    """Return the recipient of a delivery; the address is None if the delivery is unknown or erased."""
    delivery = session.get(Delivery, number)
    if delivery is None:
        return IdentifiedRecipient(email=None, subscriber=None)
    subscriber = session.get(Subscriber, delivery.subscriber_id) if delivery.subscriber_id else None
    return IdentifiedRecipient(
        email=delivery.email, subscriber=subscriber, delivery_id=number, letter=delivery.letter
    )
