"""Compute when a digest is due, in the subscriber's own time zone.

An edition is identified by its local date, not by a point in time. The hour that clocks repeat in autumn
therefore cannot cause a second edition, and the hour that they skip in spring cannot prevent an edition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from itertools import count

from digest.editions.time_zones import parse_zone, zone_of
from digest.errors import BadField

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
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
    not_after: time | None = None  #: the local time of day at which an edition closes; None for midnight


@dataclass(frozen=True, kw_only=True, slots=True)
class Edition:
    """One dated issue of a digest, such as `daily-2026-11-20`, `weekly-2026-W47` or `monthly-2026-11`.

    An edition is open in the half-open window from `due_at` to `closes_at`, both in UTC. The weekday cadence
    uses the same names as the daily cadence, so that changing between them cannot cause two digests on a day.
    """

    name: str
    day: date
    due_at: datetime
    closes_at: datetime


def edition_on(schedule: Schedule, day: date) -> Edition | None:
    """Return the edition on the local `day`, or None if the cadence has no edition on that day."""
    if not falls_on(schedule, day):
        return None
    zone = zone_of(schedule.timezone)
    due_at = local_instant(day, schedule.at, zone)
    closes_at = local_instant(day + timedelta(days=1), time(), zone)
    if schedule.not_after is not None and schedule.not_after > schedule.at:
        closes_at = min(closes_at, local_instant(day, schedule.not_after, zone))
    return Edition(name=edition_name(schedule.cadence, day), day=day, due_at=due_at, closes_at=closes_at)


def open_edition(schedule: Schedule, now: datetime) -> Edition | None:
    """Return the edition that is open at `now`, or None."""
    edition = edition_on(schedule, now.astimezone(zone_of(schedule.timezone)).date())
    return edition if edition and edition.due_at <= now < edition.closes_at else None


def next_edition(schedule: Schedule, moment: datetime) -> Edition:
    """Return the first edition that is due strictly after `moment`."""
    today = moment.astimezone(zone_of(schedule.timezone)).date()
    editions = (edition_on(schedule, today + timedelta(days=ahead)) for ahead in count())
    return next(edition for edition in editions if edition and edition.due_at > moment)


def missed_editions(schedule: Schedule, since: datetime, now: datetime) -> tuple[Edition, ...]:
    """Return the editions that were due at or after `since` and closed by `now`, at most a month back."""
    zone = zone_of(schedule.timezone)
    since = max(since, now - timedelta(days=32))  # the longest month: 31 days, and an hour if clocks go back
    first, last = since.astimezone(zone).date(), now.astimezone(zone).date()
    slots = (edition_on(schedule, first + timedelta(days=ahead)) for ahead in range((last - first).days + 1))
    return tuple(slot for slot in slots if slot and slot.due_at >= since and slot.closes_at <= now)


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
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────


def parse_schedule(
    *, cadence: str = "daily", at: str = "08:00", timezone: str = "UTC", not_after: str | None = None
) -> Schedule:
    """Parse a schedule; raise BadField with the name of the invalid field."""
    how_often, weekday = parse_cadence(cadence)
    return Schedule(
        cadence=how_often,
        at=parse_time(at),
        timezone=parse_zone(timezone),
        weekday=weekday,
        not_after=parse_time(not_after, field="not_after") if not_after else None,
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
