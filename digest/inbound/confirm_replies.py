"""Confirm a subscription when the reader replies `yes` to the confirmation letter.

The reply address is as secret as the link in the letter. Since mail programs send automatic replies, a reply
confirms only if the writer's first line says yes. A reply that says no closes the request. Any other reply is
answered with the same letter again, and so is a `yes` to another address, which proves nothing.
"""

from __future__ import annotations

from sqlalchemy import select

from digest.db.tables.subscribers import Confirmation, Subscriber, SubscriberState
from digest.delivery.outbox import enqueue, planned_letters
from digest.inbound import answer_limits, mail_text, words_around_commands, writer_checks
from digest.inbound.mail_rules import MailContext
from digest.inbound.reader_request import CommandMail, MailOutcome
from digest.inbound.writer_checks import MailIgnored
from digest.site import links
from digest.subscribers import confirmations, unsubscribe_and_undo
from digest.subscribers.confirmation_letters import confirmation_decision
from digest.subscribers.invitations import INVITED_MARK
from digest.subscribers.welcome_letters import ChoosePapers


def apply_reply(
    context: MailContext, number: int, mail: CommandMail, *, choose_papers: ChoosePapers | None
) -> MailOutcome | None:
    """Confirm the subscription, close the request or mail the link again.

    Returns None if the confirmation has expired, or was used and the message does not say yes. Raises
    MailIgnored for automatic mail or spam, and if the subscriber's address is suppressed.
    """
    session, site, now = context.session, context.site, context.now
    # This raises MailIgnored for an address whose mail no person reads.
    writer_checks.address_of_writer(site, mail.message)
    writer_checks.check_person(mail.message)
    token = links.sign_token(site, "confirm", str(number))
    confirmation = confirmations.confirmation_in(session, site, token, now)
    is_automatic = writer_checks.reads_as_automatic(mail.message)
    is_yes = bool(words_around_commands.consent_in(first_line(mail))) and not is_automatic
    if confirmation is None or (confirmation.used_at is not None and not is_yes):
        return None
    if not is_yes:
        return MailOutcome(outcome=close_or_ask_again(context, confirmation, mail))
    was_used = confirmation.used_at is not None
    subscriber = confirmations.confirm(
        session, site, token, now, how="confirmed by reply", choose_papers=choose_papers
    )
    if subscriber is None:
        raise MailIgnored("the sender's address is suppressed")
    if was_used:
        confirmations.send_link(session, site, subscriber, now)
        return MailOutcome(outcome=f"subscriber {subscriber.id} had confirmed before")
    return MailOutcome(outcome=f"subscriber {subscriber.id} confirmed", confirmed=subscriber)


def first_line(mail: CommandMail) -> str:
    """Return the first line of a message below any greeting; the subject of a new message without text."""
    lines = [line for line in mail_text.written_lines(mail.message) if line]
    subject, is_reply = mail_text.subject_of(mail.message)
    if not lines and not is_reply:
        return subject
    return next((line for line in lines if not words_around_commands.is_greeting(line)), "")


def close_or_ask_again(
    context: MailContext, confirmation: Confirmation, mail: CommandMail, *, is_proven: bool = True
) -> str:
    """Close the request if the mail says no, else queue the letter with the link again; return the outcome.

    Only a reply to the letter's own address closes it: anybody can write in somebody's name.

    The same words get the letter once; words that were not sent to the letter's own address, once in all.
    """
    subscriber = confirmations.subscriber_of(context.session, confirmation)
    says_no = is_proven and words_around_commands.says_no(first_line(mail))
    if says_no and subscriber.state == SubscriberState.PENDING:
        unsubscribe_and_undo.mark_unsubscribed(context.session, subscriber, now=context.now)
        confirmation.expires_at = context.now
        return f"subscriber {subscriber.id} said no to the confirmation"
    if confirmation.requested_settings == INVITED_MARK:
        raise MailIgnored("the mail answers an invitation, but neither with yes nor with no")
    words = [line for line in mail_text.written_lines(mail.message) if line] if is_proven else ["elsewhere"]
    answer_limits.count_answer(context, confirmation.email, is_proven=is_proven)
    number = enqueue.queue_letter(
        context.session,
        letter=planned_letters.ConfirmLetter(
            confirmation_id=confirmation.id,
            reply=answer_limits.text_hash(words),
            contents={
                **confirmation_decision(context.session, confirmation, subscriber),
                **writer_checks.answered_mail(mail.message),
                "is_answer": True,
                "is_unproven": not is_proven,
            },
        ),
        subscriber_id=subscriber.id,
        email=confirmation.email,
        site=context.site,
        now=context.now,
        expires_at=confirmation.expires_at,
    )
    if number is None:
        raise MailIgnored("the writer was already asked to confirm again")
    return f"asked subscriber {subscriber.id} to confirm again"


def answer_unproven(context: MailContext, subscriber: Subscriber, mail: CommandMail) -> str | None:
    """Answer mail from an address that has yet to confirm, but not to the letter's own address.

    Returns the outcome, or None if no confirmation is open.
    """
    is_open = Confirmation.used_at.is_(None), Confirmation.expires_at > context.now
    found = select(Confirmation).where(Confirmation.subscriber_id == subscriber.id, *is_open)
    confirmation = context.session.scalars(found.order_by(Confirmation.id.desc()).limit(1)).first()
    if subscriber.state != SubscriberState.PENDING or confirmation is None:
        return None
    return close_or_ask_again(context, confirmation, mail, is_proven=False)
