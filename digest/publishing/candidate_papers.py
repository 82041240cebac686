"""Find again the papers that an edition could show, for `digest why` and the page of further matches."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, Shown
from digest.editions.compose import Digest, Section
from digest.letters.press.press_value import Press
from digest.process.caches import Caches
from digest.publishing.decide_digest import NO_MATCHES, considered_until_of, requested_topics
from digest.publishing.due_readers import evaluate_filters, gather_inputs, load_reader, match_index_of
from digest.publishing.match_index import MatchIndex
from digest.publishing.paper_eligibility import ConsideredUntil, start_of_day
from digest.publishing.reader_values import GatheredInputs, Reader


def positions(
    session: Session, press: Press, caches: Caches, subscriber_id: int, paper_id: int, delivery: Delivery
) -> dict[str, int]:
    """Return {topic: position} of the paper among the papers that the edition could show."""
    match_index, reader = match_index_of(session, press, caches), load_reader(session, subscriber_id)
    gathered = gather_inputs(session, match_index, [reader], delivery.dated_at)
    shown = shown_before(session, match_index, gathered, reader, delivery)
    return positions_of_paper(
        match_index,
        gathered,
        reader,
        paper_id,
        considered_until_of_delivery(delivery),
        shown,
        delivery.dated_at,
    )


def overflow_papers(
    session: Session, press: Press, caches: Caches, delivery: Delivery, section: Section
) -> list[int]:
    """Return the ids of papers that matched the section's topic but did not fit the digest, best first."""
    if delivery.subscriber_id is None:
        return []
    match_index, reader = match_index_of(session, press, caches), load_reader(session, delivery.subscriber_id)
    gathered = gather_inputs(session, match_index, [reader], delivery.dated_at)
    eligible = match_index.eligible(
        considered_until_of_delivery(delivery), start_of_day(reader.created_at), delivery.dated_at
    )
    if section.filter_id is not None:
        evaluate_filters(session, match_index, [section.filter_id])
    chosen = (
        match_index.trending
        if section.filter_id is None
        else match_index.choices.get(section.filter_id, NO_MATCHES)
    )
    excluded = {press.rank_of_paper[paper] for paper in Digest.from_json(delivery.decision).papers}
    excluded |= shown_before(session, match_index, gathered, reader, delivery)
    return [match_index.ids[number] for number in chosen.eligible_order(eligible) if number not in excluded]


def considered_until_of_delivery(delivery: Delivery) -> ConsideredUntil:
    """Return the time and the paper id up to which editions before this delivery had considered papers."""
    return delivery.covers_from or delivery.dated_at, delivery.covers_paper_id


def shown_before(
    session: Session, match_index: MatchIndex, gathered: GatheredInputs, reader: Reader, delivery: Delivery
) -> set[int]:
    """Return the numbers of the papers that the reader had been shown before this edition was published."""
    later = select(Shown.paper_id).where(Shown.subscriber_id == reader.id, Shown.delivery_id >= delivery.id)
    found: set[int] = gathered.shown.get(reader.id, set())
    return found - {
        number
        for one in session.scalars(later)
        if (number := match_index.press.rank_of_paper.get(one)) is not None
    }


def positions_now(
    session: Session, press: Press, caches: Caches, subscriber_id: int, paper_id: int, now: datetime
) -> dict[str, int]:
    """Return {topic: position} of the paper among the papers that the next edition can show so far."""
    match_index, reader = match_index_of(session, press, caches), load_reader(session, subscriber_id)
    gathered = gather_inputs(session, match_index, [reader], now)
    shown = gathered.shown.get(subscriber_id, set())
    return positions_of_paper(
        match_index, gathered, reader, paper_id, considered_until_of(reader, now), shown, now
    )


def positions_of_paper(  # noqa: PLR0917  (the state of one search)
    match_index: MatchIndex,
    gathered: GatheredInputs,
    reader: Reader,
    paper_id: int,
    considered_until: ConsideredUntil,
    shown: set[int],
    now: datetime,
) -> dict[str, int]:
    """Return {topic: position}, counted from 1, for the topics under which the paper is eligible."""
    number = match_index.press.rank_of_paper.get(paper_id)
    eligible = match_index.eligible(considered_until, start_of_day(reader.created_at), now)
    found = {}
    for requested in requested_topics(match_index, gathered.topics.get(reader.id, ())):
        order = [one for one in requested.matches.eligible_order(eligible) if one not in shown]
        if number in order:
            found[requested.topic] = order.index(number) + 1
    return found
