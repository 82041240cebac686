"""Answer mail that contains no command with examples of commands, and pass it on to the operator.

Each address gets only one such answer a day; its later messages are still passed on, up to a limit. Spam,
automatic replies and mail with links from strangers get no answer, since their From lines may be forged.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from digest import addresses, bounces, links
from digest.db.tables import SubscriberState
from digest.delivery import outbox
from digest.inbound import answer_limits, answered_letter, mail_text, reader_commands, writer_checks
from digest.inbound.answered_letter import AnsweredLetter
from digest.inbound.mail_commands import AddTopic, MailCommand, PauseDigests, Subscribe, Unsubscribe
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.writer_checks import MailIgnored
from digest.letters.headers import one_line
from digest.site_profile import Site

MAX_PASSED_ON = 20_000  #: maximum number of characters of a message that are passed on to the operator
MAX_PASSED_ON_A_DAY = 5  #: maximum number of messages of one writer passed on to the operator per day
READER_EXAMPLES: tuple[type[MailCommand], ...] = (AddTopic, PauseDigests, Unsubscribe)


@dataclass(frozen=True, kw_only=True, slots=True)
class MailOutcome:
    """How a message that a person may have written was processed."""

    outcome: str
    #: Whether the message is kept for the operator, because it may not be meant as a command.
    needs_human: bool = False


def answer(
    session: Session,
    site: Site,
    message: ReceivedMail,
    answered: AnsweredLetter | None,
    rules: MailRules,
    *,
    now: datetime,
) -> MailOutcome:
    """Answer a message without commands, or raise MailIgnored; it replies to the letter `answered`, if any."""
    email = writer_checks.address_of_writer(site, message)
    subscriber = answered_letter.reader_of(session, email, answered)
    is_reader = subscriber is not None and subscriber.state in {
        SubscriberState.ACTIVE,
        SubscriberState.PAUSED,
    }
    if subscriber is None or not is_reader:
        return answer_stranger(session, site, message, email, rules, is_command=False, now=now)
    check_writer(session, site, message, email)
    is_passed_on = pass_on(session, site, message, email, rules, now)
    decision = {
        "examples": reader_commands.help_lines(READER_EXAMPLES),
        "is_passed_on": is_passed_on,
        **writer_checks.answered_mail(message),
    }
    with kept_if(is_passed_on):
        answer_limits.queue_reply(
            session, site, subscriber, "no_command", decision, now, once_a_day=["no command"]
        )
    return MailOutcome(
        outcome=f"it has no command; subscriber {subscriber.id} was sent examples", needs_human=True
    )


def kept_if(is_passed_on: bool) -> AbstractContextManager[None]:  # noqa: FBT001  (a condition)
    """Return a context that suppresses MailIgnored if the message was passed on to the operator."""
    return suppress(MailIgnored) if is_passed_on else nullcontext()


def answer_stranger(
    session: Session,
    site: Site,
    message: ReceivedMail,
    email: str,
    rules: MailRules,
    *,
    is_command: bool,
    now: datetime,
) -> MailOutcome:
    """Send a writer who gets no digests instructions to subscribe, once a day, or raise MailIgnored."""
    check_writer(session, site, message, email)
    if writer_checks.has_links(message):
        raise MailIgnored("the writer gets no digests, and the mail has links")
    is_passed_on = not is_command and pass_on(session, site, message, email, rules, now)
    decision = {
        "word": Subscribe.words[0],
        "example": Subscribe.usage,
        "is_passed_on": is_passed_on,
        **writer_checks.answered_mail(message),
    }
    with kept_if(is_passed_on):
        answer_limits.queue_answer_to_stranger(session, site, email, "how_to_subscribe", decision, now)
    return MailOutcome(
        outcome="the writer gets no digests and was sent instructions to subscribe",
        needs_human=not is_command,
    )


def check_writer(session: Session, site: Site, message: ReceivedMail, email: str) -> None:
    """Raise MailIgnored if the writer of this message may not be answered."""
    if writer_checks.is_marked_as_spam(message):
        raise MailIgnored("the mail is marked as spam or as forged")
    if writer_checks.reads_as_automatic(message):
        raise MailIgnored("the mail reads like an automatic reply")
    if bounces.is_suppressed(session, site, email):
        raise MailIgnored("the writer's address is suppressed")


def pass_on(
    session: Session, site: Site, message: ReceivedMail, email: str, rules: MailRules, now: datetime
) -> bool:
    """Queue a letter that passes this message on to the operator; return whether it was queued.

    Only a few messages from each sender are passed on per day, to protect the operator from a flood.
    """
    writer = addresses.fold_address(email)
    if not rules.operator or addresses.fold_address(rules.operator) == writer:
        return False
    text = message.text[:MAX_PASSED_ON]
    decision = {
        "writer": email,
        "mail_subject": one_line(mail_text.header_value(message, "Subject")),
        "lines": [one_line(line) for line in text.splitlines()],
    }
    prefix = f"passed-on-{links.address_hash(site, writer)}-{now.date()}"
    queued = (
        outbox.queue_letter(
            session,
            letter="passed_on",
            subscriber_id=None,
            email=rules.operator,
            decision=decision,
            dedupe_key=f"{prefix}-{number}",
            site=site,
            now=now,
        )
        for number in range(MAX_PASSED_ON_A_DAY)
    )
    return any(delivery is not None for delivery in queued)
