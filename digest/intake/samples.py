"""Sample content goes when the first real setting comes."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from digest.model import Attempt, Delivery, DumpRow, PaperRow, Shown, Subscriber


def remove_samples(session: Session) -> None:
    """Delete every sample paper, dump and subscriber, with what hangs on them, and commit."""
    papers = select(PaperRow.id).where(PaperRow.is_sample)
    subscribers = select(Subscriber.id).where(Subscriber.is_sample)
    session.execute(delete(Shown).where(Shown.subscriber_id.in_(subscribers)))
    everybody = Shown.subscriber_id.in_(select(Subscriber.id))  # showings are found by their readers
    session.execute(delete(Shown).where(everybody, Shown.paper_id.in_(papers)))
    deliveries = select(Delivery.id).where(Delivery.subscriber_id.in_(subscribers))
    session.execute(delete(Attempt).where(Attempt.delivery_id.in_(deliveries)))
    session.execute(delete(Delivery).where(Delivery.subscriber_id.in_(subscribers)))
    session.execute(delete(Subscriber).where(Subscriber.is_sample))
    session.execute(delete(PaperRow).where(PaperRow.is_sample))
    session.execute(delete(DumpRow).where(DumpRow.is_sample))
    session.commit()
