"""Places: where one paper stood, or will stand, for one subscriber. What `why` asks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.composition import Digest, Section
from digest.model import Delivery, Shown
from digest.press import Press
from digest.publishing.deciding import NOTHING, cut_of, wishes_of
from digest.publishing.desk import Cut, Desk, start_of_day
from digest.publishing.gathering import desk_of, gather, learn
from digest.publishing.previews import reader_of
from digest.publishing.values import Gathered, Reader


def places(
    session: Session, press: Press, subscriber_id: int, paper_id: int, delivery: Delivery
) -> dict[str, int]:
    """Return the paper's place under each topic that matches it, among what the edition could show."""
    desk, reader = desk_of(session, press), reader_of(session, subscriber_id)
    gathered = gather(session, desk, [reader], delivery.dated_at)
    shown = shown_before(session, desk, gathered, reader, delivery)
    return standing(desk, gathered, reader, paper_id, covered_by(delivery), shown, delivery.dated_at)


def rest(session: Session, press: Press, delivery: Delivery, section: Section) -> list[int]:
    """Return the papers that matched a section's topic and for which its digest had no room, best first."""
    if delivery.subscriber_id is None:
        return []
    desk, reader = desk_of(session, press), reader_of(session, delivery.subscriber_id)
    gathered = gather(session, desk, [reader], delivery.dated_at)
    eligible = desk.eligible(covered_by(delivery), start_of_day(reader.created_at), delivery.dated_at)
    if reader.max_age_days is not None:
        eligible &= desk.young(reader.max_age_days, delivery.dated_at.date())
    if section.filter_id is not None:
        learn(session, desk, [section.filter_id])
    chosen = desk.trending if section.filter_id is None else desk.choices.get(section.filter_id, NOTHING)
    had = {press.number[paper] for paper in Digest.from_json(delivery.decision).papers}
    had |= shown_before(session, desk, gathered, reader, delivery)
    return [desk.ids[number] for number in chosen.among(eligible) if number not in had]


def covered_by(delivery: Delivery) -> Cut:
    """Return up to where papers had been considered when an edition was made."""
    return delivery.covers_from or delivery.dated_at, delivery.covers_paper_id


def shown_before(
    session: Session, desk: Desk, gathered: Gathered, reader: Reader, delivery: Delivery
) -> set[int]:
    """Return the numbers of what a reader had been shown when an edition was made."""
    later = select(Shown.paper_id).where(Shown.subscriber_id == reader.id, Shown.delivery_id >= delivery.id)
    found: set[int] = gathered.shown.get(reader.id, set())
    return found - {
        number for one in session.scalars(later) if (number := desk.press.number.get(one)) is not None
    }


def places_now(
    session: Session, press: Press, subscriber_id: int, paper_id: int, now: datetime
) -> dict[str, int]:
    """Return the paper's place under each topic that matches it, among what the next edition can show."""
    desk, reader = desk_of(session, press), reader_of(session, subscriber_id)
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
