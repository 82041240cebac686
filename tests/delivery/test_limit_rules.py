"""Limits are parsed from the operator's settings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from digest.delivery.limits.canary import parse_canary
from digest.delivery.limits.limit_rules import parse_conversation_limits, parse_rates
from digest.delivery.limits.send_hours import parse_send_hours
from digest.delivery.limits.warm_up import parse_warm_up
from digest.errors import BadField
from tests.conftest import NOW


def test_a_canary_holds_about_its_share_of_the_letters_and_waits_as_long_as_it_says():
    canary = parse_canary("2.5% for 30 min")

    assert canary is not None
    until = NOW + timedelta(minutes=30)
    assert canary.wait_for("daily-2026-11-20", until, NOW).reason == (
        "the first 2.5% of daily-2026-11-20 are a canary until 08:30 UTC"
    )
    assert 200 <= sum(map(canary.is_first, range(10_000))) <= 300


def test_without_a_canary_setting_there_is_none():
    assert parse_canary(" ") is None


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("50/s, 9/day, 40/s", "50/s", "40/s"),
        ("A.example 20/min, a.example 5/min", "A.example 20/min", "a.example 5/min"),
        ("5 at once, 3 at once", "5 at once", "3 at once"),
    ],
)
def test_two_limits_of_the_same_scope_and_unit_are_refused(text: str, first: str, second: str):
    with pytest.raises(BadField, match=f"'{first}' and '{second}' set the same limit; remove one of them"):
        parse_rates(text)


def test_limits_of_other_scopes_and_units_may_stand_beside_each_other():
    text = "50/s, 600/min, a.example 50/s, 5 at once, a.example 2 at once"

    assert len(parse_rates(text)) == 3
    assert parse_conversation_limits(text) == {"": 5, "a.example": 2}


def test_without_hours_or_a_warm_up_letters_are_sent_all_day_and_at_once():
    assert parse_send_hours(" ", "UTC") is None
    assert parse_warm_up("", "UTC") is None


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("06:00", "is not a range of hours"),
        ("06:00-06:00", "the hours are empty; to send all day, leave the setting empty"),
    ],
)
def test_hours_that_are_no_range_are_refused(text: str, mistake: str):
    with pytest.raises(BadField, match=mistake):
        parse_send_hours(text, "UTC")
