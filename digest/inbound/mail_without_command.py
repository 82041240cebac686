"""Answer mail that contains no command, and pass it on to the operator.

A question is answered with examples of commands and the unsubscribe link; thanks and remarks get one short
answer a week. Spam, automatic mail, and mail with links from strangers get no answer, since their From lines may
be forged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from digest.bounces import suppressions
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.limits import daily_counts
from digest.delivery.outbox import enqueue, planned_letters
from digest.inbound import (
    answer_limits,
    answered_letter,
    confirm_replies,
    mail_text,
    reader_commands,
    writer_checks,
)
from digest.inbound.mail_commands import EXAMPLE_KINDS, Help, Subscribe, Unsubscribe
from digest.inbound.mail_rules import MailContext
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.reader_request import CommandMail, MailOutcome
from digest.inbound.words_around_commands import pattern_of
from digest.inbound.writer_checks import MailIgnored
from digest.letters.headers import one_line
from digest.mail import addresses, mail_parsing
from digest.site import links

MAX_PASSED_ON = 20_000  #: maximum number of characters of a message that are passed on to the operator
#: Maximum number of messages passed on to the operator per day: of one writer, and in all.
MAX_PASSED_ON_A_DAY, MAX_PASSED_ON_IN_ALL = 5, 50
REQUEST, PRAISE, REMARK = pattern_of("request"), pattern_of("praise"), pattern_of("remark")
ONE_PAPER = pattern_of("one_paper")
RECEIVING_STATES = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})


def answer(context: MailContext, mail: CommandMail) -> MailOutcome:
    """Answer a message without commands, or raise MailIgnored."""
    email = writer_checks.address_of_writer(context.site, mail.message)
    subscriber = answered_letter.reader_of(context.session, email, mail.answered)
    if subscriber is None or subscriber.state not in RECEIVING_STATES:
        return answer_stranger(context, mail, email, subscriber)
    check_writer(context, mail, email)
    is_absence = writer_checks.reads_as_automatic(mail.message)
    is_talk = is_absence or reads_as_talk(mail.message)
    answered = pass_on_and_answer(
        context,
        mail,
        subscriber,
        "no_command",
        {
            "examples": reader_commands.help_lines(EXAMPLE_KINDS),
            "is_talk": is_talk,
            "is_absence": is_absence,
        },
        once=["absence" if is_absence else "talk"] if is_talk else [],
        period=answer_limits.WEEKLY if is_talk else answer_limits.DAILY,
    )
    return MailOutcome(
        outcome=f"it has no command; subscriber {subscriber.id} {answered or 'was sent examples'}",
        needs_human=True,
    )


def reads_as_talk(message: ReceivedMail) -> bool:
    """Return whether a message is thanks or a remark about a paper, which need no answer."""
    subject, is_reply = mail_text.subject_of(message)
    lines = [line for line in mail_text.written_lines(message) if line]
    text = " ".join([*lines, "" if is_reply else subject])
    is_sign = not any(map(str.isalnum, " ".join(lines))) and bool(lines)
    is_remark = bool(PRAISE.search(text)) or (is_reply and bool(REMARK.search(text))) or is_sign
    asks = REQUEST.search(text) or (set("?？") & set(text) and not ONE_PAPER.search(text))
    return is_remark and not asks


def answer_stranger(
    context: MailContext, mail: CommandMail, email: str, subscriber: Subscriber | None, *, problem: str = ""
) -> MailOutcome:
    """Answer a writer who gets no digests with instructions to subscribe, or raise MailIgnored.

    `subscriber` is the writer's row if the writer has yet to confirm or has unsubscribed. `problem` says why a
    sign-up was not accepted.
    """
    check_writer(context, mail, email)
    if subscriber is not None and (outcome := confirm_replies.answer_unproven(context, subscriber, mail)):
        return MailOutcome(outcome=outcome, needs_human=not mail.commands)
    if writer_checks.has_links(mail.message) and not (mail.answered or problem):
        raise MailIgnored("the writer gets no digests, and the mail has links")
    decision = {
        "word": Subscribe.words[0],
        "example": Subscribe.usage,
        "address": addresses.readable_address(email),
        "is_for_readers": not mail.is_sign_up
        and any(one.kind is Unsubscribe or (one.is_clear and one.kind is not Help) for one in mail.commands),
        "problem": problem,
    }
    answered = pass_on_and_answer(context, mail, email, "how_to_subscribe", decision)
    return MailOutcome(
        outcome=f"the writer gets no digests and {answered or 'was sent instructions to subscribe'}",
        needs_human=not mail.commands,
    )


def pass_on_and_answer(
    context: MailContext,
    mail: CommandMail,
    reader: Subscriber | str,
    letter: str,
    decision: Mapping[str, Any],
    *,
    once: Sequence[str] = (),
    period: str = answer_limits.DAILY,
) -> str:
    """Pass a message without commands on, and queue the answer; return why no answer was queued, or "".

    By default, the same words are answered once a day. Raises MailIgnored if the message was neither answered
    nor passed on.
    """
    message, email = mail.message, reader if isinstance(reader, str) else reader.contact_email
    is_passed_on = not mail.commands and pass_on(context, mail, email, answered_by=letter)
    content = {**decision, "is_passed_on": is_passed_on, **writer_checks.answered_mail(message)}
    words = once or [mail_parsing.header_text(message.message, "Subject"), *mail_text.written_lines(message)]
    try:
        answer_limits.queue_answer(context, mail, reader, letter, content, once=words, period=period)
    except MailIgnored as error:
        if not is_passed_on:
            raise
        return f"got no answer ({error})"
    return ""


def check_writer(context: MailContext, mail: CommandMail, email: str) -> None:
    """Raise MailIgnored if the writer of this message may not be answered."""
    writer_checks.check_person(mail.message)
    if suppressions.is_suppressed(context.session, context.site, email):
        raise MailIgnored("the writer's address is suppressed")


def pass_on(context: MailContext, mail: CommandMail, email: str, *, answered_by: str) -> bool:
    """Queue a letter that passes a message on to the operator; return whether it was queued.

    Only a few messages of each writer and network and in all are passed on per day; the others are only stored. Mail
    that gets another kind of answer counts apart, so that strangers' mail uses up nothing of the readers'.
    """
    writer, operator = addresses.mailbox_of(email), context.rules.operator
    if not operator or addresses.mailbox_of(operator) == writer:
        return False
    session, now, who = context.session, context.now, links.address_hash(context.site, writer)
    number = daily_counts.count_today(session, "passed_on", who, most=MAX_PASSED_ON_A_DAY, now=now)
    if number is None or not answer_limits.count_unproven(
        context, f"passed on, {answered_by}", mail.network, in_all=MAX_PASSED_ON_IN_ALL
    ):
        return False
    text = mail.message.text[:MAX_PASSED_ON]
    decision = {
        "writer": email,
        "mail_subject": one_line(mail_parsing.header_text(mail.message.message, "Subject")),
        "lines": [one_line(line) for line in text.splitlines()],
    }
    letter = planned_letters.PassedOnLetter(writer=who, day=now.date(), number=number, contents=decision)
    enqueue.queue_letter(
        session, letter=letter, subscriber_id=None, email=operator, site=context.site, now=now
    )
    return True
