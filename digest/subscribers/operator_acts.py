"""Record what operators did to a subscriber; the records are erased with the subscriber."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables import OperatorAct, Subscriber


def record_act(session: Session, subscriber: Subscriber, act: str, *, operator: str, now: datetime) -> None:
    """Record that an operator did something; `act` is a sentence or a few words."""
    session.add(OperatorAct(subscriber_id=subscriber.id, at=now, operator=operator[:80], act=act))
    session.flush()
