"""A list is late or short compared with the same weekdays before it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from digest.papers.expected_arrivals import (
    ListArrival,
    Silence,
    is_far_below,
    late_lists,
    silence,
    usual_papers,
)

FRIDAY = datetime(2026, 11, 20, tzinfo=UTC)


def weeks(*hours: float, before: datetime = FRIDAY, source: str = "hf-daily") -> list[ListArrival]:
    """Return lists that arrived on the same weekday at these hours, the last a week before."""
    return [
        ListArrival(source=source, at=before - timedelta(weeks=len(hours) - week) + timedelta(hours=hour))
        for week, hour in enumerate(hours)
    ]


def sources(arrivals: list[ListArrival], hour: float, *, day: datetime = FRIDAY) -> list[str]:
    return [one.source for one in late_lists(arrivals, now=day + timedelta(hours=hour))]


def test_a_list_is_late_two_hours_after_its_usual_time() -> None:
    past = weeks(3.0, 3.0, 3.2, 3.1)

    assert sources(past, 3.5) == sources(past, 5.0) == []
    assert sources(past, 5.2) == ["hf-daily"]


def test_a_late_list_names_its_usual_time_and_the_last_arrival() -> None:
    (found,) = late_lists(weeks(3.0, 3.0, 3.0), now=FRIDAY + timedelta(hours=6))

    assert (found.day, found.usual_at) == (date(2026, 11, 20), FRIDAY + timedelta(hours=3))
    assert found.expected_by == FRIDAY + timedelta(hours=5)
    assert found.last_at == FRIDAY - timedelta(weeks=1) + timedelta(hours=3)
    assert str(found) == "hf-daily: Friday's list has not arrived; it usually arrives at 03:00 UTC"


def test_a_list_that_has_arrived_is_not_late() -> None:
    past = weeks(3.0, 3.0, 3.0)

    assert sources([*past, ListArrival(source="hf-daily", at=FRIDAY + timedelta(hours=1))], 12) == []
    assert sources([*past, ListArrival(source="biorxiv", at=FRIDAY + timedelta(hours=1))], 12) == ["hf-daily"]


def test_a_weekend_without_lists_is_not_late() -> None:
    month = [
        ListArrival(source="hf-daily", at=FRIDAY - timedelta(days=back, hours=-3))
        for back in range(1, 35)
        if (FRIDAY - timedelta(days=back)).weekday() < 5
    ] + [ListArrival(source="hf-daily", at=FRIDAY + timedelta(hours=3))]
    saturday, sunday, monday = (FRIDAY + timedelta(days=days) for days in (1, 2, 3))

    assert sources(month, 23, day=saturday) == sources(month, 23, day=sunday) == []
    assert sources(month, 4, day=monday) == []
    assert sources(month, 6, day=monday) == ["hf-daily"]


def test_two_weeks_are_too_few_to_expect_a_list() -> None:
    assert sources(weeks(3.0, 3.0), 23) == []


def test_one_holiday_changes_nothing_and_a_source_that_ended_is_not_expected() -> None:
    past = weeks(3.0, 3.0, 3.0, 3.0)

    assert sources([past[0], *past[2:]], 23) == ["hf-daily"]
    assert sources(past, 23, day=FRIDAY + timedelta(weeks=1)) == ["hf-daily"]
    assert sources(past, 23, day=FRIDAY + timedelta(weeks=2)) == []


def test_an_unpunctual_source_is_given_more_time() -> None:
    past = weeks(2.0, 6.0, 10.0, 4.0, 8.0)

    assert sources(past, 9.0) == sources(past, 11.5) == []
    assert sources(past, 12.5) == ["hf-daily"]


def test_a_list_due_before_midnight_is_late_after_it() -> None:
    past = weeks(23.0, 23.0, 23.0)

    assert sources(past, 23.9) == []
    assert sources(past, 1.5, day=FRIDAY + timedelta(days=1)) == ["hf-daily"]
    assert sources(past, 1.5, day=FRIDAY + timedelta(days=2)) == []


def test_only_the_first_list_of_a_day_sets_the_usual_hour() -> None:
    again = [ListArrival(source="hf-daily", at=one.at + timedelta(hours=9)) for one in weeks(3.0, 3.0, 3.0)]

    assert sources([*again, *weeks(3.0, 3.0, 3.0)], 5.5) == ["hf-daily"]


@given(
    arrivals=some.lists(
        some.builds(
            ListArrival,
            source=some.sampled_from(["folder", "hf-daily"]),
            at=some.integers(-80 * 24, 5 * 24).map(lambda hours: FRIDAY + timedelta(hours=hours)),
        ),
        max_size=80,
    ),
    hours=some.integers(0, 24 * 5),
)
def test_nothing_is_late_on_a_weekday_that_never_had_a_list(arrivals: list[ListArrival], hours: int) -> None:
    now = FRIDAY + timedelta(hours=hours)

    for one in late_lists(arrivals, now=now):
        assert one.usual_at < one.expected_by < now
        theirs = {arrival.at.date() for arrival in arrivals if arrival.source == one.source}
        assert sum(one.day - timedelta(weeks=back) in theirs for back in range(1, 5)) >= 3
        assert not any(
            one.day <= arrival.at.date() and arrival.at <= now
            for arrival in arrivals
            if arrival.source == one.source
        )


@pytest.mark.parametrize(
    ("papers", "usual", "few"),
    [(7, 20, True), (8, 20, False), (0, 10, True), (0, 9, False), (300, None, False), (0, None, False)],
)
def test_a_list_is_far_below_usual_under_two_fifths_of_at_least_ten_papers(
    papers: int, usual: int | None, few: bool
) -> None:
    assert is_far_below(papers, usual) is few


def test_the_usual_size_is_the_median_of_the_same_weekday() -> None:
    day = FRIDAY.date()
    fridays = {day - timedelta(weeks=back): papers for back, papers in enumerate([40, 2, 60, 50], start=1)}
    saturdays = {day - timedelta(weeks=back, days=-1): 0 for back in range(1, 5)}

    assert usual_papers(fridays | saturdays, day) == 45
    assert usual_papers(saturdays, day) is None
    assert usual_papers({day - timedelta(weeks=back): 9 for back in (1, 2, 12)}, day) is None


def test_two_usual_days_without_papers_are_a_silence() -> None:
    monday = date(2026, 11, 23)

    def said(days: list[int], today: int) -> str:
        """Papers came on these days, counted from that Monday; what is said on day `today`?"""
        came = {monday + timedelta(days=day) for day in days}
        return str(silence(came, since=monday, today=monday + timedelta(days=today)) or "")

    month = [-7 * week + day for week in range(5) for day in range(5)]
    until_tuesday = [day for day in month if day < 2]
    assert said(month, 5) == said(month, 7) == said(month, 8) == ""  # over the weekend, and on Monday
    assert said(month, 9) == "since Friday, 2026-11-27; they usually come on weekdays"
    assert said(until_tuesday, 3) == ""
    assert said(until_tuesday, 4) == "since Tuesday, 2026-11-24; they usually come on weekdays"
    weekly = [-21, -14, -7, 0]
    assert said(weekly, 14) == ""
    assert said(weekly, 15) == "since Monday, 2026-11-23; they usually come on Monday"
    assert said([], 3) == ""
    assert said([], 4) == "so far"
    assert silence({monday}, since=monday, today=monday + timedelta(days=4)) == Silence(
        last=monday, usual=frozenset()
    )
