"""Test the decision about a window of letters: values in, values out, without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from digest.delivery import limits
from digest.delivery.limits import Limiter, Wait, Window
from digest.delivery.limits.conversations import Conversations
from digest.delivery.limits.decisions import Allowed, Refill
from digest.delivery.limits.domain_pauses import Pause
from digest.delivery.limits.rates import Bucket, Quota, WarmUp
from tests.conftest import NOW

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
THREE = {1: "a.example", 2: "a.example", 3: "b.example"}


def bucket(text: str, tokens: float) -> Bucket:
    (rate,) = limits.parse_rates(text)
    return Bucket(rate=rate, tokens=tokens, counted_at=NOW)


def quota(text: str, used: dict[int, int]) -> Quota:
    (rate,) = limits.parse_rates(text)
    return Quota(rate=rate, used=used)


def test_each_letter_is_allowed_or_gets_the_wait_for_its_token() -> None:
    found = Limiter(allowances=(bucket("60/min", 1),)).reserve(Window(domains=THREE), NOW)

    reason = "the rate of 60/min is used up"
    assert found.decisions == {1: Allowed(), 2: Wait(NOW + SECOND, reason), 3: Wait(NOW + 2 * SECOND, reason)}
    assert found.standstill == Wait(NOW + SECOND, reason)


def test_worker_that_can_wait_keeps_letters_whose_tokens_come_soon() -> None:
    window = Window(domains=THREE, can_wait=True)
    found = Limiter(allowances=(bucket("4/s", 1),)).reserve(window, NOW)

    assert found.short == dict.fromkeys((2, 3), Refill(NOW + SECOND / 4, "the rate of 4/s is used up"))
    assert found.waits == {}
    assert isinstance(found.standstill, Refill)


def test_limit_of_a_domain_holds_up_nothing_else() -> None:
    found = Limiter(allowances=(bucket("a.example 1/min", 0),)).reserve(Window(domains=THREE), NOW)

    assert list(found.waits) == [1, 2]
    assert found.standstill is None


def test_longest_of_several_waits_decides() -> None:
    ten_minutes_ago = int(NOW.timestamp() - 600) // 150
    both = (bucket("60/min", 0), quota("5/h", {ten_minutes_ago: 5}))
    found = Limiter(allowances=both).reserve(Window(domains={1: "a.example"}), NOW)

    assert found.waits[1].reason == "the quota of 5/h is used up"
    assert NOW + 50 * MINUTE <= found.waits[1].until <= NOW + 53 * MINUTE


@pytest.mark.parametrize(
    "allowance",
    [
        bucket("1/s", 2),
        quota("100/day", {int(NOW.timestamp()) // 3600 - 2: 7}),
        WarmUp(since=date(2026, 11, 20), table=(9, 20), zone="UTC", used={date(2026, 11, 20): 2}),
    ],
    ids=["a speed", "a quota", "a warm-up"],
)
def test_release_undoes_a_reservation(allowance: Bucket | Quota | WarmUp) -> None:
    before = Limiter(allowances=(allowance.at(NOW),))
    reserved = before.reserve(Window(domains={1: "a.example", 2: "b.example"}), NOW).limiter

    assert reserved.allowances != before.allowances
    released = reserved.release([("a.example", ""), ("b.example", "")])
    assert [without_empty_parts(each) for each in released.allowances] == [
        without_empty_parts(each) for each in before.allowances
    ]


def without_empty_parts(allowance: Bucket | Quota | WarmUp) -> object:
    if isinstance(allowance, Bucket):
        return allowance
    return {part: count for part, count in allowance.used.items() if count}


def test_urgent_letters_are_counted_and_do_not_wait() -> None:
    urgent = Window(domains=THREE, is_urgent=True)
    found = Limiter(allowances=(bucket("1/s", 0),)).reserve(urgent, NOW)

    assert set(found.decisions.values()) == {Allowed()}
    assert found.limiter.allowances == (bucket("1/s", -3),)


def test_letters_that_were_tried_go_ahead_after_a_pause() -> None:
    pause = Pause(until=NOW, strikes=1).strike(NOW)
    found = Limiter(pauses={"a.example": pause}).reserve(Window(domains=THREE, tried={2}), NOW)

    assert pause == Pause(until=NOW + 10 * MINUTE, strikes=2)
    assert list(found.waits) == [1, 2]
    assert found.waits[2].until == pause.until < found.waits[1].until


def test_conversation_takes_the_lowest_free_number_and_gives_it_back() -> None:
    none = Conversations(domain="a.example", limit=2, held={})
    both = none.begin("one", NOW).begin("two", NOW).begin("one", NOW)

    assert {number: each.lease for number, each in both.held.items()} == {0: "one", 1: "two"}
    assert both.wait("three", NOW)
    assert both.wait("two", NOW) is None
    assert both.end("one").begin("three", NOW).held[0].lease == "three"
    assert both.wait("three", NOW + HOUR) is None  # their workers died


def test_decision_changes_no_value_it_was_made_from() -> None:
    limiter = Limiter(allowances=(bucket("1/s", 2),))
    same = replace(limiter)

    limiter.reserve(Window(domains=THREE), NOW)

    assert limiter == same
