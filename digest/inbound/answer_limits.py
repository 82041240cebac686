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
from digest.inbound.writer_checks import MailIgnored
from digest.site_profile import Site

#: The maximum number of answers to one reader in each period; mail beyond it is stored for the operator to
#: read.
ANSWER_LIMITS = ((12, timedelta(hours=1), "within the hour"), (40, timedelta(days=1), "within a day"))


def queue_reply(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    letter: str,
    decision: Mapping[str, Any],
    now: datetime,
    *,
    once_a_day: Sequence[str] = (),
) -> None:
    """Queue a reply to a reader, due at once; raise MailIgnored if the reader gets no further reply now.

    A reader gets at most as many replies as `ANSWER_LIMITS` allows.
    Messages with the same texts (`once_a_day`) get only one reply a day; otherwise an automatic reply that
    resembles a person's mail would be answered forever.
    """
    prefix = answer_key(site, subscriber.email_key)
    # The row is locked, so that two processes do not count at the same time.
    session.refresh(subscriber, with_for_update=True)
    counts = [replies_since(session, subscriber, prefix, now - period) for _, period, _ in ANSWER_LIMITS]
    for count, (most, _, within) in zip(counts, ANSWER_LIMITS, strict=True):
        if count >= most:
            raise MailIgnored(f"its writer got {most} replies {within}")
    same = f"{text_hash(once_a_day)}-{now.date()}" if once_a_day else f"{now.isoformat()}-{counts[0]}"
    number = outbox.queue_letter(
        session,
        letter=letter,
        subscriber_id=subscriber.id,
        email=subscriber.contact_email,
        decision=decision,
        dedupe_key=f"{prefix}{same}",
        site=site,
        now=now,
    )
    if number is None:
        raise MailIgnored("the writer was already asked about the same words today")


def queue_answer_to_stranger(
    session: Session, site: Site, email: str, letter: str, decision: Mapping[str, Any], now: datetime
) -> None:
    """Queue a day's only answer to an address that gets no digests; raise MailIgnored for a second one."""
    number = outbox.queue_letter(
        session,
        letter=letter,
        subscriber_id=None,
        email=email,
        decision=decision,
        dedupe_key=f"{answer_key(site, addresses.fold_address(email))}{now.date()}",
        site=site,
        now=now,
    )
    if number is None:
        raise MailIgnored("the writer gets no digests and was already answered today")


def answer_key(site: Site, email_key: str) -> str:
    """Return the prefix of the dedupe keys of all answers to an address."""
    return f"answer-{links.address_hash(site, email_key)}-"


def replies_since(session: Session, subscriber: Subscriber, prefix: str, moment: datetime) -> int:
    """Return the number of replies queued for a reader since `moment`."""
    found = select(func.count()).where(
        Delivery.subscriber_id == subscriber.id,
        Delivery.dated_at > moment,
        Delivery.dedupe_key.startswith(prefix, autoescape=True),
    )
    return session.scalar(found) or 0


def text_hash(texts: Sequence[str]) -> str:
    """Return a hash of these texts as a part of a dedupe key."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
