"""Test the decision about a window of letters, which needs no database."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

import pytest

from digest.delivery.limits import limit_rules
from digest.delivery.limits.conversations import Conversations
from digest.delivery.limits.decisions import ALL, ALL_MAIL, BULK, Allowed, Refill, Wait
from digest.delivery.limits.domain_pauses import DomainRecord, LetterReply, Pause
from digest.delivery.limits.limit_rules import ServerShare
from digest.delivery.limits.limiter import Limiter, Window
from digest.delivery.limits.rates import Bucket, Quota
from digest.delivery.limits.warm_up import WarmUp
from tests.conftest import NOW

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
THREE = {1: "a.example", 2: "a.example", 3: "b.example"}


def bucket(text: str, tokens: float) -> Bucket:
    (rate,) = limit_rules.parse_rates(text)
    return Bucket(rate=rate, tokens=tokens, counted_at=NOW)


def quota(text: str, used: dict[int, int]) -> Quota:
    (rate,) = limit_rules.parse_rates(text)
    return Quota(rate=rate, used=used)


def test_each_letter_is_allowed_or_gets_the_wait_for_its_token() -> None:
    found = Limiter(allowances=(bucket("60/min", 1),)).reserve(Window(domains=THREE), NOW)

    reason = "the rate of 60/min is used up"
    assert found.decisions == {
        1: Allowed(ALL_MAIL),
        2: Wait(NOW + SECOND, reason),
        3: Wait(NOW + 2 * SECOND, reason),
    }
    assert found.standstill == Wait(NOW + SECOND, reason)


def test_worker_that_can_wait_keeps_letters_whose_tokens_come_soon() -> None:
    window = Window(domains=THREE, can_wait=True)
    found = Limiter(allowances=(bucket("4/s", 1),)).reserve(window, NOW)

    assert found.waits == dict.fromkeys((2, 3), Refill(NOW + SECOND / 4, "the rate of 4/s is used up"))
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

    assert set(found.decisions.values()) == {Allowed(ALL_MAIL)}
    assert found.limiter.allowances == (bucket("1/s", -3),)


def test_letters_that_were_tried_go_ahead_after_a_pause() -> None:
    pause = Pause(until=NOW, strikes=1).strike(NOW)
    found = Limiter(pauses={"a.example": pause}).reserve(Window(domains=THREE, tried={2}), NOW)

    assert pause == Pause(until=NOW + 10 * MINUTE, strikes=2)
    assert list(found.waits) == [1, 2]
    assert found.waits[2].until == pause.until < found.waits[1].until


def test_all_letters_of_a_window_that_are_refused_together_make_one_pause() -> None:
    pause = Pause(until=NOW, strikes=1).strike(NOW)

    assert pause.strike(NOW + MINUTE) == pause


def test_the_reason_of_a_pause_names_what_is_paused() -> None:
    pause = Pause(until=NOW + MINUTE)

    assert pause.wait(ALL_MAIL).reason == "the mail server does not respond, or asked us to slow down"
    assert pause.wait("a.example").reason == "a.example asked us to slow down"


def test_conversation_takes_the_lowest_free_number_and_gives_it_back() -> None:
    none = Conversations(domain="a.example", limit=2, held={})
    both = none.begin("one", NOW).begin("two", NOW).begin("one", NOW)

    assert {number: each.lease for number, each in both.held.items()} == {0: "one", 1: "two"}
    assert both.wait("three", NOW)
    assert both.wait("two", NOW) is None
    assert both.end("one").begin("three", NOW).held[0].lease == "three"
    assert both.wait("three", NOW + HOUR) is None  # their workers died


def test_letter_for_a_domain_with_all_its_conversations_waits() -> None:
    busy = Conversations(domain="a.example", limit=1, held={}).begin("another", NOW)
    found = Limiter(conversations={"a.example": busy}).reserve(Window(domains=THREE, lease="ours"), NOW)

    assert found.waits == dict.fromkeys(
        (1, 2), Wait(NOW + 10 * SECOND, "a.example has 1 conversation with us")
    )
    again = Limiter(conversations={"a.example": busy.end("another")})
    assert again.reserve(Window(domains=THREE, lease="ours"), NOW).limiter.conversations["a.example"].held


def test_stop_of_digests_lets_urgent_letters_go() -> None:
    stopped = Limiter(stops={BULK: "too many bounces"})

    assert set(stopped.reserve(Window(domains=THREE), NOW).waits.values()) == {
        Wait(NOW + HOUR, "stopped: too many bounces")
    }
    assert not stopped.reserve(Window(domains=THREE, is_urgent=True), NOW).waits


ONE, TWO = ServerShare(name="smtp://one:25", weight=2), ServerShare(name="smtp://two:25")


def server_bucket(server: str, tokens: float) -> Bucket:
    (rate,) = limit_rules.parse_rates("1/s", server=server)
    return Bucket(rate=rate, tokens=tokens, counted_at=NOW)


def test_letters_go_to_servers_by_weight_and_wait_for_the_one_that_is_ready_first() -> None:
    buckets = (server_bucket(ONE.name, 2), server_bucket(TWO.name, -4))
    limiter = Limiter(servers=(ONE, TWO), allowances=buckets)
    found = limiter.reserve(Window(domains=THREE), NOW)

    assert found.servers == {1: ONE.name, 2: ONE.name}
    assert found.waits == {3: Wait(NOW + SECOND, "the rate of smtp://one:25 1/s is used up")}
    assert limiter.release([("a.example", ONE.name)]).allowances[1] == buckets[1]
    many = Window(domains=dict.fromkeys(range(300), "a.example"))
    shares = Counter(replace(limiter, allowances=()).reserve(many, NOW).servers.values())
    assert 180 <= shares[ONE.name] <= 220
    assert shares.total() == 300


def test_letters_go_through_another_server_during_the_pause_of_theirs() -> None:
    pauses = {ONE.name: Pause(until=NOW + MINUTE)}
    found = Limiter(servers=(ONE, TWO), pauses=pauses).reserve(Window(domains=THREE, alarms={3}), NOW)

    assert found.servers == dict.fromkeys(THREE, TWO.name)


def test_alarm_waits_for_a_server_only() -> None:
    limiter = Limiter(stops={ALL: "policy"}, allowances=(bucket("1/s", 0),))
    window = Window(domains=THREE, alarms={3}, is_urgent=True)

    assert limiter.reserve(window, NOW).servers == {3: ALL_MAIL}
    assert limiter.reserve(window, NOW).limiter.allowances == limiter.allowances
    away = replace(limiter, pauses={ALL_MAIL: Pause(until=NOW + MINUTE)})
    assert away.reserve(window, NOW).waits[3].until == NOW + MINUTE


def test_everything_waits_while_all_servers_are_paused() -> None:
    pauses = {ONE.name: Pause(until=NOW + 2 * MINUTE), TWO.name: Pause(until=NOW + MINUTE)}
    found = Limiter(servers=(ONE, TWO), pauses=pauses).reserve(Window(domains=THREE), NOW)

    reason = "smtp://two:25 does not respond, or asked us to slow down"
    assert found.standstill == Wait(NOW + MINUTE, reason)
    assert set(found.waits) == set(THREE)


def test_part_of_a_quota_counts_until_its_day_is_over() -> None:
    today = int(NOW.timestamp()) // 3600
    full = quota("3/day", {today - 30: 1, today - 24: 2, today: 1, today + 400: 1})

    assert full.at(NOW).used == {today - 24: 2, today: 1}
    assert full.at(NOW + HOUR).used == {today: 1}
    waits = (
        Limiter(allowances=(full,)).reserve(Window(domains=dict.fromkeys(range(5), "a.example")), NOW).waits
    )
    assert [wait.until - NOW for wait in waits.values()] == [HOUR, HOUR, 25 * HOUR, 25 * HOUR, 25 * HOUR]


def test_warm_up_neither_counts_nor_limits_before_and_after_its_days() -> None:
    days = WarmUp(since=date(2026, 11, 21), table=(1,), zone="UTC")
    ended = WarmUp(since=date(2026, 11, 18), table=(1,), zone="UTC", used={date(2026, 11, 18): 1})

    for each in (days, ended):
        found = Limiter(allowances=(each,)).reserve(Window(domains=THREE), NOW)
        assert (found.waits, found.limiter.allowances) == ({}, (each,))


def reply(recipient: str, *, is_taken: bool = False) -> LetterReply:
    return LetterReply(recipient, is_taken=is_taken)


def test_five_recipients_deferred_in_a_row_are_a_strike_and_an_accepted_letter_forgets_it() -> None:
    fresh = DomainRecord(pause=Pause(until=NOW - HOUR, strikes=1))
    deferred = fresh.after([reply(name) for name in "abcd"], NOW)

    assert deferred.after([reply("a")], NOW).pause == fresh.pause
    assert deferred.after([reply("e")], NOW + 3 * HOUR).deferred == {"e"}
    assert deferred.after([reply("e")], NOW).pause == Pause(until=NOW + 10 * MINUTE, strikes=2)
    accepted = deferred.after([reply("e", is_taken=True)], NOW)
    assert accepted == DomainRecord(pause=Pause(until=NOW - HOUR))


def test_decision_changes_no_value_it_was_made_from() -> None:
    limiter = Limiter(allowances=(bucket("1/s", 2),))
    same = replace(limiter)

    limiter.reserve(Window(domains=THREE), NOW)

    assert limiter == same
