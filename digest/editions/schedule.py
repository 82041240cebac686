"""Compute when a digest is due, in the subscriber's own time zone.

An edition is identified by its local date, not by a point in time. The hour that clocks repeat in autumn
therefore cannot cause a second edition, and the hour that they skip in spring cannot prevent an edition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from itertools import count

from digest.editions.time_zones import parse_zone, zone_of
from digest.errors import BadField

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: How far back missed editions are recorded; enough for two editions of a month.
REMEMBERED = timedelta(days=62)
TIME_PATTERN = re.compile(r"(\d{1,2}):(\d{2})")


class Cadence(StrEnum):
    """How often a digest is sent."""

    DAILY = "daily"  #: every day
    WEEKDAYS = "weekdays"  #: Monday to Friday
    WEEKLY = "weekly"  #: on one day of the week
    MONTHLY = "monthly"  #: on the first day of the month


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The times at which one subscriber gets digests."""

    cadence: Cadence = Cadence.DAILY
    at: time = time(8)
    timezone: str = "UTC"
    weekday: int = 0  #: the day of a weekly digest; 0 is Monday


@dataclass(frozen=True, kw_only=True, slots=True)
class Edition:
    """One dated issue of a digest, such as `daily-2026-11-20`, `weekly-2026-W47` or `monthly-2026-11`.

    An edition is open in the half-open window from `due_at` to `closes_at`, both in UTC: until midnight, or if
    it is weekly or monthly, until the day of the next one. The weekday cadence uses the same names as the daily
    cadence, so that changing between them cannot cause two digests on a day.
    """

    name: str
    day: date
    due_at: datetime
    closes_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleStatus:
    """The editions that matter to one reader at one moment.

    This is the only place where it is decided when a digest comes: runs publish `due`, and whoever promises a
    digest names `next`.
    """

    missed: tuple[Edition, ...]  #: the promised editions that closed without having been decided
    due: Edition | None  #: the open edition, if it is promised and not decided
    upcoming: Edition  #: the first edition that opens later

    @property
    def next(self) -> Edition:
        """Return the edition that the reader gets next."""
        return self.due or self.upcoming


def schedule_status(
    schedule: Schedule,
    now: datetime,
    *,
    promised: datetime | None = None,
    decided: Collection[str] = frozenset(),
) -> ScheduleStatus:
    """Return which editions were missed, which is due and which comes next.

    `promised` is the due time of the next digest according to earlier pages and letters. Editions of earlier
    days were not promised: they are neither due nor missed. If it is None, those of today are due.
    `decided` has the names of editions that were published already.
    """
    today = local_day(schedule, now)
    promised_on = today if promised is None else local_day(schedule, promised)
    earliest = max(min(today, promised_on), today - REMEMBERED)
    editions = (one for one in editions_from(schedule, earliest) if one.name not in decided)
    begun = []
    while (edition := next(editions)).due_at <= now:
        if edition.day >= promised_on:
            begun.append(edition)
    closed = tuple(one for one in begun if one.closes_at <= now)
    return ScheduleStatus(
        missed=closed if promised is not None else (),
        due=next((one for one in begun if now < one.closes_at), None),
        upcoming=edition,
    )


def editions_from(schedule: Schedule, day: date) -> Iterator[Edition]:
    """Yield the editions from a local day on."""
    for ahead in count():
        if edition := edition_on(schedule, day + timedelta(days=ahead)):
            yield edition


def edition_on(schedule: Schedule, day: date) -> Edition | None:
    """Return the edition on the local `day`, or None if the cadence has no edition on that day."""
    if not falls_on(schedule, day):
        return None
    zone = zone_of(schedule.timezone)
    due_at = local_instant(day, schedule.at, zone)
    if due_at >= local_instant(
        day + timedelta(days=1), time(), zone
    ):  # clocks skip the last hour of this day
        due_at = datetime.combine(day, schedule.at, tzinfo=zone).replace(fold=1).astimezone(UTC)
    closes_at = local_instant(period_end(schedule.cadence, day), time(), zone)
    return Edition(name=edition_name(schedule.cadence, day), day=day, due_at=due_at, closes_at=closes_at)


