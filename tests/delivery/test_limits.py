"""Test the rates, quotas and pauses of mail on SQLite and PostgreSQL."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import bounce_score
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure
from digest.db.tables.deliveries import Delivery
from digest.db.tables.limits import DailyCount, RateCounter, WarmUpDay
from digest.db.tables.subscribers import Confirmation, Consent, Subscriber
from digest.delivery.limits import (
    daily_counts,
    domain_pauses,
    emergency_stops,
    limit_rules,
    send_hours,
    shared_limits,
)
from digest.delivery.limits.decisions import ALL, BULK, Wait
from digest.delivery.limits.domain_pauses import (
    NO_REPLY_PAUSE,
    LetterReply,
    domain_of,
    is_slow_down,
    throttle_pause,
)
from digest.delivery.limits.emergency_stops import (
    active_stops,
    check_thresholds,
    emergency_stop,
    lift_stops,
    threshold_readings,
    threshold_warnings,
)
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.limiter import Reservation, Window
from digest.delivery.limits.warm_up import parse_warm_up
from digest.delivery.outbox import attempts, enqueue
from digest.delivery.outbox.attempts import AttemptRecord
from digest.delivery.transports.mail_url import parse_mail_url
from digest.errors import BadField
from digest.mail import addresses
from digest.settings import load_settings
from digest.site.site_profile import Site
from tests.support.plain_letters import plain_letter

pytestmark = pytest.mark.postgresql

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
FIRST_PAUSE = domain_pauses.FIRST_PAUSE


def held(
    session: Session,
    text: str | SendLimits,
    emails: list[str],
    now: datetime,
    *,
    is_urgent: bool = False,
    lease: str = "",
) -> dict[int, Wait]:
    rules = limit_rules.parse_shared_limits(text) if isinstance(text, str) else text
    found = reserve(session, rules, emails, now, is_urgent=is_urgent, lease=lease)
    session.commit()
    return found.waits


def reserve(
    session: Session, rules: SendLimits, emails: list[str], now: datetime, **details: Any
) -> Reservation:
    domains = {number: domain_of(email) for number, email in enumerate(emails)}
    return shared_limits.reserve(session, rules, Window(domains=domains, **details), now=now)


def readers(count: int, domain: str = "example.org") -> list[str]:
    return [f"reader{number}@{domain}" for number in range(count)]


def pause_domain(session: Session, email: str, *, now: datetime) -> datetime:
    """Let a domain defer five recipients in a row, and return until when it is paused."""
    domain = domain_of(email)
    replies = [LetterReply(str(number), is_taken=False) for number in range(5)]
    shared_limits.record_replies(session, {domain: replies}, now=now)
    return shared_limits.active_pauses(session, now=now)[domain]


def test_rates_are_parsed() -> None:
    assert [(rate.domain, rate.amount, rate.seconds) for rate in limit_rules.parse_rates("50/s, 9/day, A.example 20/min")] == [
        ("", 50, 1), ("", 9, 86_400), ("a.example", 20, 60),
    ]  # fmt: skip
    assert limit_rules.parse_rates("") == ()


@pytest.mark.parametrize("text", ["fast", "50", "0/s", "50/week", "example.org", "50/s;60/s"])
def test_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(BadField, match="DIGEST_RATES"):
        limit_rules.parse_rates(text)


def test_letters_beyond_the_rate_each_get_a_turn(session: Session, now: datetime) -> None:
    late = held(session, "60/min", readers(5), now)

    assert list(late) == [2, 3, 4]
    assert [due_at - now for due_at, _ in late.values()] == [SECOND, 2 * SECOND, 3 * SECOND]
    assert late[2][1] == "the rate of 60/min is used up"


def test_rate_holds_across_windows_and_fills_with_time(session: Session, now: datetime) -> None:
    assert not held(session, "10/s", readers(20), now)
    assert len(held(session, "10/s", readers(25), now)) == 25
    assert len(held(session, "10/s", readers(25), now + 1.5 * SECOND)) == 10


def test_quiet_night_saves_up_no_burst(session: Session, now: datetime) -> None:
    held(session, "10/s", readers(1), now - timedelta(days=1))

    assert len(held(session, "10/s", readers(100), now)) == 80  # two seconds' worth went out


def test_bursts_of_amazon_ses_are_a_quarter_as_large(session: Session, now: datetime) -> None:
    url = "smtp://127.0.0.1:2525?profile=ses&rate=20/s"

    assert len(held(session, load_settings({"mail_url": url}).limits, readers(100), now)) == 90
    assert (
        len(
            held(
                session,
                load_settings({"mail_url": url.split("&", maxsplit=1)[0], "rates": "40/s"}).limits,
                readers(100),
                now,
            )
        )
        == 80
    )


def test_domain_has_its_own_rate_beside_the_common_one(session: Session, now: datetime) -> None:
    both = readers(4, "slow.example") + readers(4)

    late = held(session, "1000/s, slow.example 60/min", both, now)

    assert list(late) == [2, 3]


def test_clock_set_back_neither_fills_nor_blocks(session: Session, now: datetime) -> None:
    held(session, "60/min", readers(2), now)

    assert len(held(session, "60/min", readers(2), now - timedelta(hours=1))) == 2
    assert len(held(session, "60/min", readers(2), now - timedelta(hours=1) + 5 * SECOND)) == 0


def test_workers_with_different_clocks_have_no_more_than_the_rate(session: Session, now: datetime) -> None:
    sent = 0
    for second in range(20):  # in turn, the second worker's clock five seconds behind
        for behind in (0, 5):
            moment = now + second * SECOND - behind * SECOND
            sent += 100 - len(held(session, "60/min", readers(100), moment))

    assert 2 <= sent <= 2 + 20


def test_fast_clock_that_is_corrected_blocks_no_mail(session: Session, now: datetime) -> None:
    held(session, "30/s, 100/day", readers(60), now + 365 * DAY)

    assert len(held(session, "30/s, 100/day", readers(60), now)) == 60
    assert not held(session, "30/s, 100/day", readers(60), now + MINUTE)
    assert not held(session, "30/s, 100/day", readers(60), now + 2 * DAY)


def test_urgent_letters_do_not_wait_for_tokens(session: Session, now: datetime) -> None:
    held(session, "60/min", readers(2), now)

    assert not held(session, "60/min", readers(2), now, is_urgent=True)
    assert len(held(session, "60/min", readers(3), now + 4 * SECOND)) == 1  # but their tokens are taken


def test_domain_that_asks_us_to_slow_down_waits_alone_and_longer_each_time(
    session: Session, now: datetime
) -> None:
    first = pause_domain(session, "a@busy.example", now=now)
    same = pause_domain(session, "b@busy.example", now=now)
    late = held(session, "", [*readers(2, "busy.example"), *readers(2)], now)

    assert first == same == now + FIRST_PAUSE
    others = first + domain_pauses.RETRY_HEAD_START
    assert {number: due_at for number, (due_at, _) in late.items()} == {0: others, 1: others}
    assert not held(session, "", readers(1, "busy.example"), first)
    assert pause_domain(session, "a@busy.example", now=first) == first + 2 * FIRST_PAUSE
    assert shared_limits.active_pauses(session, now=first) == {"busy.example": first + 2 * FIRST_PAUSE}


def test_pause_written_by_a_fast_clock_does_not_prevent_a_later_one(session: Session, now: datetime) -> None:
    pause_domain(session, "a@busy.example", now=now + 365 * DAY)
    assert shared_limits.active_pauses(session, now=now) == {}

    until = pause_domain(session, "a@busy.example", now=now)

    assert now < until <= now + timedelta(hours=1)
    assert list(held(session, "", readers(1, "busy.example"), now)) == [0]


@pytest.mark.parametrize("text", ["bücher.example 1/s", "xn--bcher-kva.example 1/s", "Bücher.Example 1/s"])
def test_non_ascii_domain_is_limited_in_either_form(session: Session, now: datetime, text: str) -> None:
    email = addresses.parse_address("somebody@bücher.example").email

    assert list(held(session, text, [email] * 4, now)) == [2, 3]
    assert limit_rules.parse_conversation_limits(
        "почта.рф 1 at once"
    ) == limit_rules.parse_conversation_limits("xn--80a1acny.xn--p1ai 1 at once")


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
def test_slow_down_reply_is_distinguished_from_a_busy_mailbox(
    code: int, reply: str, phase: str, is_one: bool
) -> None:
    assert is_slow_down(code, reply, phase) is is_one


# ── quotas, servers, warm-ups, hours ────────────────────────────────────────────────────────────


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_quota_may_be_used_up_at_once_and_returns_a_day_later(session: Session, now: datetime) -> None:
    assert not held(session, "100/day", readers(100), now)

    late = held(session, "100/day", readers(2), now + HOUR)
    assert {wait.reason for wait in late.values()} == {"the quota of 100/day is used up"}
    assert {wait.until for wait in late.values()} == {
        now + DAY + HOUR
    }  # counted by the hour: never too early
    assert not held(session, "100/day", readers(100), now + DAY + HOUR)


def test_no_day_wherever_it_begins_sees_more_than_its_quota(session: Session, now: datetime) -> None:
    sent: list[datetime] = []
    for step in range(60):
        moment = now + step * timedelta(minutes=47)
        sent += [moment] * (9 - len(held(session, "50/day", readers(9), moment)))

    most = max(sum(begin <= moment < begin + DAY for moment in sent) for begin in sent)
    assert 40 <= most <= 50


def test_letters_beyond_a_quota_return_when_it_has_space(session: Session, now: datetime) -> None:
    held(session, "10/h", readers(4), now)
    held(session, "10/h", readers(6), now + timedelta(minutes=30))

    late = held(session, "10/h", readers(6), now + timedelta(minutes=40))

    waits = sorted(wait.until - now for wait in late.values())
    part = timedelta(seconds=3600 / 24)
    assert waits == [HOUR + part] * 4 + [HOUR + part + timedelta(minutes=30)] * 2


def servers(first: str, second: str = "") -> SendLimits:
    one, two = (
        f"smtp://{name}?weight={weight}{rate}"
        for name, weight, rate in (("a", 3, f"&rate={first}"), ("b", 1, f"&rate={second}" if second else ""))
    )
    return SendLimits(servers=parse_mail_url(f"{one},{two}").shares)


def test_servers_share_by_weight_within_their_own_rates(session: Session, now: datetime) -> None:
    emails = readers(200)

    free = Counter(reserve(session, servers("900/s"), emails, now).servers.values())
    short = Counter(reserve(session, servers("9/day"), emails, now).servers.values())

    assert 130 <= free["smtp://a:25"] <= 170
    assert short == {"smtp://a:25": 9, "smtp://b:25": 191}
    again = reserve(session, servers("9/day"), emails, now)
    assert Counter(again.servers.values()) == {"smtp://b:25": 200}


def test_letters_wait_for_the_first_available_server_if_all_rates_are_used_up(
    session: Session, now: datetime
) -> None:
    rules = servers("2/day", "60/min")
    held(session, rules, readers(4), now)

    late = held(session, rules, readers(1), now)

    assert late == {0: Wait(now + SECOND, "the rate of smtp://b:25 60/min is used up")}


def test_server_that_does_not_answer_is_skipped(session: Session, now: datetime) -> None:
    shared_limits.pause_server(session, "smtp://a:25", now + NO_REPLY_PAUSE)

    found = reserve(session, servers("9/s"), readers(5), now)
    assert set(found.servers.values()) == {"smtp://b:25"}
    assert shared_limits.active_pauses(session, now=now) == {"smtp://a:25": now + NO_REPLY_PAUSE}


def warm_up(table: str, zone: str = "UTC") -> SendLimits:
    return SendLimits(warm_up=parse_warm_up(f"2026-11-20{table}", zone))


def test_warm_up_sends_more_each_day_until_it_ends(session: Session, now: datetime) -> None:
    rules = warm_up(": 5, 20")

    sent = [60 - len(held(session, rules, readers(60), now + day * DAY)) for day in range(3)]

    assert sent == [5, 20, 60]


def test_warm_up_gives_the_time_until_which_letters_wait(session: Session, now: datetime) -> None:
    found = reserve(session, warm_up(": 5", "America/New_York"), readers(6), now)

    midnight = datetime(2026, 11, 21, 5, tzinfo=UTC)
    assert found.standstill == Wait(midnight, "all 5 letters of day 1 of the warm-up were sent")
    assert found.waits == {5: found.standstill}


def test_another_time_zone_gives_a_warm_up_day_no_second_allowance(session: Session, now: datetime) -> None:
    assert len(held(session, warm_up(": 5, 20"), readers(9), now)) == 4
    assert len(held(session, warm_up(": 5, 20", "Europe/Oslo"), readers(9), now)) == 9
    assert len(held(session, warm_up(": 5, 20", "America/New_York"), readers(9), now)) == 9
    assert not held(session, warm_up(": 5, 20", "America/New_York"), readers(20), now + DAY)


def test_day_without_mail_does_not_count_in_the_warm_up(session: Session, now: datetime) -> None:
    rules = warm_up(": 5, 20")
    held(session, rules, readers(1), now)

    assert len(held(session, rules, readers(60), now + 5 * DAY)) == 40


def test_new_first_day_begins_a_new_warm_up(session: Session, now: datetime) -> None:
    held(session, warm_up(": 5, 20"), readers(9), now)
    anew = SendLimits(warm_up=parse_warm_up("2026-12-01: 7", "UTC"))

    assert not held(session, anew, readers(99), now)  # it has not begun
    assert len(held(session, anew, readers(99), now + 11 * DAY)) == 92


def test_urgent_letters_count_in_a_warm_up_and_do_not_wait(session: Session, now: datetime) -> None:
    assert not held(session, warm_up(": 5"), readers(3), now, is_urgent=True)
    assert len(held(session, warm_up(": 5"), readers(9), now)) == 7


@pytest.mark.parametrize(
    ("text", "hour", "opens"),
    [
        ("06:00-22:00", 12, None),
        ("06:00-22:00", 5, 6),
        ("06:00-22:00", 22, 24 + 6),
        ("22:00-06:00", 23, None),
        ("22:00-06:00", 5, None),
        ("22:00-06:00", 6, 22),
    ],
)
def test_send_hours_apply_to_digests(text: str, hour: int, opens: int | None) -> None:
    hours = send_hours.parse_send_hours(text, "Europe/Oslo")
    midnight = datetime(2026, 11, 19, 23, tzinfo=UTC)

    assert hours
    assert hours.opens_at(midnight + hour * HOUR) == (None if opens is None else midnight + opens * HOUR)


def test_send_hours_follow_local_time_over_a_clock_change() -> None:
    hours = send_hours.parse_send_hours("06:00-22:00", "Europe/Oslo")

    assert hours
    assert hours.opens_at(datetime(2026, 3, 28, 22, tzinfo=UTC)) == datetime(2026, 3, 29, 4, tzinfo=UTC)


def test_hours_beginning_in_a_repeated_hour_begin_once() -> None:
    hours = send_hours.parse_send_hours("02:30-22:00", "Europe/Oslo")
    first, again = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 10, tzinfo=UTC)

    assert hours
    assert hours.opens_at(first - SECOND) == first
    assert hours.opens_at(first) is None
    assert hours.opens_at(again) is None  # the second 02:10 of that night


def test_hours_beginning_in_a_skipped_hour_begin_at_that_moment() -> None:
    hours = send_hours.parse_send_hours("02:30-22:00", "Europe/Oslo")
    opens = hours.opens_at(datetime(2026, 3, 28, 22, tzinfo=UTC)) if hours else None

    assert hours
    assert opens
    assert hours.opens_at(opens - SECOND) == opens
    assert hours.opens_at(opens) is None


@pytest.mark.parametrize("text", ["06:00-22:00", "22:00-06:00", "02:30-02:10", "00:00-02:30", "23:30-00:30"])
def test_wait_for_send_hours_ends_when_they_begin(text: str) -> None:
    for zone in ("Europe/Oslo", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu"):
        hours = send_hours.parse_send_hours(text, zone)
        assert hours
        for quarter in range(0, 366 * 96, 7):
            moment = datetime(2026, 1, 1, tzinfo=UTC) + quarter * timedelta(minutes=15)
            opens = hours.opens_at(moment)
            assert opens is None or moment < opens <= moment + timedelta(hours=25)
            assert opens is None or hours.opens_at(opens) is None


@pytest.mark.parametrize(
    ("setting", "text"),
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
def test_unreadable_setting_is_named(setting: str, text: str) -> None:
    with pytest.raises(BadField, match=f"DIGEST_{setting.upper()}: "):
        load_settings({setting: text})


# ── conversations ───────────────────────────────────────────────────────────────────────────────


def test_domain_has_a_limited_number_of_conversations(session: Session, now: datetime) -> None:
    rules = limit_rules.parse_shared_limits("example.org 2 at once")
    both = [*readers(2), *readers(1, "other.example")]

    assert [len(held(session, rules, both, now, lease=lease)) for lease in "abca"] == [0, 0, 2, 0]

    shared_limits.end_conversations(session, rules, both, lease="a")
    assert not held(session, rules, both, now, lease="c")


def test_dead_workers_conversation_ends_with_its_lease(session: Session, now: datetime) -> None:
    held(session, "1 at once", readers(1), now, lease="a")

    assert held(session, "1 at once", readers(1), now + 899 * SECOND, lease="b")
    assert not held(session, "1 at once", readers(1), now + 900 * SECOND, lease="b")


def test_dead_worker_with_a_fast_clock_holds_no_conversation_for_a_year(
    session: Session, now: datetime
) -> None:
    held(session, "1 at once", readers(1), now + 365 * DAY, lease="gone")

    assert not held(session, "1 at once", readers(1), now, lease="here")


def test_letter_waiting_for_another_limit_begins_no_conversation(session: Session, now: datetime) -> None:
    held(session, "1/day, 1 at once", readers(1, "first.example"), now, lease="a")
    assert held(session, "1/day, 1 at once", readers(1), now, lease="b")

    assert not held(session, "1 at once", readers(1), now, lease="c")


# ── many workers ─────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15)
@given(
    windows=st.lists(st.integers(1, 40), min_size=8, max_size=40),
    text=st.sampled_from(["45/s", "90/h", "90/day", "45/s, example.org 25/s", "warm-up"]),
    begins=st.integers(0, 10_000),
)
def test_many_threads_never_send_more_than_the_rate(
    postgres_url: str, windows: list[int], text: str, begins: int
) -> None:
    """Eight threads, each with its own connection, reserve at one moment: 90 go out, or all there are."""
    slow = SendLimits(warm_up=parse_warm_up("2020-01-01: 90, 500", "UTC"))
    rules = slow if text == "warm-up" else limit_rules.parse_shared_limits(text)
    moment = datetime(2020, 1, 1, tzinfo=UTC) + begins * DAY
    engine = db.make_engine(postgres_url)

    def draw(place: int) -> int:
        with db.write_session(engine) as own:
            return windows[place] - len(held(own, rules, readers(windows[place]), moment))

    with ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(draw, range(len(windows))))

    with db.write_session(engine) as own:
        own.execute(delete(RateCounter))
        own.execute(delete(WarmUpDay))
        own.commit()
    engine.dispose()
    allowed = 50 if "example.org" in text else 90
    assert sent == min(sum(windows), allowed)


def test_many_threads_have_no_more_conversations_than_allowed(engine: Engine, now: datetime) -> None:
    rules = limit_rules.parse_shared_limits("2 at once")

    def draw(place: int) -> bool:
        with db.write_session(engine) as own:
            return not held(own, rules, readers(3), now, lease=f"{place}")

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(draw, range(8))) == 2


def reserve_all(url: str, text: str, moment: datetime, windows: int) -> int:
    engine = db.make_engine(url)
    sent = 0
    for _window in range(windows):
        with db.write_session(engine) as own:
            sent += 5 - len(held(own, limit_rules.parse_shared_limits(text), readers(5), moment))
    engine.dispose()
    return sent


def test_many_processes_never_send_more_than_the_rate(database_url: str, now: datetime) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        sent = [pool.submit(reserve_all, database_url, "40/s, 60/day", now, 10) for _worker in range(2)]

        assert sum(each.result() for each in sent) == 60


@given(
    steps=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 30)), min_size=3, max_size=30),
    amount=st.integers(1, 120),
)
def test_no_span_sees_more_than_two_seconds_worth_and_what_was_refilled(
    sqlite_engine: Engine, steps: list[tuple[float, int]], amount: int
) -> None:
    moment, sent = datetime(2026, 1, 1, tzinfo=UTC), list[tuple[datetime, int]]()
    with db.write_session(sqlite_engine) as own:
        own.execute(delete(RateCounter))
        for seconds, count in steps:
            moment += seconds * SECOND
            sent.append((moment, count - len(held(own, f"{amount}/min", readers(count), moment))))

    for place, (begin, _) in enumerate(sent):
        for end, _ in sent[place:]:
            within = sum(count for at, count in sent if begin <= at <= end)
            assert within <= max(1, amount / 30) + (end - begin).total_seconds() * amount / 60 + 1e-6


# ── stops ───────────────────────────────────────────────────────────────────────────────────────


BRAKES = limit_rules.parse_stop_thresholds("bounces 10%, complaints 0.3%, deferred 50%, policy 20%")


@pytest.fixture
def attempted_letters(session: Session, site: Site, now: datetime) -> Callable[..., list[int]]:
    """Store attempted letters with their outcomes."""

    written = list[str]()

    def tries(verdict: str, count: int, *, at: datetime = now) -> list[int]:
        numbers = []
        for _letter in range(count):
            written.append(verdict)
            row = Delivery(
                edition=f"daily-{len(written)}", letter="digest", lane="bulk", email=f"{len(written)}@example.org",
                dated_at=at, due_at=at, expires_at=at, state="sent",
            )  # fmt: skip
            session.add(row)
            session.flush()
            number = row.id
            if verdict:
                attempt = AttemptRecord(number, at, verdict)
                attempts.record_attempts(session, [attempt], lease="x", now=at)
            numbers.append(number)
        session.commit()
        return numbers

    return tries


def record_failures(
    session: Session, site: Site, numbers: list[int], kind: FailureKind, now: datetime
) -> None:
    for number in numbers:
        report = Complaint() if kind is FailureKind.COMPLAINT else Failure(kind=kind, status="5.7.26")
        bounce_score.record_failure(
            session, site, f"r{number}@d{number}.example", report, now=now, delivery_id=number
        )


def test_many_deferrals_stop_digests_once(attempted_letters, session: Session, now: datetime) -> None:
    attempted_letters("accepted", 20)
    attempted_letters("deferred", 19)
    assert check_thresholds(session, BRAKES, now=now) is None

    attempted_letters("deferred", 5)
    surge = check_thresholds(session, BRAKES, now=now)

    assert surge
    assert surge.message == "24 of 44 digests were deferred by the mail server (the limit is 50%)"
    assert [(stop.scope, stop.reason) for stop in active_stops(session)] == [("bulk", surge.message)]
    assert check_thresholds(session, BRAKES, now=now) is None
    assert not threshold_readings(session, BRAKES, now=now + 2 * HOUR)


def test_few_letters_deferred_again_and_again_stop_nothing(
    attempted_letters, session: Session, now: datetime
) -> None:
    morning = now - 1.5 * HOUR
    attempted_letters("accepted", 100, at=morning)
    greylisted = attempted_letters("deferred", 8, at=morning)
    for minutes in (50, 30, 10):  # nothing else is sent meanwhile
        again = now - timedelta(minutes=minutes)
        attempts.record_attempts(
            session,
            [AttemptRecord(each, again, "deferred") for each in greylisted],
            lease="x",
            now=again,
        )

    assert not threshold_readings(session, BRAKES, now=now)

    attempted_letters("deferred", 20)
    (surge,) = threshold_readings(session, BRAKES, now=now)
    assert surge.message.startswith("20 of 20 digests were deferred")


def test_first_tries_deferred_by_greylisting_stop_nothing(
    attempted_letters, session: Session, now: datetime
) -> None:
    numbers = attempted_letters("", 40)
    for number in numbers:
        once = AttemptRecord(number, now, "deferred", "rcpt", 451, "4.7.1 Greylisted")
        attempts.record_attempts(session, [once], lease="x", now=now)
    assert not threshold_readings(session, BRAKES, now=now)

    for again in (5 * MINUTE, 15 * MINUTE):
        later = [
            AttemptRecord(number, now, "deferred", "rcpt", 451, "4.7.1 Greylisted") for number in numbers
        ]
        attempts.record_attempts(session, later, lease="x", now=now + again)
    (surge,) = threshold_readings(session, BRAKES, now=now + 15 * MINUTE)
    assert surge.count == 40


@pytest.mark.parametrize(
    ("kind", "least", "scope"),
    [(FailureKind.HARD, 20, "bulk"), (FailureKind.COMPLAINT, 10, "bulk"), (FailureKind.POLICY, 20, "all")],
)
def test_many_bounces_stop_mail(
    attempted_letters, session: Session, site: Site, now: datetime, kind: FailureKind, least: int, scope: str
) -> None:
    numbers = attempted_letters("accepted", 99)
    record_failures(session, site, numbers[: least - 1], kind, now)
    assert not threshold_readings(session, BRAKES, now=now)

    record_failures(session, site, numbers[least - 1 : least], kind, now)
    assert check_thresholds(session, BRAKES, now=now + 20 * HOUR)
    assert [stop.scope for stop in active_stops(session)] == [scope]


@pytest.mark.parametrize(
    ("count", "warns", "stops"), [(1, False, False), (2, True, False), (9, True, False), (10, True, True)]
)
def test_complaints_of_two_people_warn_and_of_ten_stop_digests(
    attempted_letters, session: Session, site: Site, now: datetime, count: int, warns: bool, stops: bool
) -> None:
    record_failures(session, site, attempted_letters("accepted", 1_000)[:count], FailureKind.COMPLAINT, now)

    assert bool(threshold_warnings(session, now=now)) is warns
    assert bool(check_thresholds(session, load_settings({}).limits.stop_thresholds, now=now)) is stops


@pytest.mark.parametrize("kind", [FailureKind.HARD, FailureKind.POLICY, FailureKind.COMPLAINT])
def test_reports_that_come_after_thousands_more_letters_stop_mail_too(
    attempted_letters,
    session: Session,
    site: Site,
    now: datetime,
    kind: FailureKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emergency_stops, "MAX_ATTEMPTS", 60)
    numbers = attempted_letters("accepted", 200)  # of which the latest 60 are counted
    record_failures(session, site, numbers[:90:3], kind, now)  # a third of the first

    (surge,) = threshold_readings(session, BRAKES, now=now)
    assert surge.count >= 10
    assert surge.attempts == 60


def test_threshold_share_is_the_same_for_a_large_service(
    attempted_letters, session: Session, site: Site, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emergency_stops, "MAX_ATTEMPTS", 200)
    few = limit_rules.parse_stop_thresholds("complaints 2%, bounces 30%")
    numbers = attempted_letters("accepted", 1000)
    record_failures(session, site, numbers[::100], FailureKind.COMPLAINT, now)  # one in a hundred

    assert threshold_readings(session, few, now=now) == []


def test_late_bounces_of_old_letters_stop_nothing(
    attempted_letters, session: Session, site: Site, now: datetime
) -> None:
    record_failures(session, site, attempted_letters("accepted", 40, at=now - 2 * DAY), FailureKind.HARD, now)
    attempted_letters("accepted", 40)

    assert not threshold_readings(session, BRAKES, now=now)


def test_after_a_resume_earlier_failures_do_not_count(
    attempted_letters, session: Session, now: datetime
) -> None:
    attempted_letters("deferred", 30)
    check_thresholds(session, BRAKES, now=now)

    assert lift_stops(session, now=now + SECOND) == 1
    assert lift_stops(session, now=now + SECOND) == 0
    assert check_thresholds(session, BRAKES, now=now + 2 * SECOND) is None
    attempted_letters("deferred", 30, at=now + 3 * SECOND)
    assert check_thresholds(session, BRAKES, now=now + 4 * SECOND)


def test_letters_to_strangers_stop_nothing(
    attempted_letters, session: Session, site: Site, now: datetime
) -> None:
    """Anybody can sign up other addresses; their confirmations bounce, are deferred, refused or reported."""
    attempted_letters("accepted", 10)
    attempt, letters = {FailureKind.HARD: "accepted", FailureKind.POLICY: "refused"}, list[int]()
    for kind in (FailureKind.HARD, FailureKind.POLICY, FailureKind.COMPLAINT, None):
        for number in range(40):
            letter = enqueue.queue_letter(
                session, letter=plain_letter("confirm", f"confirm-{kind}-{number}"), subscriber_id=None, email=f"x{number}@gone.example",
                site=site, now=now,
            )  # fmt: skip
            assert letter
            tried = AttemptRecord(letter, now, attempt.get(kind, "deferred") if kind else "deferred")
            attempts.record_attempts(session, [tried], lease="x", now=now)
            letters.append(letter)
        if kind:
            record_failures(session, site, letters[-40:], kind, now)

    assert threshold_readings(session, BRAKES, now=now, least=dict.fromkeys(BRAKES, 1)) == []
    assert threshold_warnings(session, now=now) == []


def test_a_handful_of_readers_who_report_every_digest_stop_nothing(
    attempted_letters, session: Session, site: Site, now: datetime
) -> None:
    numbers = attempted_letters("refused", 12)
    for kind in (FailureKind.HARD, FailureKind.POLICY):
        record_failures(session, site, numbers, kind, now)
    record_failures(session, site, numbers[:9], FailureKind.COMPLAINT, now)

    assert threshold_readings(session, BRAKES, now=now) == []


def confirm_from(
    session: Session, numbers: list[int], email: str, network: str, now: datetime, *, days: int = 0
) -> None:
    """Let the recipients of these letters be people who signed up; {} in their address or network is the letter's number."""
    for number in numbers:
        address = email.format(number)
        since = now - timedelta(days=days)
        who = Subscriber(
            email=address, email_key=address, state="active", created_at=since, confirmed_at=since
        )
        session.add(who)
        session.flush()
        session.add(Confirmation(subscriber_id=who.id, made_at=now, expires_at=now, used_at=now))
        known = network.format(number) or None
        session.add(Consent(subscriber_id=who.id, given_at=now, how="by link", address=known))
        letter = session.get_one(Delivery, number)
        letter.subscriber_id, letter.email = who.id, address
    session.commit()


