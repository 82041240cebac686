"""Confirm a subscription when the reader replies `yes` to the confirmation letter.

The reply address is as secret as the link in the letter. Since mail programs send automatic replies, a reply
confirms only if the writer's first line says yes. The first other reply is answered with the same letter again.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest import links, subscribers
from digest.db.tables import Confirmation
from digest.delivery import outbox
from digest.inbound import mail_text, words_around_commands, writer_checks
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.writer_checks import MailIgnored
from digest.site_profile import Site
from digest.subscribers.confirmations import ChoosePapers, confirmation_decision
from digest.subscribers.invitations import INVITED_MARK


def apply_reply(
    session: Session,
    site: Site,
    number: int,
    message: ReceivedMail,
    *,
    choose_papers: ChoosePapers | None,
    now: datetime,
) -> str | None:
    """Confirm the subscription or mail the link again; return the outcome.

    Returns None if the confirmation has expired, or was used and the message does not say yes. Raises
    MailIgnored for an automatic reply or spam, for an answer to an invitation other than yes, and if the
    subscriber's address is suppressed.
    """
    # This raises MailIgnored for an address whose mail no person reads.
    writer_checks.address_of_writer(site, message)
    if writer_checks.reads_as_automatic(message) or writer_checks.is_marked_as_spam(message):
        raise MailIgnored("the mail reads like an automatic reply or spam")
    token = links.sign_token(site, "confirm", str(number))
    confirmation = subscribers.confirmation_in(session, site, token, now)
    is_yes = words_around_commands.says_yes(list(mail_text.written_lines(message)))
    if confirmation is None or (confirmation.used_at is not None and not is_yes):
        return None
    if not is_yes and confirmation.requested_settings == INVITED_MARK:
        raise MailIgnored("the mail answers an invitation, but not with yes")
    if not is_yes:
        return ask_again(session, site, confirmation, message, now)
    was_used = confirmation.used_at is not None
    subscriber = subscribers.confirm(
        session, site, token, now, how="confirmed by reply", choose_papers=choose_papers
    )
    if subscriber is None:
        raise MailIgnored("the sender's address is suppressed")
    if was_used:
        subscribers.send_link(session, site, subscriber, now)
        return f"subscriber {subscriber.id} had confirmed before"
    return f"subscriber {subscriber.id} confirmed"


def ask_again(
    session: Session, site: Site, confirmation: Confirmation, message: ReceivedMail, now: datetime
) -> str:
    """Queue the letter with the link again, at most once per confirmation; return the outcome."""
    subscriber = subscribers.subscriber_of(session, confirmation)
    number = outbox.queue_letter(
        session,
        letter="confirm",
        subscriber_id=subscriber.id,
        email=confirmation.email,
        decision={
            **confirmation_decision(session, confirmation, subscriber),
            **writer_checks.answered_mail(message),
            "is_answer": True,
        },
        dedupe_key=f"confirm-{confirmation.id}-again",
        site=site,
        now=now,
        expires_at=confirmation.expires_at,
    )
    if number is None:
        raise MailIgnored("the writer was already asked to confirm again")
    return f"asked subscriber {subscriber.id} to confirm again"
