"""Queue answers to mail; limit the number of answers per address, which prevents mail loops."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import addresses, links
from digest.db.tables import Delivery, Subscriber
from digest.delivery import outbox
from digest.inbound.mail_rules import MailContext
from digest.inbound.writer_checks import MailIgnored

#: The maximum number of answers to one address within a day; mail beyond it is stored for the operator to read.
MAX_ANSWERS_A_DAY = 12
DAILY, WEEKLY = "%Y-%m-%d", "%G-W%V"  #: the periods in which the same texts get one answer


def queue_answer(
    context: MailContext,
    reader: Subscriber | str,
    letter: str,
    decision: Mapping[str, Any],
    *,
    once: Sequence[str] = (),
    period: str = DAILY,
) -> None:
    """Queue an answer to a reader or to another address, due at once; raise MailIgnored at a limit.

    Messages with the same texts (`once`) get only one answer in a period; otherwise an automatic reply that
    resembles a person's mail would be answered forever.
    """
    session, now, subscriber = context.session, context.now, None if isinstance(reader, str) else reader
    key = addresses.fold_address(reader) if isinstance(reader, str) else reader.email_key
    prefix = f"answer-{links.address_hash(context.site, key)}-"
    if subscriber is not None:
        # The row is locked, so that two processes do not count at the same time.
        session.refresh(subscriber, with_for_update=True)
    count = answers_since(session, prefix, now - timedelta(days=1))
    if count >= MAX_ANSWERS_A_DAY:
        raise MailIgnored(f"its writer got {MAX_ANSWERS_A_DAY} answers within a day")
    same = f"{text_hash(once)}-{now:{period}}" if once else f"{now.isoformat()}-{count}"
    number = outbox.queue_letter(
        session,
        letter=letter,
        subscriber_id=subscriber.id if subscriber is not None else None,
        email=reader if isinstance(reader, str) else reader.contact_email,
        decision=decision,
        dedupe_key=f"{prefix}{same}",
        site=context.site,
        now=now,
    )
    if number is None:
        raise MailIgnored("its writer was already answered on the same words")


def answers_since(session: Session, prefix: str, moment: datetime) -> int:
    """Return the number of answers queued for an address since `moment`."""
    found = select(func.count()).where(
        Delivery.dedupe_key.between(
            prefix, f"{prefix}zz"
        ),  # the index of the keys serves this in any collation
        Delivery.dedupe_key.startswith(prefix, autoescape=True),
        Delivery.dated_at > moment,
    )
    return session.scalar(found) or 0


def text_hash(texts: Sequence[str]) -> str:
    """Return a hash of these texts as a part of a dedupe key."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