@pytest.mark.parametrize(
    ("email", "network", "days", "stops"),
    [
        ("a{}@gmail.com", "192.0.2.0/24", 0, False),  # one person in one network
        ("a@x{}.example", "192.0.2.0/24", 29, False),
        ("a{}@own.example", "192.0.{}.0/24", 0, False),  # or with an own domain
        ("a@x{}.own.example", "", 0, False),
        ("a+{}@gmail.com", "192.0.{}.0/24", 99, False),  # or with one mailbox
        ("a{}@gmail.com", "192.0.{}.0/24", 0, True),  # many people
        ("a@x{}.ac.uk", "", 0, True),
        ("a{}@lab.example", "192.0.2.0/24", 30, True),  # who have long been readers in one laboratory
    ],
)
def test_one_persons_many_addresses_stop_nothing(
    attempted_letters,
    session: Session,
    site: Site,
    now: datetime,
    email: str,
    network: str,
    days: int,
    stops: bool,
) -> None:
    attempted_letters("accepted", 10)
    numbers = attempted_letters("deferred", 25)
    confirm_from(session, numbers, email, network, now, days=days)
    for kind in (FailureKind.HARD, FailureKind.POLICY, FailureKind.COMPLAINT):
        record_failures(session, site, numbers, kind, now)

    found = {reading.what for reading in threshold_readings(session, BRAKES, now=now)}
    assert found == ({*BRAKES} if stops else set())
    assert bool(threshold_warnings(session, now=now)) is stops


