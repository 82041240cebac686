"""Editions: when a digest is due, in the subscriber's own days and hours.

An edition is named by its local date, never by an instant, so the hour that a clock repeats in
autumn cannot make a second one and the hour it skips in spring cannot lose one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from digest.errors import BadField

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Cadence(StrEnum):
    """How often a digest comes."""

    DAILY = "daily"  #: every day
    WEEKDAYS = "weekdays"  #: Monday to Friday
    WEEKLY = "weekly"  #: on one day of the week
    MONTHLY = "monthly"  #: on the first day of the month


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When one subscriber wants to be written to."""

    cadence: Cadence = Cadence.DAILY
    at: time = time(8)
    timezone: str = "UTC"
    weekday: int = 0  #: for weekly: 0 is Monday
    not_after: time | None = None  #: later than this on the day, the edition expires


@dataclass(frozen=True, kw_only=True, slots=True)
class Edition:
    """A dated slot of a cadence: `daily-2026-11-20`, `weekly-2026-W47`, `monthly-2026-11`.

    Open in the half-open window from `due_at` to `closes_at`, both in UTC. The weekday cadence
    shares the names of the daily one, so that changing between the two cannot send twice a day.
    """

    name: str
    day: date
    due_at: datetime
    closes_at: datetime


def edition_on(schedule: Schedule, day: date) -> Edition | None:
    """Return the edition of the local `day`, or None if the cadence has none that day."""
    if not falls_on(schedule, day):
        return None
    zone = zone_of(schedule.timezone)
    due_at = instant(day, schedule.at, zone)
    closes_at = instant(day + timedelta(days=1), time(), zone)
    if schedule.not_after is not None and schedule.not_after > schedule.at:
        closes_at = min(closes_at, instant(day, schedule.not_after, zone))
    return Edition(name=name_of(schedule.cadence, day), day=day, due_at=due_at, closes_at=closes_at)


def edition_open(schedule: Schedule, now: datetime) -> Edition | None:
    """Return the edition that is open at `now`, or None."""
    edition = edition_on(schedule, now.astimezone(zone_of(schedule.timezone)).date())
    return edition if edition and edition.due_at <= now < edition.closes_at else None


def edition_after(schedule: Schedule, moment: datetime) -> Edition:
    """Return the first edition that falls due strictly after `moment`."""
    day = moment.astimezone(zone_of(schedule.timezone)).date()
    for ahead in range(63):  # a monthly edition is at most 31 days away
        edition = edition_on(schedule, day + timedelta(days=ahead))
        if edition and edition.due_at > moment:
            return edition
    raise AssertionError(f"no edition of {schedule} within two months of {moment}")


def falls_on(schedule: Schedule, day: date) -> bool:
    """Return whether the cadence has an edition on the local `day`."""
    match schedule.cadence:
        case Cadence.DAILY:
            return True
        case Cadence.WEEKDAYS:
            return day.weekday() < 5
        case Cadence.WEEKLY:
            return day.weekday() == schedule.weekday
        case Cadence.MONTHLY:
            return day.day == 1


def name_of(cadence: Cadence, day: date) -> str:
    """Return the edition's name: the identity that makes a second one impossible."""
    match cadence:
        case Cadence.WEEKLY:
            year, week, _ = day.isocalendar()
            return f"weekly-{year}-W{week:02d}"
        case Cadence.MONTHLY:
            return f"monthly-{day:%Y-%m}"
        case _:
            return f"daily-{day.isoformat()}"


def instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return the moment, in UTC, at which local clocks first show `at` on `day`.

    A time that the spring change skips is taken at the pre-change offset: 02:30 rings at 03:30.
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """Return the zone of that name, or raise BadField naming a close one."""
    if name not in zone_names():
        raise BadField("timezone", f"{name!r} is not a time zone; write one such as Europe/Oslo or UTC.")
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return every zone name the time zone database knows."""
    return frozenset(available_timezones())
