"""Editions: when a digest is due, in the subscriber's own days and hours.

An edition is named by its local date, never by an instant, so the hour that a clock repeats in
autumn cannot make a second one and the hour it skips in spring cannot lose one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from digest.errors import BadField

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
CONTINENTS = frozenset(
    {"Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Pacific"}
)


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
    for ahead in range(63):  # a monthly one is at most 31 days away, and an hour
        edition = edition_on(schedule, day + timedelta(days=ahead))
        if edition and edition.due_at > moment:
            return edition
    raise AssertionError(f"no edition of {schedule} within two months of {moment}")


def editions_missed(schedule: Schedule, since: datetime, now: datetime) -> tuple[Edition, ...]:
    """Return the editions due from `since` on whose window has closed by `now`; a month back at most."""
    zone = zone_of(schedule.timezone)
    since = max(since, now - timedelta(days=32))  # October has 31 days and an hour where clocks go back
    first, last = since.astimezone(zone).date(), now.astimezone(zone).date()
    slots = (edition_on(schedule, first + timedelta(days=ahead)) for ahead in range((last - first).days + 1))
    return tuple(slot for slot in slots if slot and slot.due_at >= since and slot.closes_at <= now)


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


# ── as people write them ────────────────────────────────────────────────────────────────────────


def schedule_in(
    *, cadence: str = "daily", at: str = "08:00", timezone: str = "UTC", not_after: str | None = None
) -> Schedule:
    """Return the schedule of those words, or raise BadField naming the one that does not fit."""
    how_often, weekday = cadence_in(cadence)
    return Schedule(
        cadence=how_often,
        at=time_in(at),
        timezone=zone_in(timezone),
        weekday=weekday,
        not_after=time_in(not_after, field="not_after") if not_after else None,
    )


def cadence_in(text: str) -> tuple[Cadence, int]:
    """Return the cadence of `daily`, `weekdays`, `weekly`, `weekly-fri` or `monthly`, and the weekday."""
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


def cadence_spelling(schedule: Schedule) -> str:
    """Return the word that `cadence_in` reads back."""
    if schedule.cadence is Cadence.WEEKLY and schedule.weekday:
        return f"weekly-{WEEKDAYS[schedule.weekday][:3]}"
    return schedule.cadence


def time_in(text: str, *, field: str = "at") -> time:
    """Return the time of day of `8:00` or `08:00`."""
    found = CLOCK.fullmatch(text.strip())
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        raise BadField(field, f"{text!r} is not a time of day. Write it as 08:00.")
    return time(int(found[1]), int(found[2]))


def zone_in(text: str) -> str:
    """Return the name of the time zone, or raise BadField with the one that was probably meant."""
    name = text.strip()
    if name in zone_names():
        return name
    meant = zone_like(name)
    hint = f"Did you mean {meant}?" if meant else "Write one such as Europe/Oslo or UTC."
    raise BadField("timezone", f"{text!r} is not a time zone. {hint}")


@lru_cache(maxsize=1024)
def zone_like(text: str) -> str | None:
    """Return the zone whose name or city is closest to `text`, or None."""
    wanted = text.casefold().replace(" ", "_")
    names = sorted(zone_names(), key=lambda name: (name.split("/")[0] not in CONTINENTS, name))
    cities = {name.rpartition("/")[2].casefold(): name for name in reversed(names)}
    whole = {name.casefold(): name for name in reversed(names)}
    if found := whole.get(wanted) or cities.get(wanted):
        return found
    close = get_close_matches(wanted, [*whole, *cities], n=1, cutoff=0.75)
    return (whole.get(close[0]) or cities[close[0]]) if close else None


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """Return the zone of that name, or raise BadField naming a close one."""
    return ZoneInfo(zone_in(name))


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return every zone name the time zone database knows."""
    return frozenset(available_timezones())