def period_end(cadence: Cadence, day: date) -> date:
    """Return the day at whose beginning the edition of `day` closes."""
    match cadence:
        case Cadence.WEEKLY:
            return day + timedelta(days=7)
        case Cadence.MONTHLY:
            return (day + timedelta(days=31)).replace(day=1)
        case _:
            return day + timedelta(days=1)


def local_day(schedule: Schedule, moment: datetime) -> date:
    """Return the date of a moment in the schedule's time zone."""
    return moment.astimezone(zone_of(schedule.timezone)).date()


def falls_on(schedule: Schedule, day: date) -> bool:
    """Return whether the cadence has an edition on the local `day`."""
    return {
        Cadence.DAILY: True,
        Cadence.WEEKDAYS: day.weekday() < 5,
        Cadence.WEEKLY: day.weekday() == schedule.weekday,
        Cadence.MONTHLY: day.day == 1,
    }[schedule.cadence]


def edition_name(cadence: Cadence, day: date) -> str:
    """Return the edition's name, which is part of the unique key that prevents sending a digest twice."""
    match cadence:
        case Cadence.WEEKLY:
            year, week, _ = day.isocalendar()
            return f"weekly-{year}-W{week:02d}"
        case Cadence.MONTHLY:
            return f"monthly-{day:%Y-%m}"
        case _:
            return f"daily-{day.isoformat()}"


def local_instant(day: date, at: time, zone: tzinfo) -> datetime:
    """Return the UTC time at which local clocks first show `at` on `day`.

    A time that clocks skip in spring is converted with the UTC offset before the change: 02:30 becomes 03:30.
    Where that is no longer on the same day, `edition_on` uses the offset after the change.
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────


def parse_schedule(*, cadence: str = "daily", at: str = "08:00", timezone: str = "UTC") -> Schedule:
    """Parse a schedule; raise BadField with the name of the invalid field."""
    how_often, weekday = parse_cadence(cadence)
    return Schedule(
        cadence=how_often,
        at=parse_time(at),
        timezone=parse_zone(timezone),
        weekday=weekday,
    )


def parse_cadence(text: str) -> tuple[Cadence, int]:
    """Parse a cadence such as `daily`, `weekly-fri` or `monthly`; raise BadField if it is not a cadence.

    Returns the cadence and the number of the weekday, which is 0 (Monday) if `text` names no weekday.
    """
    word, _, day = text.strip().lower().partition("-")
    days = [number for number, name in enumerate(WEEKDAYS) if len(day) >= 3 and name.startswith(day)]
    if word == Cadence.WEEKLY and (days or not day):
        return Cadence.WEEKLY, days[0] if days else 0
    if word in set(Cadence) and not day:
        return Cadence(word), 0
    spellings = [*Cadence, *(f"weekly-{name[:3]}" for name in WEEKDAYS)]
    close = get_close_matches(text.strip().lower(), spellings, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Write one of {', '.join(Cadence)} or weekly-fri."
    raise BadField("cadence", f"{text!r} is not a cadence. {hint}")


def cadence_text(schedule: Schedule) -> str:
    """Return the schedule's cadence as text that `parse_cadence` accepts."""
    if schedule.cadence is Cadence.WEEKLY and schedule.weekday:
        return f"weekly-{WEEKDAYS[schedule.weekday][:3]}"
    return schedule.cadence


def parse_time(text: str, *, field: str = "at") -> time:
    """Parse a time of day such as `8:00` or `08:00`; raise BadField, naming `field`, if it is not one."""
    found = TIME_PATTERN.fullmatch(text.strip())
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        raise BadField(field, f"{text!r} is not a time of day. Write it as 08:00.")
    return time(int(found[1]), int(found[2]))
