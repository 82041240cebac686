"""Suggest a narrower filter for a topic whose papers did not all fit into several digests in a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from digest.editions.compose import NarrowingSuggestion, Section
from digest.publishing.match_index import MatchIndex
from digest.publishing.reader_values import Reader, Topic

#: Number of digests in a row that a topic must overflow before a narrower filter is suggested.
FULL_DIGESTS_NEEDED = 3
SUGGEST_EVERY = timedelta(days=60)  #: minimum time between two suggestions to the same reader
MAX_TOPICS = 50
NEXT_STREAK = {"": "1", "0": "1", "1": "2", "2": "3", "3": "3"}


def suggest_narrowing(
    match_index: MatchIndex,
    reader: Reader,
    topics: Sequence[Topic],
    sections: Sequence[Section],
    now: datetime,
) -> NarrowingSuggestion | None:
    """Return a suggestion for the fullest topic that overflowed three digests in a row, or None."""
    past = reader.full_streaks
    if not past or str(FULL_DIGESTS_NEEDED) not in past:
        return None
    if reader.narrowing_suggested_at is not None and now - reader.narrowing_suggested_at < SUGGEST_EVERY:
        return None
    full = {
        filter_id
        for (_, filter_id), count in zip(topics, past, strict=False)
        if count == str(FULL_DIGESTS_NEEDED)
    }
    candidates = [one for one in sections if one.more and one.filter_id in full]
    for section in sorted(candidates, key=lambda one: -one.more):
        found = match_index.narrowing(section.filter_id or 0, reader.max_papers)
        if found is not None:
            return NarrowingSuggestion(
                section.topic, section.filter_id or 0, found.clause, found.before, found.after
            )
    return None


def count_full_streaks(past: str | None, topics: Sequence[Topic], sections: Sequence[Section]) -> str:
    """Return a digit per topic: in how many digests in a row (at most 3) its papers did not all fit."""
    full = [section.filter_id for section in sections if section.more]
    if not full:
        return "0" * len(topics[:MAX_TOPICS])
    if not past:
        return "".join(["1" if topic[1] in full else "0" for topic in topics[:MAX_TOPICS]])
    return "".join(
        [
            NEXT_STREAK[past[place : place + 1]] if topic[1] in full else "0"
            for place, topic in enumerate(topics[:MAX_TOPICS])
        ]
    )
