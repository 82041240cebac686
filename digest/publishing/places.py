"""Places: where one paper stood, or will stand, for one subscriber. What `why` asks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.model import Delivery, Shown
from digest.press import Press
from digest.publishing.chunks import Gathered, Reader, cut_of, desk_of, gather, wishes_of
from digest.publishing.desk import Cut, Desk, start_of_day
from digest.publishing.previews import reader_of


def places(
    session: Session, press: Press, subscriber_id: int, paper_id: int, delivery: Delivery
) -> dict[str, int]:
    """Return the paper's place under each topic that matches it, among what the edition could show."""
    desk, reader = desk_of(press), reader_of(session, subscriber_id)
    gathered = gather(session, desk, [reader], delivery.dated_at)
    covered = (delivery.covers_from or delivery.dated_at, delivery.covers_paper_id)
    later = select(Shown.paper_id).where(
        Shown.subscriber_id == subscriber_id, Shown.delivery_id >= delivery.id
    )
    shown = gathered.shown.get(subscriber_id, set()) - {
        press.number.get(one) for one in session.scalars(later)
    }
    return standing(desk, gathered, reader, paper_id, covered, shown, delivery.dated_at)


def places_now(
    session: Session, press: Press, subscriber_id: int, paper_id: int, now: datetime
) -> dict[str, int]:
    """Return the paper's place under each topic that matches it, among what the next edition can show."""
    desk, reader = desk_of(press), reader_of(session, subscriber_id)
    gathered = gather(session, desk, [reader], now)
    shown = gathered.shown.get(subscriber_id, set())
    return standing(desk, gathered, reader, paper_id, cut_of(reader, now), shown, now)


def standing(
    desk: Desk, gathered: Gathered, reader: Reader, paper_id: int, cut: Cut, shown: set[int], now: datetime
) -> dict[str, int]:
    """Return {topic: place}, counted from 1, for the topics under which the paper is eligible."""
    number = desk.press.number.get(paper_id)
    eligible = desk.eligible(cut, start_of_day(reader.created_at), now)
    found = {}
    for wish in wishes_of(desk, reader, gathered.topics.get(reader.id, ())):
        order = [one for one in wish.choice.among(eligible) if one not in shown]
        if number in order:
            found[wish.topic] = order.index(number) + 1
    return found
