"""Decide the content of one reader's edition, without access to the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from functools import lru_cache

from digest.db.tables.subscribers import StillReadingStep, Subscriber
from digest.editions import schedule as edition_schedule
from digest.editions.compose import (
    MAX_PAPERS,
    TRENDING_TOPIC,
    Digest,
    RequestedTopic,
    Section,
    compose,
    count_matching,
    topics_without_section,
)
from digest.editions.schedule import Cadence, Edition, Schedule, ScheduleStatus
from digest.papers.bitsets import bitset_of
from digest.publishing.match_index import NO_MATCHES
from digest.publishing.paper_eligibility import FIRST_LOOK, LONGEST_LOOK, Coverage, start_of_day
from digest.publishing.reader_values import Decision, GatheredInputs, Reader

#: The first digest after a pause is called a catch-up if it covers at least this time.
CATCH_UP_AFTER = timedelta(days=3)


# Readers share a few hundred schedules and due times, and `now` is the same for a whole run.
@lru_cache(maxsize=4096)
def cached_status(  # noqa: PLR0917  (the columns of one row)
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    promised: datetime | None,
    now: datetime,
    decided: frozenset[str],
) -> ScheduleStatus:
    """Return the status of a schedule that is stored in these columns."""
    schedule = Schedule(cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday)
    return edition_schedule.schedule_status(schedule, now, promised=promised, decided=decided)


def schedule_status_of(
    reader: Reader, now: datetime, decided: frozenset[str] = frozenset()
) -> ScheduleStatus:
    """Return which of the reader's editions were missed, which is due and which is next at `now`."""
    schedule = reader.cadence, reader.at, reader.timezone, reader.weekday
    return cached_status(*schedule, reader.next_due_at, now, decided)


def decide_digest(gathered: GatheredInputs, reader: Reader, edition: Edition) -> Decision:
    """Decide the content of this reader's edition, for a real run, a preview or a dry run."""
    match_index, now = gathered.match_index, gathered.now
    covered = coverage_of(reader, now)
    eligible = match_index.eligible(covered, start_of_day(reader.created_at), now)
    requested = requested_topics(gathered, reader)
    shown = gathered.shown.get(reader.id, ())
    most = min(reader.max_papers, MAX_PAPERS)
    sections = compose(requested, eligible=eligible, ids=match_index.ids, shown=shown, max_papers=most)
    while second := second_versions(sections, gathered):
        eligible &= ~bitset_of(second)
        sections = compose(requested, eligible=eligible, ids=match_index.ids, shown=shown, max_papers=most)
    is_catch_up = bool(reader.is_resumed) and now - covered.until >= CATCH_UP_AFTER
    pending = gathered.pending.get(reader.id)
    others, silent = topics_without_section(requested, sections, eligible, shown) if sections else ((), ())
    digest = Digest(
        sections=sections,
        others=others,
        silent=silent,
        checked=eligible.bit_count(),
        is_catch_up=is_catch_up,
        matched=count_matching(requested, eligible, shown) if is_catch_up else 0,
        news=pending.news if pending and sections else (),
        asks_still_reading=reader.still_reading_step == StillReadingStep.ASKED,
        abstracts=reader.abstracts,
    )
    return Decision(
        reader=reader,
        edition=edition,
        digest=digest,
        eligible=eligible,
        covered=covered,
        pending=pending,
    )


def second_versions(sections: Sequence[Section], gathered: GatheredInputs) -> list[int]:
    """Return the numbers of the papers in these sections of which an earlier version is in them, too."""
    if not gathered.versions:
        return []
    papers = {paper for section in sections for paper in section.papers}
    return [
        number
        for number, earlier in gathered.versions.items()
        if gathered.match_index.ids[number] in papers and not papers.isdisjoint(earlier)
    ]


def coverage_of(reader: Reader | Subscriber, now: datetime) -> Coverage:
    """Return how far this reader's editions have considered the catalog.

    The first edition of a new reader considers the papers since the confirmation, or since the sign-up if
    there was none, and at least those of the last 24 hours before its due time. After a long pause or outage,
    an edition considers only the papers of the last months.
    """
    until = reader.considered_until
    if until is None:
        joined_at = reader.confirmed_at or reader.created_at
        until = min(joined_at, min(now, reader.next_due_at or now) - FIRST_LOOK)
    return Coverage(max(until, now - LONGEST_LOOK), reader.considered_paper_id)


def requested_topics(gathered: GatheredInputs, reader: Reader) -> list[RequestedTopic]:
    """Return the reader's topics, or the trending topic if the reader has none."""
    choices, topics = gathered.match_index.choices, gathered.topics.get(reader.id)
    if not topics:
        return [RequestedTopic(TRENDING_TOPIC, None, gathered.match_index.trending)]
    return [RequestedTopic(name, number, choices.get(number, NO_MATCHES)) for name, number in topics]
