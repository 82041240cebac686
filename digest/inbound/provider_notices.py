"""Store a provider's notices about our letters; their signatures have been verified before."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from sqlalchemy import delete
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import ReceivedNotice
from digest.inbound.provider_signatures import SnsMessage, host_of
from digest.inbound.stored_mail import store_mail

#: How long the ids of notices are stored: longer than a notice stays valid, so that no notice counts twice.
REMEMBER_FOR = timedelta(days=3)
SNS_SENDER = "sns"  #: the value stored as the envelope sender of a notice, which has none


def confirmation_url(message: SnsMessage) -> str:
    """Return the URL that confirms a subscription to our topic, built from the topic and the token."""
    query = {"Action": "ConfirmSubscription", "TopicArn": message.topic, "Token": message.token}
    return f"https://{host_of(message.topic)}/?{urlencode(query)}"


def store_notice(session: Session, message: SnsMessage, *, now: datetime) -> list[int]:
    """Store a notice as a message; return a list with its id, or an empty list for a repeated notice.

    Commits.
    """
    new = db.upsert(session, ReceivedNotice).values(id=message.id[:100], at=now).on_conflict_do_nothing()
    if session.execute(new.returning(ReceivedNotice.id)).first() is None:
        session.rollback()
        return []
    session.execute(delete(ReceivedNotice).where(ReceivedNotice.at < now - REMEMBER_FOR))
    return store_mail(
        session, sender=SNS_SENDER, recipients=[message.topic], content=message.message.encode(), now=now
    )
