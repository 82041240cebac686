"""Remove the sample content when the settings no longer allow it."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Attempt, Delivery, Shown
from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber


def remove_samples(session: Session) -> None:
    """Delete all sample papers, dumps and subscribers with the rows that depend on them."""
    papers = select(PaperRow.id).where(PaperRow.is_sample)
    subscribers = select(Subscriber.id).where(Subscriber.is_sample)
    session.execute(delete(Shown).where(Shown.subscriber_id.in_(subscribers)))
    by_subscriber = Shown.subscriber_id.in_(
        select(Subscriber.id)
    )  # lets the database use the index of `shown`, which begins with the subscriber
    session.execute(delete(Shown).where(by_subscriber, Shown.paper_id.in_(papers)))
    deliveries = select(Delivery.id).where(Delivery.subscriber_id.in_(subscribers))
    session.execute(delete(Attempt).where(Attempt.delivery_id.in_(deliveries)))
    session.execute(delete(Delivery).where(Delivery.subscriber_id.in_(subscribers)))
    session.execute(delete(Subscriber).where(Subscriber.is_sample))
    session.execute(delete(PaperRow).where(PaperRow.is_sample))
    session.execute(delete(DumpRow).where(DumpRow.is_sample))
