"""Offers: who has a topic that is full digest after digest is offered one narrowing of it, and then left in peace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from digest.composition import Offer, Section
from digest.publishing.desk import Desk
from digest.publishing.values import Reader, Topic

IN_A_ROW = 3  #: so many digests that had no room for all of a topic, and the next one offers
QUIET_FOR = timedelta(days=60)  #: after an offer no other is made for so long
MOST_TOPICS = 50
ONE_MORE = {"": "1", "0": "1", "1": "2", "2": "3", "3": "3"}


def offer(
    desk: Desk, reader: Reader, topics: Sequence[Topic], sections: Sequence[Section], now: datetime
) -> Offer | None:
    """Return what to offer with this digest: for the fullest topic that had no room three times running."""
    past = reader.full_in_a_row
    if not past or str(IN_A_ROW) not in past:
        return None
    if reader.offered_at is not None and now - reader.offered_at < QUIET_FOR:
        return None
    full = {filter_id for (_, filter_id), count in zip(topics, past, strict=False) if count == str(IN_A_ROW)}
    candidates = [one for one in sections if one.more and one.filter_id in full]
    for section in sorted(candidates, key=lambda one: -one.more):
        found = desk.narrowing(section.filter_id or 0, min(reader.max_per_topic, reader.max_papers))
        if found is not None:
            return Offer(section.topic, section.filter_id or 0, found.clause, found.before, found.after)
    return None


def counted(past: str | None, topics: Sequence[Topic], sections: Sequence[Section]) -> str:
    """Return for each topic in how many digests in a row, up to three, there was no room for all of it."""
    full = [section.filter_id for section in sections if section.more]
    if not full:
        return "0" * len(topics[:MOST_TOPICS])
    if not past:
        return "".join(["1" if topic[1] in full else "0" for topic in topics[:MOST_TOPICS]])
    return "".join(
        [
            ONE_MORE[past[place : place + 1]] if topic[1] in full else "0"
            for place, topic in enumerate(topics[:MOST_TOPICS])
        ]
    )
