"""An edition is due at the subscriber's own hour, once a slot, also when clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digest.editions.schedule import (
    Cadence,
    Edition,
    Schedule,
    cadence_text,
    edition_on,
    local_day,
    parse_cadence,
    parse_schedule,
    schedule_status,
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


def test_an_edition_is_open_from_its_due_time_until_its_period_ends():
    weekly = Schedule(cadence=Cadence.WEEKLY, weekday=4, timezone="Europe/Oslo")
    monthly = Schedule(cadence=Cadence.MONTHLY, timezone="Europe/Oslo")
    for schedule, promised, opens, closes in [
        (OSLO, "2026-11-20 07:00", "2026-11-20 07:00", "2026-11-20 23:00"),
        (weekly, "2026-11-20 07:00", "2026-11-20 07:00", "2026-11-26 23:00"),
        (monthly, "2026-11-01 07:00", "2026-11-01 07:00", "2026-11-30 23:00"),
    ]:
        for moment, is_due in [(opens, True), (closes, False)]:
            for minute, expected in [(timedelta(minutes=-1), not is_due), (timedelta(), is_due)]:
                status = schedule_status(schedule, utc(moment) + minute, promised=utc(promised))
                assert ((schedule, moment, minute), status.due is not None) == (
                    (schedule, moment, minute),
                    expected,
                )


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
    assert schedule_status(schedule, edition.due_at).upcoming.day == date(2026, 10, 26)


def test_a_day_that_begins_at_one_still_has_its_midnight_edition():
    schedule = Schedule(at=time(0), timezone="America/Havana")  # springs forward at midnight

    edition = edition_on(schedule, date(2026, 3, 8))

    assert edition is not None
    assert edition.due_at == utc("2026-03-08 05:00")
    assert edition.due_at < edition.closes_at


def test_the_hour_that_spring_skips_before_midnight_comes_an_hour_earlier():
    for zone in ("America/Nuuk", "America/Scoresbysund"):  # 23:00 is followed by 00:00
        edition = edition_on(Schedule(at=time(23, 30), timezone=zone), date(2026, 3, 28))

        assert edition is not None
        assert edition.due_at == utc("2026-03-29 00:30")  # 22:30 on the old clock
        assert edition.due_at < edition.closes_at


ZONES = st.sampled_from(
    ["UTC", "Europe/Oslo", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia",
     "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Africa/Casablanca", "Asia/Gaza",
     "America/Nuuk", "America/Scoresbysund", "Pacific/Honolulu", "UTC-3:30"]
)  # fmt: skip
HOURS = st.sampled_from([time(0), time(2, 30), time(8), time(23, 30), time(23, 59)]) | st.times().map(
    lambda at: at.replace(second=0, microsecond=0)
)
SCHEDULES = st.builds(
    Schedule, cadence=st.sampled_from(Cadence), at=HOURS, timezone=ZONES, weekday=st.integers(0, 6)
)
MOMENTS = st.integers(0, 3 * 366 * 24 * 60).map(
    lambda minutes: utc("2025-01-01") + timedelta(minutes=minutes)
)


@given(SCHEDULES, MOMENTS)
@example(Schedule(cadence=Cadence.MONTHLY, at=time(0), timezone="Europe/Oslo"), utc("2025-08-31 22:00"))
@example(Schedule(at=time(23, 30), timezone="America/Nuuk"), utc("2026-03-28 01:00"))
def test_one_edition_follows_another_without_a_gap_or_an_overlap(schedule: Schedule, moment: datetime):
    one = schedule_status(schedule, moment).upcoming
    two = schedule_status(schedule, one.due_at).upcoming

    assert moment < one.due_at < one.closes_at <= two.due_at
    assert one.name != two.name
    assert local_day(schedule, one.due_at) == one.day
    assert schedule_status(schedule, one.due_at, promised=one.due_at).due == one
    assert schedule_status(schedule, two.due_at, promised=one.due_at).missed == (one,)
    longest = {Cadence.DAILY: 26, Cadence.WEEKDAYS: 74, Cadence.WEEKLY: 170, Cadence.MONTHLY: 746}
    assert two.due_at - one.due_at <= timedelta(hours=longest[schedule.cadence])


# ── promises ────────────────────────────────────────────────────────────────────────────────────


@given(SCHEDULES, MOMENTS, st.lists(st.tuples(st.integers(1, 20_000), SCHEDULES), max_size=4))
@example(  # weekly on Monday, changed to Friday on a Tuesday: this week's edition was sent already
    Schedule(cadence=Cadence.WEEKLY), utc("2026-11-20 12:00"),
    [(5 * 1440, Schedule(cadence=Cadence.WEEKLY, weekday=4))],
)  # fmt: skip
def test_a_promised_digest_comes_when_it_was_promised_whatever_is_changed(
    schedule: Schedule, now: datetime, changes: list[tuple[int, Schedule]]
):
    """Run at every due time, as publishing does; what is published next is what was promised last."""
    decided: list[str] = []
    due_at = said_at = schedule_status(schedule, now).upcoming.due_at  # the row, and what a page says

    def run_until(end: datetime) -> None:
        nonlocal due_at, said_at
        while due_at <= end:
            moment = max(due_at, now)
            status = schedule_status(schedule, moment, promised=due_at)
            if status.due is not None and status.due.name in decided:  # the schema refuses it: decide again
                status = schedule_status(schedule, moment, promised=due_at, decided=decided)
            assert status.missed == ()
            if status.due is not None:
                assert status.due.due_at == said_at
                decided.append(status.due.name)
            due_at = status.upcoming.due_at
            said_at = schedule_status(schedule, moment, promised=due_at, decided=decided).next.due_at
        assert said_at > end

    for minutes, changed in changes:
        run_until(now + timedelta(minutes=minutes))
        now += timedelta(minutes=minutes)
        said_at = schedule_status(changed, now, promised=due_at, decided=decided).next.due_at
        schedule, due_at = changed, said_at
    run_until(now + timedelta(days=70))
    assert len(decided) == len({*decided})


@given(SCHEDULES, MOMENTS, st.integers(0, 60 * 24 * 60))
def test_after_an_outage_each_promised_edition_is_due_or_missed(
    schedule: Schedule, moment: datetime, minutes: int
):
    promised = schedule_status(schedule, moment).upcoming
    status = schedule_status(schedule, promised.due_at + timedelta(minutes=minutes), promised=promised.due_at)
    editions = [*status.missed, *([status.due] if status.due else []), status.upcoming]

    assert editions[0] == promised
    for one, two in pairwise(editions):
        assert schedule_status(schedule, one.due_at).upcoming == two


def test_missed_editions_are_those_that_closed_since_the_promise():
    status = schedule_status(OSLO, utc("2026-11-20 08:00"), promised=utc("2026-11-17 07:00"))

    assert [one.name for one in status.missed] == ["daily-2026-11-17", "daily-2026-11-18", "daily-2026-11-19"]
    assert schedule_status(OSLO, utc("2026-11-20 22:00"), promised=utc("2026-11-20 07:00")).missed == ()


def test_missed_editions_reach_back_two_months_at_most():
    missed = schedule_status(OSLO, utc("2026-11-20 08:00"), promised=utc("2020-01-01 07:00")).missed

    assert len(missed) == 62


def test_a_weekly_day_that_changes_after_its_edition_is_promised_for_the_next_week():
    friday = Schedule(cadence=Cadence.WEEKLY, weekday=4)
    tuesday, promised = utc("2026-11-24 12:00"), utc("2026-11-30 08:00")

    assert schedule_status(friday, tuesday, promised=promised).next.name == "weekly-2026-W48"
    sent = {"weekly-2026-W48"}
    assert schedule_status(friday, tuesday, promised=promised, decided=sent).next.day == date(2026, 12, 4)


# ── what people type ────────────────────────────────────────────────────────────────────────────


@given(SCHEDULES)
def test_every_cadence_is_parsed_from_its_own_text(schedule: Schedule):
    weekday = schedule.weekday if schedule.cadence is Cadence.WEEKLY else 0

    assert parse_cadence(cadence_text(schedule)) == (schedule.cadence, weekday)


def test_a_schedule_is_parsed_from_texts():
    parsed = parse_schedule(cadence="Weekly-Friday", at="7:05", timezone=" Europe/Oslo ")

    assert parsed == Schedule(cadence=Cadence.WEEKLY, at=time(7, 5), timezone="Europe/Oslo", weekday=4)
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
