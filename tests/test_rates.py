"""Claims about how fast mail goes: on SQLite and PostgreSQL."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from digest import addresses, bounces, db, outbox, rates
from digest.bounces import Complaint, Failure, Kind
from digest.errors import BadField
from digest.links import Site
from digest.model import Pace
from digest.rates import Rules, Wait
from digest.settings import load

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
FIRST_PAUSE = rates.pausing.FIRST_PAUSE


def held(
    session: Session,
    told: str | Rules,
    emails: list[str],
    now: datetime,
    *,
    is_urgent: bool = False,
    lease: str = "",
) -> dict[int, Wait]:
    rules = rules_of(told) if isinstance(told, str) else told
    found = rates.held(session, rules, dict(enumerate(emails)), now=now, is_urgent=is_urgent, lease=lease)
    session.commit()
    return found.late


def rules_of(told: str) -> Rules:
    return Rules(rates=rates.parse(told), at_once=rates.at_once_in(told))


def readers(count: int, domain: str = "example.org") -> list[str]:
    return [f"reader{number}@{domain}" for number in range(count)]


def test_rates_are_read_as_they_are_written() -> None:
    assert [(rate.domain, rate.amount, rate.seconds) for rate in rates.parse("50/s, 9/day, A.example 20/min")] == [
        ("", 50, 1), ("", 9, 86_400), ("a.example", 20, 60),
    ]  # fmt: skip
    assert rates.parse("") == ()


@pytest.mark.parametrize("told", ["fast", "50", "0/s", "50/week", "example.org", "50/s;60/s"])
def test_what_is_no_rate_is_refused(told: str) -> None:
    with pytest.raises(BadField, match="DIGEST_RATES"):
        rates.parse(told)


def test_who_is_beyond_the_rate_waits_for_a_turn_of_their_own(session: Session, now: datetime) -> None:
    late = held(session, "60/min", readers(63), now)

    assert list(late) == [60, 61, 62]
    assert [due_at - now for due_at, _ in late.values()] == [SECOND, 2 * SECOND, 3 * SECOND]
    assert late[60][1] == "the rate of 60/min is used up"


def test_a_rate_holds_from_one_window_to_the_next_and_fills_with_time(
    session: Session, now: datetime
) -> None:
    assert not held(session, "60/min", readers(60), now)
    assert len(held(session, "60/min", readers(5), now)) == 5
    assert len(held(session, "60/min", readers(5), now + 3 * SECOND)) == 2


def test_a_quiet_night_saves_up_no_burst(session: Session, now: datetime) -> None:
    held(session, "60/min", readers(1), now - timedelta(days=1))

    assert len(held(session, "60/min", readers(100), now)) == 40


def test_a_domain_has_its_own_rate_beside_that_of_all(session: Session, now: datetime) -> None:
    both = readers(4, "slow.example") + readers(4)

    late = held(session, "1000/s, slow.example 2/min", both, now)

    assert list(late) == [2, 3]


def test_a_clock_that_is_set_back_neither_fills_nor_blocks(session: Session, now: datetime) -> None:
    held(session, "60/min", readers(60), now)

    assert len(held(session, "60/min", readers(5), now - timedelta(hours=1))) == 5
    assert len(held(session, "60/min", readers(5), now - timedelta(hours=1) + 5 * SECOND)) == 0


def test_two_workers_whose_clocks_differ_have_no_more_than_the_rate(session: Session, now: datetime) -> None:
    sent = 0
    for second in range(20):  # one after the other, the second of them five seconds behind
        for behind in (0, 5):
            moment = now + second * SECOND - behind * SECOND
            sent += 100 - len(held(session, "60/min", readers(100), moment))

    assert 60 <= sent <= 60 + 20


def test_a_clock_far_ahead_that_is_put_right_blocks_no_mail(session: Session, now: datetime) -> None:
    held(session, "60/min, 100/day", readers(60), now + 365 * DAY)

    assert len(held(session, "60/min, 100/day", readers(60), now)) == 60
    assert not held(session, "60/min, 100/day", readers(60), now + MINUTE)
    assert not held(session, "60/min, 100/day", readers(60), now + 2 * DAY)


def test_letters_that_somebody_waits_for_do_not_wait_for_tokens(session: Session, now: datetime) -> None:
    held(session, "60/min", readers(60), now)

    assert not held(session, "60/min", readers(2), now, is_urgent=True)
    assert len(held(session, "60/min", readers(3), now + 4 * SECOND)) == 1  # but they are paid for


def test_a_domain_that_asks_us_to_slow_down_waits_alone_and_longer_each_time(
    session: Session, now: datetime
) -> None:
    first = rates.pause(session, "a@busy.example", now=now)
    same = rates.pause(session, "b@busy.example", now=now)
    late = held(session, "", [*readers(2, "busy.example"), *readers(2)], now)

    assert first == same == now + FIRST_PAUSE
    assert {number: due_at for number, (due_at, _) in late.items()} == {0: first, 1: first}
    assert not held(session, "", readers(1, "busy.example"), first)
    assert rates.pause(session, "a@busy.example", now=first) == first + 2 * FIRST_PAUSE
    assert rates.standing(session, now=first) == {"busy.example": first + 2 * FIRST_PAUSE}


def test_a_pause_of_a_clock_far_ahead_keeps_no_later_one_from_being_made(
    session: Session, now: datetime
) -> None:
    rates.pause(session, "a@busy.example", now=now + 365 * DAY)
    assert rates.standing(session, now=now) == {}

    until = rates.pause(session, "a@busy.example", now=now)

    assert now < until <= now + timedelta(hours=1)
    assert list(held(session, "", readers(1, "busy.example"), now)) == [0]


@pytest.mark.parametrize(
    "told", ["bücher.example 2/min", "xn--bcher-kva.example 2/min", "Bücher.Example 2/min"]
)
def test_a_domain_outside_ascii_is_limited_however_it_is_written(
    session: Session, now: datetime, told: str
) -> None:
    email = addresses.checked("somebody@bücher.example").email

    assert list(held(session, told, [email] * 4, now)) == [2, 3]
    assert rates.at_once_in("почта.рф 1 at once") == rates.at_once_in("xn--80a1acny.xn--p1ai 1 at once")


@pytest.mark.parametrize(
    ("code", "reply", "phase", "is_one"),
    [
        (421, "4.7.28 our system has detected an unusual rate", "rcpt", True),
        (451, "4.7.1 greylisted, come back later", "rcpt", True),
        (450, "4.2.1 the mailbox is busy", "rcpt", False),
        (421, "closing", "mail", False),
        (452, "4.2.2 mailbox full", "dot", False),
    ],
)
def test_slow_down_is_told_from_a_busy_mailbox(code: int, reply: str, phase: str, is_one: bool) -> None:
    assert rates.is_slow_down(code, reply, phase) is is_one


# ── quotas, servers, warm-ups, hours ────────────────────────────────────────────────────────────


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_a_quota_may_be_used_up_at_once_and_comes_back_a_day_later(session: Session, now: datetime) -> None:
    assert not held(session, "100/day", readers(100), now)

    late = held(session, "100/day", readers(2), now + HOUR)
    assert {wait.reason for wait in late.values()} == {"the quota of 100/day is used up"}
    assert {wait.until for wait in late.values()} == {now + DAY + HOUR}  # kept by the hour: never too early
    assert not held(session, "100/day", readers(100), now + DAY + HOUR)


def test_no_day_wherever_it_begins_sees_more_than_its_quota(session: Session, now: datetime) -> None:
    sent: list[datetime] = []
    for step in range(60):
        moment = now + step * timedelta(minutes=47)
        sent += [moment] * (9 - len(held(session, "50/day", readers(9), moment)))

    most = max(sum(begin <= moment < begin + DAY for moment in sent) for begin in sent)
    assert 40 <= most <= 50


def test_letters_beyond_a_quota_come_back_when_others_have_left_it(session: Session, now: datetime) -> None:
    held(session, "10/h", readers(4), now)
    held(session, "10/h", readers(6), now + timedelta(minutes=30))

    late = held(session, "10/h", readers(6), now + timedelta(minutes=40))

    waits = sorted(wait.until - now for wait in late.values())
    part = timedelta(seconds=3600 / 24)
    assert waits == [HOUR + part] * 4 + [HOUR + part + timedelta(minutes=30)] * 2


def servers(first: str, second: str = "") -> Rules:
    return Rules(servers=rates.servers_in([("smtp://a:25", 3, first), ("smtp://b:25", 1, second)]))


def test_servers_share_by_weight_as_far_as_their_own_rates_let_them(session: Session, now: datetime) -> None:
    emails = dict(enumerate(readers(12)))

    free = rates.held(session, servers("9/s"), emails, now=now, is_urgent=False)
    later = rates.held(session, servers("9/day"), emails, now=now, is_urgent=False)

    assert Counter(free.servers.values()) == {"smtp://a:25": 9, "smtp://b:25": 3}
    assert Counter(later.servers.values()) == {"smtp://a:25": 9, "smtp://b:25": 3}
    again = rates.held(session, servers("9/day"), emails, now=now, is_urgent=False)
    assert Counter(again.servers.values()) == {"smtp://b:25": 12}


def test_where_every_server_has_used_up_its_rate_letters_wait_for_the_first_that_may(
    session: Session, now: datetime
) -> None:
    rules = servers("2/day", "60/min")
    held(session, rules, readers(62), now)

    late = held(session, rules, readers(1), now)

    assert late == {0: Wait(now + SECOND, "the rate of smtp://b:25 60/min is used up")}


def test_a_server_that_does_not_answer_is_passed_over(session: Session, now: datetime) -> None:
    rates.pause_server(session, "smtp://a:25", now + rates.AWAY_PAUSE)

    found = rates.held(session, servers("9/s"), dict(enumerate(readers(5))), now=now, is_urgent=False)
    assert set(found.servers.values()) == {"smtp://b:25"}
    assert rates.standing(session, now=now) == {"smtp://a:25": now + rates.AWAY_PAUSE}


def test_servers_without_rates_are_left_to_the_transport() -> None:
    assert rates.servers_in([("smtp://a:25", 1, ""), ("smtp://b:25", 1, "")]) == ()


def warm_up(table: str, zone: str = "UTC") -> Rules:
    return Rules(warm_up=rates.warm_up_in(f"2026-11-20{table}", zone))


def test_a_warm_up_sends_a_little_more_each_day_until_it_is_over(session: Session, now: datetime) -> None:
    rules = warm_up(": 5, 20")

    sent = [60 - len(held(session, rules, readers(60), now + day * DAY)) for day in range(3)]

    assert sent == [5, 20, 60]


def test_a_warm_up_says_until_when_letters_wait(session: Session, now: datetime) -> None:
    found = rates.held(
        session, warm_up(": 5", "America/New_York"), dict(enumerate(readers(6))), now=now, is_urgent=False
    )

    midnight = datetime(2026, 11, 21, 5, tzinfo=UTC)
    assert found.standstill == Wait(midnight, "the 5 letters of day 1 of the warm-up are sent")
    assert found.late == {5: found.standstill}


def test_another_time_zone_gives_the_same_day_of_a_warm_up_no_second_share(
    session: Session, now: datetime
) -> None:
    assert len(held(session, warm_up(": 5, 20"), readers(9), now)) == 4
    assert len(held(session, warm_up(": 5, 20", "Europe/Oslo"), readers(9), now)) == 9
    assert len(held(session, warm_up(": 5, 20", "America/New_York"), readers(9), now)) == 9
    assert not held(session, warm_up(": 5, 20", "America/New_York"), readers(20), now + DAY)


def test_a_day_without_mail_is_no_day_of_the_warm_up(session: Session, now: datetime) -> None:
    rules = warm_up(": 5, 20")
    held(session, rules, readers(1), now)

    assert len(held(session, rules, readers(60), now + 5 * DAY)) == 40


def test_another_first_day_begins_another_warm_up(session: Session, now: datetime) -> None:
    held(session, warm_up(": 5, 20"), readers(9), now)
    anew = Rules(warm_up=rates.warm_up_in("2026-12-01: 7", "UTC"))

    assert not held(session, anew, readers(99), now)  # it has not begun
    assert len(held(session, anew, readers(99), now + 11 * DAY)) == 92


def test_letters_that_somebody_waits_for_count_in_a_warm_up_and_do_not_wait(
    session: Session, now: datetime
) -> None:
    assert not held(session, warm_up(": 5"), readers(3), now, is_urgent=True)
    assert len(held(session, warm_up(": 5"), readers(9), now)) == 7


@pytest.mark.parametrize(
    ("told", "hour", "opens"),
    [
        ("06:00-22:00", 12, None),
        ("06:00-22:00", 5, 6),
        ("06:00-22:00", 22, 24 + 6),
        ("22:00-06:00", 23, None),
        ("22:00-06:00", 5, None),
        ("22:00-06:00", 6, 22),
    ],
)
def test_the_hours_in_which_digests_go_out(told: str, hour: int, opens: int | None) -> None:
    hours = rates.hours_in(told, "Europe/Oslo")
    midnight = datetime(2026, 11, 19, 23, tzinfo=UTC)

    assert hours
    assert hours.opens_at(midnight + hour * HOUR) == (None if opens is None else midnight + opens * HOUR)


def test_the_hours_follow_the_clock_of_the_wall_over_a_change_of_time() -> None:
    hours = rates.hours_in("06:00-22:00", "Europe/Oslo")

    assert hours
    assert hours.opens_at(datetime(2026, 3, 28, 22, tzinfo=UTC)) == datetime(2026, 3, 29, 4, tzinfo=UTC)


def test_hours_that_begin_in_the_hour_that_comes_twice_begin_once() -> None:
    hours = rates.hours_in("02:30-22:00", "Europe/Oslo")
    first, again = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 10, tzinfo=UTC)

    assert hours
    assert hours.opens_at(first - SECOND) == first
    assert hours.opens_at(first) is None
    assert hours.opens_at(again) is None  # the clocks show 02:10 for the second time


def test_hours_that_begin_in_the_hour_that_is_skipped_begin_when_they_said() -> None:
    hours = rates.hours_in("02:30-22:00", "Europe/Oslo")
    opens = hours.opens_at(datetime(2026, 3, 28, 22, tzinfo=UTC)) if hours else None

    assert hours
    assert opens
    assert hours.opens_at(opens - SECOND) == opens
    assert hours.opens_at(opens) is None


@pytest.mark.parametrize("told", ["06:00-22:00", "22:00-06:00", "02:30-02:10", "00:00-02:30", "23:30-00:30"])
def test_what_waits_for_the_hours_waits_no_longer_than_they_are_shut(told: str) -> None:
    for zone in ("Europe/Oslo", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu"):
        hours = rates.hours_in(told, zone)
        assert hours
        for quarter in range(0, 366 * 96, 7):
            moment = datetime(2026, 1, 1, tzinfo=UTC) + quarter * timedelta(minutes=15)
            opens = hours.opens_at(moment)
            assert opens is None or moment < opens <= moment + timedelta(hours=25)
            assert opens is None or hours.opens_at(opens) is None


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("send_hours", "06:00"),
        ("send_hours", "6-22"),
        ("send_hours", "06:00-06:00"),
        ("warm_up", "yes"),
        ("warm_up", "2026-11-20: 0"),
        ("warm_up", "2026-11-20: many"),
        ("canary", "2%"),
        ("canary", "0% for 5 min"),
        ("stop_at", "bounces"),
        ("stop_at", "bounces 0%"),
        ("stop_at", "sorrow 5%"),
        ("timezone", "Norway/Oslo"),
        ("mail_url", "smtp://127.0.0.1?rate=fast"),
        ("mail_url", "smtp://127.0.0.1?rate=example.org 5/s"),
        ("mail_url", "smtp://127.0.0.1?rate=5 at once"),
        ("rates", "0 at once"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(setting: str, told: str) -> None:
    with pytest.raises(BadField, match=f"DIGEST_{setting.upper()}: "):
        load({setting: told})


# ── conversations ───────────────────────────────────────────────────────────────────────────────


def test_a_domain_speaks_with_so_many_of_us_at_once(session: Session, now: datetime) -> None:
    rules = rules_of("example.org 2 at once")
    both = [*readers(2), *readers(1, "other.example")]

    assert [len(held(session, rules, both, now, lease=lease)) for lease in "abca"] == [0, 0, 2, 0]

    rates.leave(session, rules, both, lease="a")
    assert not held(session, rules, both, now, lease="c")


def test_who_died_in_a_conversation_keeps_its_place_no_longer_than_a_lease(
    session: Session, now: datetime
) -> None:
    held(session, "1 at once", readers(1), now, lease="a")

    assert held(session, "1 at once", readers(1), now + 899 * SECOND, lease="b")
    assert not held(session, "1 at once", readers(1), now + 900 * SECOND, lease="b")


def test_who_died_with_a_clock_far_ahead_keeps_no_place_for_a_year(session: Session, now: datetime) -> None:
    held(session, "1 at once", readers(1), now + 365 * DAY, lease="gone")

    assert not held(session, "1 at once", readers(1), now, lease="here")


def test_what_waits_for_another_limit_takes_no_place(session: Session, now: datetime) -> None:
    held(session, "1/day, 1 at once", readers(1, "first.example"), now, lease="a")
    assert held(session, "1/day, 1 at once", readers(1), now, lease="b")

    assert not held(session, "1 at once", readers(1), now, lease="c")


# ── a crowd ─────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    windows=st.lists(st.integers(1, 40), min_size=8, max_size=40),
    told=st.sampled_from(["90/min", "90/h", "90/day", "90/min, example.org 50/min", "warm-up"]),
    begins=st.integers(0, 10_000),
)
def test_workers_in_a_crowd_never_send_more_than_the_rate(
    postgres_url: str, windows: list[int], told: str, begins: int
) -> None:
    """Eight threads, each with a connection of its own, draw at one moment: 90 go out, or all there are."""
    slow = Rules(warm_up=rates.warm_up_in("2020-01-01: 90, 500", "UTC"))
    rules = slow if told == "warm-up" else rules_of(told)
    moment = datetime(2020, 1, 1, tzinfo=UTC) + begins * DAY
    engine = db.connect(postgres_url)

    def draw(place: int) -> int:
        with db.writing(engine) as own:
            return windows[place] - len(held(own, rules, readers(windows[place]), moment))

    with ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(draw, range(len(windows))))

    with db.writing(engine) as own:
        own.execute(delete(Pace))
        own.commit()
    engine.dispose()
    allowed = 50 if "example.org" in told else 90
    assert sent == min(sum(windows), allowed)


def test_of_a_crowd_no_more_speak_with_a_domain_than_may(engine: Engine, now: datetime) -> None:
    rules = rules_of("2 at once")

    def draw(place: int) -> bool:
        with db.writing(engine) as own:
            return not held(own, rules, readers(3), now, lease=f"{place}")

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(draw, range(8))) == 2


def draw_all(url: str, told: str, moment: datetime, windows: int) -> int:
    engine = db.connect(url)
    sent = 0
    for _window in range(windows):
        with db.writing(engine) as own:
            sent += 5 - len(held(own, rules_of(told), readers(5), moment))
    engine.dispose()
    return sent


def test_processes_in_a_crowd_never_send_more_than_the_rate(database_url: str, now: datetime) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        sent = [pool.submit(draw_all, database_url, "80/min, 60/day", now, 10) for _worker in range(2)]

        assert sum(each.result() for each in sent) == 60


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 30)), min_size=3, max_size=30),
    amount=st.integers(1, 120),
)
def test_in_any_span_no_more_goes_out_than_a_minute_and_what_came_meanwhile(
    sqlite_engine: Engine, steps: list[tuple[float, int]], amount: int
) -> None:
    moment, sent = datetime(2026, 1, 1, tzinfo=UTC), list[tuple[datetime, int]]()
    with db.writing(sqlite_engine) as own:
        own.execute(delete(Pace))
        for seconds, count in steps:
            moment += seconds * SECOND
            sent.append((moment, count - len(held(own, f"{amount}/min", readers(count), moment))))

    for place, (begin, _) in enumerate(sent):
        for end, _ in sent[place:]:
            within = sum(count for at, count in sent if begin <= at <= end)
            assert within <= amount + (end - begin).total_seconds() * amount / 60 + 1e-6


# ── stops ───────────────────────────────────────────────────────────────────────────────────────


BRAKES = rates.brakes_in("bounces 10%, complaints 0.5%, deferred 50%, policy 20%")


@pytest.fixture
def tried(session: Session, site: Site, now: datetime) -> Callable[..., list[int]]:
    """So many letters that were tried, and how they fared."""

    def tries(verdict: str, count: int, *, at: datetime = now) -> list[int]:
        numbers = []
        for _letter in range(count):
            number = outbox.put_letter(
                session, letter="settings", subscriber_id=None, email="a@example.org", decision={},
                dedupe_key=token_hex(8), site=site, now=at,
            )  # fmt: skip
            assert number
            outbox.keep_attempts(session, [outbox.Tried(number, at, verdict)], lease="x", now=at)
            numbers.append(number)
        session.commit()
        return numbers

    return tries


def came_back(session: Session, site: Site, numbers: list[int], kind: Kind, now: datetime) -> None:
    for number in numbers:
        told = Complaint() if kind is Kind.COMPLAINT else Failure(kind=kind, status="5.7.26")
        bounces.record(session, site, f"r{number}@d{number}.example", told, now=now, delivery_id=number)


def test_a_surge_of_what_is_put_off_stops_digests_once(tried, session: Session, now: datetime) -> None:
    tried("accepted", 20)
    tried("deferred", 19)
    assert rates.brake(session, BRAKES, now=now) is None

    tried("deferred", 5)
    surge = rates.brake(session, BRAKES, now=now)

    assert surge
    assert surge.said == "24 of 44 letters were put off by the mail server (the limit is 50 %)"
    assert [(stop.covers, stop.said) for stop in rates.stopped(session)] == [("bulk", surge.said)]
    assert rates.brake(session, BRAKES, now=now) is None
    assert not rates.surges(session, BRAKES, now=now + 2 * HOUR)


def test_a_few_letters_that_are_put_off_again_and_again_are_no_surge(
    tried, session: Session, now: datetime
) -> None:
    morning = now - 1.5 * HOUR
    tried("accepted", 100, at=morning)
    greylisted = tried("deferred", 8, at=morning)
    for minutes in (50, 30, 10):  # nothing else is sent meanwhile
        again = now - timedelta(minutes=minutes)
        outbox.keep_attempts(
            session, [outbox.Tried(each, again, "deferred") for each in greylisted], lease="x", now=again
        )

    assert not rates.surges(session, BRAKES, now=now)

    tried("deferred", 20)
    (surge,) = rates.surges(session, BRAKES, now=now)
    assert surge.said.startswith("20 of 20 letters were put off")


@pytest.mark.parametrize(
    ("kind", "least", "covers"),
    [(Kind.HARD, 10, "bulk"), (Kind.COMPLAINT, 3, "bulk"), (Kind.POLICY, 20, "all")],
)
def test_a_surge_of_what_comes_back_stops_mail(
    tried, session: Session, site: Site, now: datetime, kind: Kind, least: int, covers: str
) -> None:
    numbers = tried("accepted", 99)
    came_back(session, site, numbers[: least - 1], kind, now)
    assert not rates.surges(session, BRAKES, now=now)

    came_back(session, site, numbers[least - 1 : least], kind, now)
    assert rates.brake(session, BRAKES, now=now + 20 * HOUR)
    assert [stop.covers for stop in rates.stopped(session)] == [covers]


@pytest.mark.parametrize("kind", [Kind.HARD, Kind.POLICY, Kind.COMPLAINT])
def test_reports_that_come_when_thousands_more_are_out_stop_mail_too(
    tried, session: Session, site: Site, now: datetime, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates.stops, "MOST_ATTEMPTS", 60)
    numbers = tried("accepted", 200)  # of which the latest 60 are looked at
    came_back(session, site, numbers[:90:3], kind, now)  # a third of the first

    (surge,) = rates.surges(session, BRAKES, now=now)
    assert surge.count >= 10
    assert surge.tried == 60


def test_a_share_is_no_larger_for_a_large_house(
    tried, session: Session, site: Site, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates.stops, "MOST_ATTEMPTS", 200)
    few = rates.brakes_in("complaints 2%, bounces 30%")
    numbers = tried("accepted", 1000)
    came_back(session, site, numbers[::100], Kind.COMPLAINT, now)  # one in a hundred

    assert rates.surges(session, few, now=now) == []


def test_what_was_sent_long_ago_and_comes_back_today_stops_nothing(
    tried, session: Session, site: Site, now: datetime
) -> None:
    came_back(session, site, tried("accepted", 40, at=now - 2 * DAY), Kind.HARD, now)
    tried("accepted", 40)

    assert not rates.surges(session, BRAKES, now=now)


def test_a_resume_forgets_what_was_before_it(tried, session: Session, now: datetime) -> None:
    tried("deferred", 30)
    rates.brake(session, BRAKES, now=now)

    assert rates.resume(session, now=now + SECOND) == 1
    assert rates.resume(session, now=now + SECOND) == 0
    assert rates.brake(session, BRAKES, now=now + 2 * SECOND) is None
    tried("deferred", 30, at=now + 3 * SECOND)
    assert rates.brake(session, BRAKES, now=now + 4 * SECOND)


def test_never_is_never(tried, session: Session, now: datetime) -> None:
    tried("deferred", 99)

    assert rates.brake(session, rates.brakes_in("never"), now=now) is None


def test_a_stop_holds_digests_and_lets_pass_what_people_wait_for(session: Session, now: datetime) -> None:
    rates.stop(session, "too much", covers=rates.BULK, now=now)

    found = rates.held(session, Rules(), dict(enumerate(readers(2))), now=now, is_urgent=False)
    assert found.standstill == found.late[0] == found.late[1]
    assert found.late[0].reason == "stopped: too much"
    assert not held(session, Rules(), readers(2), now, is_urgent=True)

    rates.stop(session, "our own fault", covers=rates.ALL, now=now)
    assert len(held(session, Rules(), readers(2), now, is_urgent=True)) == 2


def test_what_a_provider_says_of_our_quota_is_told_from_all_else() -> None:
    assert rates.throttled_for("Throttling failure: Daily message quota exceeded.") == HOUR
    assert rates.throttled_for("Throttling failure: Maximum sending rate exceeded.") == 15 * SECOND
    assert rates.throttled_for("4.2.2 mailbox over quota") is None


def test_what_was_over_long_ago_is_forgotten_and_a_warm_up_is_not(session: Session, now: datetime) -> None:
    held(session, warm_up(": 5, 20"), readers(5), now)
    held(session, "9/s, 1 at once", readers(1), now, lease="a")
    rates.pause(session, "a@busy.example", now=now)

    assert rates.tidy(session, now=now + 40 * DAY) == 0
    assert rates.tidy(session, now=now + 50 * DAY) == 2
    assert len(held(session, warm_up(": 5, 20"), readers(60), now + 50 * DAY)) == 40
