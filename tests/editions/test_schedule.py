"""An edition is due at the subscriber's own hour, once a slot, also when clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digest.editions.schedule import (
    Cadence,
    Edition,
    Schedule,
    cadence_text,
    edition_on,
    missed_editions,
    next_edition,
    open_edition,
    parse_cadence,
    parse_schedule,
)
from digest.errors import BadField

OSLO = Schedule(at=time(8), timezone="Europe/Oslo")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_an_edition_is_due_at_the_local_hour_and_closes_at_local_midnight():
    assert edition_on(OSLO, date(2026, 11, 20)) == Edition(
        name="daily-2026-11-20",
        day=date(2026, 11, 20),
        due_at=utc("2026-11-20 07:00"),
        closes_at=utc("2026-11-20 23:00"),
    )


@pytest.mark.parametrize(
    ("schedule", "day", "name"),
    [
        (Schedule(cadence=Cadence.DAILY), date(2026, 11, 21), "daily-2026-11-21"),
        (Schedule(cadence=Cadence.WEEKDAYS), date(2026, 11, 20), "daily-2026-11-20"),
        (Schedule(cadence=Cadence.WEEKDAYS), date(2026, 11, 21), None),
        (Schedule(cadence=Cadence.WEEKLY, weekday=4), date(2026, 11, 20), "weekly-2026-W47"),
        (Schedule(cadence=Cadence.WEEKLY, weekday=4), date(2026, 11, 19), None),
        (Schedule(cadence=Cadence.WEEKLY, weekday=3), date(2026, 12, 31), "weekly-2026-W53"),
        (Schedule(cadence=Cadence.WEEKLY, weekday=4), date(2027, 1, 1), "weekly-2026-W53"),
        (Schedule(cadence=Cadence.MONTHLY), date(2026, 12, 1), "monthly-2026-12"),
        (Schedule(cadence=Cadence.MONTHLY), date(2026, 12, 2), None),
    ],
)
def test_every_cadence_names_its_slots(schedule: Schedule, day: date, name: str | None):
    edition = edition_on(schedule, day)

    assert (edition.name if edition else None) == name


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-11-20 06:59", False),
        ("2026-11-20 07:00", True),
        ("2026-11-20 22:59", True),
        ("2026-11-20 23:00", False),
    ],
)
def test_an_edition_is_open_from_its_due_time_until_midnight(now: str, is_open: bool):
    assert (open_edition(OSLO, utc(now)) is not None) == is_open


def test_an_edition_with_a_latest_hour_closes_then():
    schedule = Schedule(at=time(8), not_after=time(11), timezone="Europe/Oslo")

    assert open_edition(schedule, utc("2026-11-20 09:59")) is not None
    assert open_edition(schedule, utc("2026-11-20 10:00")) is None


# ── the two nights of the year ──────────────────────────────────────────────────────────────────


def test_the_hour_that_spring_skips_is_not_lost():
    schedule = Schedule(at=time(2, 30), timezone="Europe/Oslo")  # 02:00 to 03:00 does not exist

    edition = edition_on(schedule, date(2026, 3, 29))

    assert edition is not None
    assert edition.due_at == utc("2026-03-29 01:30")  # 03:30 on the new clock
    assert edition.closes_at == utc("2026-03-29 22:00")  # an hour earlier than the day before


def test_the_hour_that_autumn_repeats_makes_one_edition():
    schedule = Schedule(at=time(2, 30), timezone="Europe/Oslo")  # 02:00 to 03:00 comes twice

    edition = edition_on(schedule, date(2026, 10, 25))

    assert edition is not None
    assert edition.due_at == utc("2026-10-25 00:30")  # the first of the two
    assert next_edition(schedule, edition.due_at).day == date(2026, 10, 26)


def test_a_day_that_begins_at_one_still_has_its_midnight_edition():
    schedule = Schedule(at=time(0), timezone="America/Havana")  # springs forward at midnight

    edition = edition_on(schedule, date(2026, 3, 8))

    assert edition is not None
    assert edition.due_at == utc("2026-03-08 05:00")
    assert edition.due_at < edition.closes_at


ZONES = st.sampled_from(
    ["UTC", "Europe/Oslo", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia",
     "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Africa/Casablanca", "Asia/Gaza"]
)  # fmt: skip
SCHEDULES = st.builds(
    Schedule,
    cadence=st.sampled_from(Cadence),
    at=st.times().map(lambda at: at.replace(second=0, microsecond=0)),
    timezone=ZONES,
    weekday=st.integers(0, 6),
)
MOMENTS = st.integers(0, 3 * 366 * 24 * 60).map(
    lambda minutes: utc("2025-01-01") + timedelta(minutes=minutes)
)


@given(SCHEDULES, MOMENTS)
@example(Schedule(cadence=Cadence.MONTHLY, at=time(0), timezone="Europe/Oslo"), utc("2025-08-31 22:00"))
def test_one_edition_follows_another_without_a_gap_or_an_overlap(schedule: Schedule, moment: datetime):
    one = next_edition(schedule, moment)
    two = next_edition(schedule, one.due_at)

    assert moment < one.due_at < one.closes_at <= two.due_at
    assert one.name != two.name
    assert open_edition(schedule, one.due_at) == one
    assert missed_editions(schedule, one.due_at, two.due_at)[:1] == (one,)
    longest = {Cadence.DAILY: 26, Cadence.WEEKDAYS: 74, Cadence.WEEKLY: 170, Cadence.MONTHLY: 746}
    assert two.due_at - one.due_at <= timedelta(hours=longest[schedule.cadence])


@given(SCHEDULES, SCHEDULES, MOMENTS)
def test_moving_between_zones_cannot_name_one_slot_twice_on_two_days(
    before: Schedule, after: Schedule, moment: datetime
):
    one, two = open_edition(before, moment), open_edition(after, moment + timedelta(days=31, hours=14))

    assert one is None or two is None or one.name != two.name


# ── missed ──────────────────────────────────────────────────────────────────────────────────────


def test_missed_editions_are_those_that_closed_since_the_due_moment():
    missed = missed_editions(OSLO, utc("2026-11-17 07:00"), utc("2026-11-20 08:00"))

    assert [one.name for one in missed] == ["daily-2026-11-17", "daily-2026-11-18", "daily-2026-11-19"]


def test_an_edition_that_is_still_open_is_not_missed():
    assert missed_editions(OSLO, utc("2026-11-20 07:00"), utc("2026-11-20 22:00")) == ()


def test_missed_editions_reach_back_a_month_at_most():
    missed = missed_editions(OSLO, utc("2020-01-01 07:00"), utc("2026-11-20 08:00"))

    assert 0 < len(missed) <= 31


# ── what people type ────────────────────────────────────────────────────────────────────────────


@given(SCHEDULES)
def test_every_cadence_is_parsed_from_its_own_text(schedule: Schedule):
    weekday = schedule.weekday if schedule.cadence is Cadence.WEEKLY else 0

    assert parse_cadence(cadence_text(schedule)) == (schedule.cadence, weekday)


def test_a_schedule_is_parsed_from_texts():
    parsed = parse_schedule(cadence="Weekly-Friday", at="7:05", timezone=" Europe/Oslo ", not_after="11:00")

    assert parsed == Schedule(
        cadence=Cadence.WEEKLY, at=time(7, 5), timezone="Europe/Oslo", weekday=4, not_after=time(11)
    )
    assert parse_schedule() == Schedule()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("dayly", "Did you mean daily?"),
        ("weekly-fro", "Did you mean weekly-fri?"),
        ("daily-mon", "Did you mean daily?"),
        ("weekly-f", "Did you mean weekly-fri?"),
        ("now and then", "Write one of daily, weekdays, weekly, monthly or weekly-fri."),
    ],
)
def test_an_unknown_cadence_is_refused_with_a_hint(text: str, hint: str):
    with pytest.raises(BadField) as refused:
        parse_cadence(text)

    assert refused.value.field == "cadence"
    assert str(refused.value).endswith(hint)


@pytest.mark.parametrize("text", ["24:00", "8:60", "8", "08:00:00", "", "8 o'clock"])
def test_an_invalid_time_of_day_is_refused(text: str):
    with pytest.raises(BadField, match="not a time of day") as refused:
        parse_schedule(at=text)

    assert refused.value.field == "at"


def test_a_latest_hour_that_is_no_time_is_refused_by_its_own_name():
    with pytest.raises(BadField, match="not a time of day") as refused:
        parse_schedule(not_after="noon")

    assert refused.value.field == "not_after"
