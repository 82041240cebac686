"""Queue answers to mail, and limit their number, which prevents mail loops and mail to forged senders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from digest.db.tables.subscribers import Subscriber
from digest.delivery.limits import daily_counts
from digest.delivery.outbox import enqueue, planned_letters
from digest.inbound.mail_rules import MailContext
from digest.inbound.reader_request import CommandMail
from digest.inbound.writer_checks import MailIgnored
from digest.mail import addresses
from digest.site import links
from digest.subscribers import sign_up_queue

#: The maximum number of answers to one mailbox on one day; mail beyond it is stored for the operator to read.
MAX_ANSWERS_A_DAY = 12
#: The same for the letters of one kind to unproven writers, whose From lines may be forged: from one network, and in all.
MAX_FROM_NETWORK, MAX_IN_ALL = 20, 500
DAILY, WEEKLY = "%Y-%m-%d", "%G-W%V"  #: the periods in which the same texts get one answer


def queue_answer(
    context: MailContext,
    mail: CommandMail,
    reader: Subscriber | str,
    letter: str,
    decision: Mapping[str, Any],
    *,
    once: Sequence[str] = (),
    period: str = DAILY,
) -> None:
    """Queue an answer to a reader or to another address, due at once; raise MailIgnored at a limit.

    Messages with the same texts (`once`) get only one answer in a period; otherwise an automatic reply that
    resembles a person's mail would be answered forever. Answers to a proven reader count apart, so that mail
    in the reader's name blocks none of them. For a reader's commands, the network does not count.
    """
    site, now, subscriber = context.site, context.now, None if isinstance(reader, str) else reader
    email = reader if isinstance(reader, str) else reader.email_key
    is_proven = subscriber is not None and mail.is_proven_from(subscriber)
    count = count_answer(context, email, is_proven=is_proven)
    is_command = subscriber is not None and bool(mail.commands)
    if not (is_proven or is_command or count_unproven(context, letter, mail.network, in_all=MAX_IN_ALL)):
        raise MailIgnored("its network, or all networks together, got too many answers today")
    same = f"{text_hash(once)}-{now:{period}}" if once else f"{now.isoformat()}-{count}"
    number = enqueue.queue_letter(
        context.session,
        letter=planned_letters.AnswerLetter(
            kind=letter,
            address_hash=links.address_hash(site, addresses.fold_address(email)),
            mail=same,
            is_proven=is_proven,
            contents=decision,
        ),
        subscriber_id=subscriber.id if subscriber is not None else None,
        email=reader if isinstance(reader, str) else reader.contact_email,
        site=site,
        now=now,
    )
    if number is None:
        raise MailIgnored("its writer was already answered on the same words")


def count_answer(context: MailContext, email: str, *, is_proven: bool) -> int:
    """Count an answer to a mailbox, and return its number on this day; raise MailIgnored at the limit."""
    mailbox = links.address_hash(context.site, addresses.mailbox_of(email))
    what = "proven answers" if is_proven else "answers"
    count = daily_counts.count_today(context.session, what, mailbox, most=MAX_ANSWERS_A_DAY, now=context.now)
    if count is None:
        raise MailIgnored(f"its writer got {MAX_ANSWERS_A_DAY} answers today")
    return count


def count_unproven(context: MailContext, what: str, network: str, *, in_all: int) -> bool:
    """Count a letter that a network caused without proof of the writer; return False at a limit."""
    counts = (sign_up_queue.mail_network(context.site, network), MAX_FROM_NETWORK), ("", in_all)
    return all(
        daily_counts.count_today(context.session, what, who, most=most, now=context.now)
        for who, most in counts
    )


def text_hash(texts: Sequence[str]) -> str:
    """Return a hash of these texts as a part of the identity of a letter."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
