"""Limits are parsed from what the operator writes."""

from __future__ import annotations

from datetime import timedelta

from digest.delivery.limits.limit_rules import parse_canary


def test_a_canary_holds_about_its_share_of_the_letters_and_waits_as_long_as_it_says():
    canary = parse_canary("2.5% for 30 min")

    assert canary is not None
    assert (canary.text, canary.wait) == ("2.5 %", timedelta(minutes=30))
    assert 200 <= sum(map(canary.is_first, range(10_000))) <= 300


def test_without_a_canary_setting_there_is_none():
    assert parse_canary(" ") is None
