"""Limits are parsed from what the operator writes."""

from __future__ import annotations

from datetime import timedelta

from digest.delivery.limits.limit_rules import parse_canary
from tests.conftest import NOW


def test_a_canary_holds_about_its_share_of_the_letters_and_waits_as_long_as_it_says():
    canary = parse_canary("2.5% for 30 min")

    assert canary is not None
    until = NOW + timedelta(minutes=30)
    assert canary.wait_for("daily-2026-11-20", until, NOW).reason == (
        "the first 2.5 % of daily-2026-11-20 go ahead, until 08:30 UTC"
    )
    assert 200 <= sum(map(canary.is_first, range(10_000))) <= 300


def test_without_a_canary_setting_there_is_none():
    assert parse_canary(" ") is None
