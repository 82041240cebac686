"""Deciding: what one reader is shown in one edition. Nothing is asked of the database, nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from functools import lru_cache

from digest import editions
from digest.composition import TRENDING, Caps, Digest, Wish, choice, compose, matching
from digest.editions import Cadence, Edition, Schedule
from digest.links import Site
from digest.model import Subscriber
from digest.press import fitted
from digest.publishing import offers
from digest.publishing.desk import FIRST_LOOK, Cut, Desk, start_of_day
from digest.publishing.values import Decision, Gathered, Reader, Slot, Topic

#: Who was on leave for less than this has missed too little to be told so.
AWAY = timedelta(days=3)

NOTHING = choice(0, (), {})


@lru_cache(maxsize=4096)
def slot_of(
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    not_after: time | None,
    promised: datetime | None,
    now: datetime,
) -> Slot:
    """Return what a schedule says at `now` to somebody who was promised a digest at `promised`."""
    schedule = Schedule(
        cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday, not_after=not_after
    )
    return Slot(
        open=editions.edition_open(schedule, now),
        missed=editions.editions_missed(schedule, promised, now) if promised else (),
        next_due_at=editions.edition_after(schedule, now).due_at,
    )


def slot_for(reader: Reader, now: datetime) -> Slot:
    """Return what the reader's schedule says at `now`."""
    return slot_of(
        reader.cadence, reader.at, reader.timezone, reader.weekday, reader.not_after, reader.next_due_at, now
    )


def decide(
    desk: Desk, gathered: Gathered, reader: Reader, edition: Edition, now: datetime, *, site: Site
) -> Decision:
    """Return what this reader is shown in this edition. The one place where that is decided."""
    cut = cut_of(reader, now)
    eligible = desk.eligible(cut, start_of_day(reader.created_at), now)
    if reader.max_age_days is not None:
        eligible &= desk.young(reader.max_age_days, edition.day)
    caps = caps_of(reader.max_papers, reader.max_per_topic, reader.min_papers)
    topics = gathered.topics.get(reader.id, ())
    wishes = wishes_of(desk, reader, topics)
    shown = gathered.shown.get(reader.id, ())
    sections = compose(wishes, eligible=eligible, ids=desk.ids, shown=shown, caps=caps)
    is_catch_up = bool(reader.is_back) and now - cut[0] >= AWAY
    pending = gathered.pending.get(reader.id)
    digest = Digest(
        sections=sections,
        checked=eligible.bit_count(),
        is_catch_up=is_catch_up,
        matched=matching(wishes, eligible, shown) if is_catch_up else 0,
        news=pending.news if pending and sections else (),
        offer=offers.offer(desk, reader, topics, sections, now) if reader.full_in_a_row else None,
    )
    return Decision(
        reader=reader,
        edition=edition,
        digest=fitted(desk.press, site, digest, desk.canonicals),
        eligible=eligible,
        covers_from=cut[0],
        is_held=not sections and caps.at_least > 1,
        pending=pending,
    )


def cut_of(reader: Reader | Subscriber, now: datetime) -> Cut:
    """Return up to where papers were considered for this reader.

    The first look of a new one goes back a day from the edition they were promised first; if nobody
    published that one, to when they came.
    """
    if reader.cut_at is not None:
        return reader.cut_at, reader.cut_paper_id
    came = reader.confirmed_at or reader.created_at
    return min(came, min(now, reader.next_due_at or now) - FIRST_LOOK), reader.cut_paper_id


@lru_cache(maxsize=1024)
def caps_of(papers: int, per_topic: int, at_least: int) -> Caps:
    """Return how much a reader wants to read."""
    return Caps(papers=papers, per_topic=per_topic, at_least=at_least)


def wishes_of(desk: Desk, reader: Reader, topics: Sequence[Topic]) -> list[Wish]:
    """Return what the reader asked for: their topics, and what trends if they want it or named none."""
    wishes = [Wish(name, number, desk.choices.get(number, NOTHING)) for name, number in topics]
    if reader.wants_trending or not wishes:
        wishes.append(Wish(TRENDING, None, desk.trending))
    return wishes


def waits(decision: Decision) -> bool:
    """Return whether an edition without papers may wait for today's dump: its reader gave it an hour."""
    return not decision.digest.sections and decision.reader.not_after is not None