def test_thresholds_can_be_disabled_with_never(attempted_letters, session: Session, now: datetime) -> None:
    attempted_letters("deferred", 99)

    assert check_thresholds(session, limit_rules.parse_stop_thresholds("never"), now=now) is None


def test_stop_holds_digests_and_lets_urgent_letters_pass(session: Session, now: datetime) -> None:
    emergency_stop(session, "too much", scope=BULK, now=now)

    found = reserve(session, SendLimits(), readers(2), now)
    assert found.standstill == found.waits[0] == found.waits[1]
    assert found.waits[0].reason == "stopped: too much"
    assert not held(session, SendLimits(), readers(2), now, is_urgent=True)

    emergency_stop(session, "our own fault", scope=ALL, now=now)
    assert len(held(session, SendLimits(), readers(2), now, is_urgent=True)) == 2


def test_provider_reply_about_our_quota_is_recognised() -> None:
    assert throttle_pause("Throttling failure: Daily message quota exceeded.") == HOUR
    assert throttle_pause("Throttling failure: Maximum sending rate exceeded.") == 15 * SECOND
    assert throttle_pause("4.2.2 mailbox over quota") is None


def test_old_limits_are_deleted_and_a_warm_up_is_not(session: Session, now: datetime) -> None:
    held(session, warm_up(": 5, 20"), readers(5), now)
    held(session, "9/s, 1 at once", readers(1), now, lease="a")
    pause_domain(session, "a@busy.example", now=now)

    assert daily_counts.count_today(session, "answers", "a", most=1, now=now) == 1
    assert daily_counts.count_today(session, "answers", "a", most=1, now=now) is None
    shared_limits.delete_old_limits(session, now=now + DAY)
    assert session.query(DailyCount).count() == 1
    shared_limits.delete_old_limits(session, now=now + 2 * DAY)
    assert session.query(DailyCount).count() == 0

    assert shared_limits.delete_old_limits(session, now=now + 40 * DAY) == 0
    assert shared_limits.delete_old_limits(session, now=now + 50 * DAY) == 2
    assert len(held(session, warm_up(": 5, 20"), readers(60), now + 50 * DAY)) == 40
