"""Test which letters may not be sent yet, on SQLite and PostgreSQL, with real delivery runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from threading import Barrier

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, Lane
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import delivery_run, settlement
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.limits import canary, emergency_stops, limit_rules, send_hours, shared_limits, warm_up
from digest.delivery.limits.domain_pauses import LetterReply
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.limiter import STOPPED_PREFIX, Window
from digest.delivery.outbox import backoff, enqueue, transitions
from digest.delivery.transports.mail_url import parse_mail_url
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.server_pool import ServerPool
from digest.delivery.transports.transport import Message, Outcome, Verdict
from digest.letters.templates import Templates
from digest.monitoring import problems
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.bench import greylisting
from tests.support.absent_server import AbsentServer
from tests.support.clock import Clock
from tests.support.fixed_clock import fixed_clock
from tests.support.plain_letters import plain_letter
from tests.support.publishing_world import PublishingWorld
from tests.support.shared_caches import CACHES
from tests.support.waiting import HANG_SECONDS

ALARM_DECISION = {
    "commands": [],
    "manage_url": "",
    "message": "It",
    "fix": "Fix it.",
    "since": "",
    "facts": [],
}
A_YEAR_LATER = datetime(2027, 11, 20, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def put(session: Session, site: Site, now: datetime) -> Callable[..., None]:
    """Write letters into a lane; those with an edition are written as digests."""

    def written(count: int, *, lane: Lane = Lane.BULK, letter: str = "help", **more: datetime) -> None:
        for _letter in range(count):
            number = written.count  # type: ignore[attr-defined]
            written.count += 1  # type: ignore[attr-defined]
            enqueue.queue_letter(
                session, letter=plain_letter(letter, f"letter-{number}", ALARM_DECISION), subscriber_id=None, email=f"r{number}@example.org",
                site=site, now=now, lane=lane, **more,
            )  # fmt: skip
        session.commit()

    written.count = 0  # type: ignore[attr-defined]
    return written


@pytest.fixture
def deliver(
    session: Session, site: Site, templates: Templates, now: datetime
) -> Callable[..., DeliveryReport]:
    """Deliver later than now by `after`, under these rules."""

    def delivered(
        rules: SendLimits, after: timedelta = timedelta(), transport: object = None, **more: object
    ) -> DeliveryReport:
        session.expire_all()
        return delivery_run.deliver(
            session,
            site=site,
            templates=templates,
            caches=CACHES,
            transport=transport or MemoryTransport(),  # type: ignore[arg-type]
            limits=rules,
            **{"clock": lambda: now + after} | more,  # type: ignore[arg-type]
        )

    return delivered


def reasons(session: Session) -> dict[tuple[str, str, int], int]:
    """Count deliveries by state, reason and attempts."""
    session.expire_all()
    found: dict[tuple[str, str, int], int] = {}
    for row in session.scalars(select(Delivery)):
        key = (row.state, row.reason, row.attempts)
        found[key] = found.get(key, 0) + 1
    return found


# ── hours ───────────────────────────────────────────────────────────────────────────────────────


NIGHT = SendLimits(hours=send_hours.parse_send_hours("10:00-22:00", "UTC"))


def test_digests_wait_for_the_morning_and_urgent_letters_do_not(put, deliver, session: Session) -> None:
    put(7)
    put(2, lane=Lane.PROMPT)

    assert deliver(NIGHT) == DeliveryReport(sent=2, deferred=7)
    assert reasons(session) == {("sent", "", 1): 2, ("queued", "digests are sent from 10:00 on", 0): 7}
    assert deliver(NIGHT, HOUR) == DeliveryReport()
    assert deliver(NIGHT, 2 * HOUR) == DeliveryReport(sent=7)


def test_letter_that_expires_before_the_morning_ends_with_both_reasons(
    put, deliver, session: Session, now: datetime
) -> None:
    put(1, expires_at=now + HOUR)
    deliver(NIGHT)

    assert deliver(NIGHT, HOUR + SECOND) == DeliveryReport(expired=1)
    ((state, reason, attempts),) = reasons(session)
    assert (state, attempts) == ("expired", 0)
    assert (
        reason
        == "too late: it expired at 2026-11-20 09:00 UTC; it had waited: digests are sent from 10:00 on"
    )


# ── rates ───────────────────────────────────────────────────────────────────────────────────────


def test_letters_beyond_a_rate_wait_without_using_up_attempts(put, deliver, session: Session) -> None:
    rules = SendLimits(rates=limit_rules.parse_rates("30/s"))
    put(130)

    first = deliver(rules, window=20)

    assert first.sent == 60
    assert {attempts for (state, _, attempts) in reasons(session) if state == "queued"} == {0}
    assert deliver(rules, SECOND, window=20).sent == 30
    assert deliver(rules, 90 * SECOND, window=20).sent == 40


@pytest.mark.parametrize("text", ["15/s", "3000/min", "example.org 15/s"])
def test_worker_waits_for_tokens_itself_and_uses_the_whole_rate(
    put, deliver, session: Session, now: datetime, text: str
) -> None:
    clock, (rate,) = Clock(now), limit_rules.parse_rates(text)
    put(300)

    assert deliver(SendLimits(rates=(rate,)), clock=clock, sleep=clock.wait) == DeliveryReport(sent=300)
    assert 0.95 < (300 - rate.capacity) / rate.per_second / sum(clock.waits) <= 1.01


def test_worker_waiting_for_tokens_gives_up_its_lease_in_time_without_using_up_attempts(
    put, deliver, session: Session, now: datetime
) -> None:
    clock = Clock(now)
    put(200)

    found = deliver(
        SendLimits(rates=limit_rules.parse_rates("10/s")), clock=clock, sleep=clock.wait, max_time=5 * SECOND
    )

    assert 65 <= found.sent <= 75
    assert sum(clock.waits) < 6
    assert reasons(session) == {
        ("sent", "", 1): found.sent,
        ("queued", "the rate of 10/s is used up", 0): 200 - found.sent,
    }


def test_worker_waiting_for_tokens_renews_its_lease(
    put, deliver, engine: Engine, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "LEASE", 10 * SECOND)
    clock, seen = Clock(now), set[tuple[str | None, datetime | None]]()
    put(60)

    def sleep(seconds: float) -> None:
        clock.wait(seconds)
        with db.read_session(engine) as other:
            held = select(Delivery.lease, Delivery.leased_until).where(Delivery.state == "claimed")
            seen.update((row[0], row[1]) for row in other.execute(held))

    rules = SendLimits(rates=limit_rules.parse_rates("2/s"))
    assert deliver(rules, clock=clock, sleep=sleep) == DeliveryReport(sent=60)

    assert sum(clock.waits) > 25
    assert len({lease for lease, _ in seen}) == 1
    assert len({until for _, until in seen}) > 3


def test_stopped_worker_waits_for_no_token(put, deliver, session: Session, now: datetime) -> None:
    clock = Clock(now)
    put(50)

    deliver(
        SendLimits(rates=limit_rules.parse_rates("1/s")),
        clock=clock,
        sleep=clock.wait,
        is_stopping=lambda: sum(clock.waits) > 0,
    )

    assert sum(clock.waits) <= 0.5


def test_urgent_letter_overtakes_a_worker_that_waits_for_tokens(
    put, deliver, session: Session, now: datetime
) -> None:
    clock, memory = Clock(now), MemoryTransport()
    put(30)

    def sleep(seconds: float) -> None:
        if not sum(clock.waits):
            put(1, lane=Lane.PROMPT)
        clock.wait(seconds)

    deliver(SendLimits(rates=limit_rules.parse_rates("2/s")), transport=memory, clock=clock, sleep=sleep)

    assert [message.recipient for message in memory.messages].index("r30@example.org") < 12


def test_worker_does_not_wait_for_a_very_slow_rate(put, deliver, session: Session, now: datetime) -> None:
    clock = Clock(now)
    put(5)

    assert (
        deliver(SendLimits(rates=limit_rules.parse_rates("2/min")), clock=clock, sleep=clock.wait).sent == 1
    )
    assert sum(clock.waits) == 0


def test_used_up_warm_up_postpones_all_digests_to_midnight(put, deliver, session: Session) -> None:
    rules = SendLimits(warm_up=warm_up.parse_warm_up("2026-11-20: 5, 20", "UTC"))
    put(12)
    put(3, lane=Lane.PROMPT)

    assert deliver(rules, window=2).sent == 3 + 2
    assert reasons(session)[("queued", "all 5 letters of day 1 of the warm-up were sent", 0)] == 10
    put(4, lane=Lane.PROMPT)
    assert deliver(rules, 14 * HOUR) == DeliveryReport(sent=4)
    assert deliver(rules, 16 * HOUR) == DeliveryReport(sent=10)


def test_reply_about_our_quota_uses_up_no_attempt_and_pauses_the_server(
    put, deliver, session: Session
) -> None:
    reply = "Throttling failure: Daily message quota exceeded."
    answer = Outcome(delivery_id=0, verdict=Verdict.DEFERRED, phase="data", code=454, reply=reply)
    throttled = MemoryTransport({f"r{number}@example.org": answer for number in range(4)})
    put(4)

    assert deliver(SendLimits(), transport=throttled, window=2) == DeliveryReport(deferred=4)
    assert {attempts for _, _, attempts in reasons(session)} == {0}
    assert deliver(SendLimits(), 59 * MINUTE) == DeliveryReport()
    assert deliver(SendLimits(), HOUR) == DeliveryReport(sent=4)


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def test_letters_assigned_to_a_missing_server_go_through_another_within_its_rate(
    put, deliver, session: Session
) -> None:
    rules = SendLimits(servers=parse_mail_url("smtp://a:25?weight=3&rate=9/s,smtp://b:25?rate=5/s").shares)
    sound = MemoryTransport()
    both = ServerPool({"smtp://a:25": AbsentServer(), "smtp://b:25": sound})
    put(12)

    assert deliver(rules, transport=both, window=4).sent == 10
    assert len(sound.messages) == 10
    assert reasons(session)[("queued", "the rate of smtp://b:25 5/s is used up", 0)] == 2
    assert deliver(rules, SECOND, transport=both, window=4).sent == 2


def test_windows_of_one_letter_find_the_server_that_answers(put, deliver, session: Session) -> None:
    rules = SendLimits(servers=parse_mail_url("smtp://a:25?weight=3&rate=9/s,smtp://b:25").shares)
    sound = MemoryTransport()
    both = ServerPool({"smtp://a:25": AbsentServer(), "smtp://b:25": sound})
    put(3, lane=Lane.PROMPT)

    assert deliver(rules, transport=both, window=1).sent == 3


def test_alarm_waits_a_minute_too_if_no_server_takes_it(put, deliver, session: Session) -> None:
    rules = SendLimits(servers=parse_mail_url("smtp://a:25?rate=9/s").shares)
    calls = []

    class Down(AbsentServer):
        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            calls.append(len(window))
            assert len(calls) < 9, "it is tried again and again"
            return super().send(window)

    put(1, letter="alarm", lane=Lane.PROMPT)

    deliver(rules, transport=ServerPool({"smtp://a:25": Down()}))
    assert calls == [1]
    assert deliver(rules, 59 * SECOND) == DeliveryReport()
    assert deliver(rules, MINUTE) == DeliveryReport(sent=1)


def test_letters_wait_a_minute_without_using_up_attempts_if_no_server_answers(
    put, deliver, session: Session
) -> None:
    rules = SendLimits(servers=parse_mail_url("smtp://a:25?rate=9/s").shares)
    away = ServerPool({"smtp://a:25": AbsentServer()})
    put(3)

    deliver(rules, transport=away)
    assert reasons(session) == {("queued", "smtp://a:25 does not respond, or asked us to slow down", 0): 3}
    assert deliver(rules, 59 * SECOND) == DeliveryReport()
    assert deliver(rules, 60 * SECOND) == DeliveryReport(sent=3)


def test_refused_login_pauses_all_workers_and_uses_up_no_attempt(put, deliver, session: Session) -> None:
    put(3)
    deliver(SendLimits(), transport=AbsentServer())
    put(2)

    assert deliver(SendLimits(), SECOND) == DeliveryReport(deferred=2)
    assert {attempts for _, _, attempts in reasons(session)} == {0}
    assert deliver(SendLimits(), MINUTE) == DeliveryReport(sent=5)


@pytest.mark.parametrize(
    "rules",
    [
        SendLimits(warm_up=warm_up.parse_warm_up("2026-11-20: 6, 20", "UTC")),
        SendLimits(rates=limit_rules.parse_rates("6/day")),
        SendLimits(rates=limit_rules.parse_rates("9/day, example.org 6/h")),
        SendLimits(
            rates=limit_rules.parse_rates("3/s"), warm_up=warm_up.parse_warm_up("2026-11-20: 9", "UTC")
        ),
        SendLimits(servers=parse_mail_url("smtp://a:25?rate=6/h").shares),
    ],
)
def test_outage_uses_up_no_limit(put, deliver, session: Session, rules: SendLimits) -> None:
    away = ServerPool({"smtp://a:25": AbsentServer()})
    put(8)
    for minute in range(5):
        deliver(rules, minute * MINUTE, transport=away, window=3)

    assert deliver(rules, 5 * MINUTE, window=3).sent == 6
    assert {attempts for state, _, attempts in reasons(session) if state == "queued"} == {0}


def test_no_limit_is_exceeded_or_wasted_with_many_workers_and_unreliable_servers(
    put, engine: Engine, site: Site, templates: Templates, now: datetime
) -> None:
    text = "60/day, example.org 50/h, 8 at once"
    rules = SendLimits(
        rates=limit_rules.parse_rates(text),
        conversation_limits=limit_rules.parse_conversation_limits(text),
        warm_up=warm_up.parse_warm_up("2026-11-20: 55", "UTC"),
    )
    sound, chance = MemoryTransport(), Random(7)

    class Flaky(MemoryTransport):
        """Accepts part of a window, and closes the connection."""

        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            taken = chance.choice([0, 1, 3, 5])
            yield from sound.send(window[:taken])
            yield from AbsentServer().send(window[taken:])

    def work(number: int) -> None:
        for minute in range(12):
            with db.write_session(engine) as own:
                delivery_run.deliver(
                    own, site=site, templates=templates, caches=CACHES, transport=Flaky(), window=5, limit=20, limits=rules,
                    clock=fixed_clock(now + minute * MINUTE + number * SECOND / 10),
                )  # fmt: skip

    put(100)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(sound.messages) <= 50

    with db.write_session(engine) as own:  # the servers have become reliable
        delivery_run.deliver(
            own, site=site, templates=templates, caches=CACHES, transport=sound, limits=rules,
            clock=fixed_clock(now + 30 * MINUTE),
        )  # fmt: skip
    assert len(sound.messages) == 50


def test_day_on_which_no_server_answered_does_not_count_in_the_warm_up(
    put, deliver, session: Session
) -> None:
    rules = SendLimits(warm_up=warm_up.parse_warm_up("2026-11-20: 5, 20", "UTC"))
    put(12)
    deliver(rules, transport=AbsentServer())

    assert deliver(rules, 24 * HOUR).sent == 5


def test_alarm_takes_no_tokens_and_releases_none(put, deliver, session: Session) -> None:
    rules = SendLimits(rates=limit_rules.parse_rates("3/day"))
    put(2)
    deliver(rules)
    put(1, letter="alarm", lane=Lane.PROMPT)
    deliver(rules, transport=AbsentServer())
    put(4)

    assert deliver(rules, MINUTE).sent == 1 + 1


def test_letter_takes_tokens_once_if_the_server_closed_the_connection_before_it(
    put, deliver, session: Session
) -> None:
    class Weary(MemoryTransport):
        """A server that closes the connection after two letters."""

        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            yield from super().send(window[:2])
            for each in window[2:]:
                yield Outcome(delivery_id=each.delivery_id, verdict=Verdict.UNTRIED, phase="mail")

    put(9)

    assert deliver(SendLimits(rates=limit_rules.parse_rates("9/day")), transport=Weary(), window=5).sent == 9


def test_letter_that_another_worker_took_over_uses_no_token(put, deliver, session: Session) -> None:
    class Overtaken(MemoryTransport):
        """A server during whose first window another worker takes over a letter of the second."""

        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            if not self.messages:
                third = update(Delivery).where(Delivery.email == "r2@example.org")
                session.execute(third.values(lease="another's"))
                session.commit()
            yield from super().send(window)

    put(6)

    assert (
        deliver(SendLimits(rates=limit_rules.parse_rates("5/day")), transport=Overtaken(), window=2).sent == 5
    )


# ── domains that defer ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("domains", "share"), [(20, 5), (20, 50), (1, 100)])
def test_no_letter_expires_unsent_if_servers_greylist(
    session: Session, site: Site, domains: int, share: int
) -> None:
    found = greylisting.simulate_morning(session, site, readers=120, domains=domains, share=share, window=10)

    assert found.states == {"sent": 120}
    assert not found.is_stopped
    assert found.tries == 2


@pytest.mark.parametrize(("deferred", "others_go"), [(1, True), (4, True), (5, False)])
def test_domain_is_paused_only_after_several_recipients_in_a_row_are_deferred(
    put, deliver, session: Session, deferred: int, others_go: bool
) -> None:
    put(deferred)
    deliver(SendLimits(), transport=refusing(deferred, 421, "4.7.28 unusual rate"))
    put(1)

    assert deliver(SendLimits(), SECOND).sent == others_go
    assert deliver(SendLimits(), 7 * MINUTE).sent == deferred + (not others_go)


def test_accepted_letter_between_deferrals_keeps_a_domain_from_being_paused(
    put, deliver, session: Session
) -> None:
    put(9)
    some = refusing(9, 421, "4.7.28 unusual rate")
    some.answers.pop("r4@example.org")

    assert deliver(SendLimits(), transport=some, window=9).sent == 1
    assert shared_limits.active_pauses(session, now=A_YEAR_LATER) == {}


def test_accepted_letter_resets_the_strikes_of_a_domain(
    put, deliver, session: Session, now: datetime
) -> None:
    def strike(after: timedelta) -> timedelta:
        put(5)
        deliver(SendLimits(), after, transport=refusing(999, 421, "4.7.28 unusual rate"))
        return shared_limits.active_pauses(session, now=now + after)["example.org"] - now - after

    assert strike(timedelta()) == 5 * MINUTE
    assert strike(30 * MINUTE) == 10 * MINUTE
    deliver(SendLimits(), HOUR)
    assert strike(HOUR + MINUTE) == 5 * MINUTE


def test_same_recipient_deferred_again_and_again_pauses_no_domain(put, deliver, session: Session) -> None:
    put(1)
    for hour in range(8):
        deliver(SendLimits(), hour * HOUR / 4, transport=refusing(1, 451, "4.7.1 try again later"))

    put(1)
    assert deliver(SendLimits(), 2 * HOUR).sent >= 1


def test_domain_that_also_defers_second_tries_is_paused(
    put, deliver, session: Session, now: datetime
) -> None:
    """The first try may be greylisted."""
    put(5)
    deliver(SendLimits(), transport=refusing(5, 451, "4.7.650 rate limited"))
    assert shared_limits.active_pauses(session, now=now) == {}

    deliver(SendLimits(), 7 * MINUTE, transport=refusing(5, 451, "4.7.650 rate limited"))

    assert list(shared_limits.active_pauses(session, now=now + 7 * MINUTE)) == ["example.org"]


# ── conversations ───────────────────────────────────────────────────────────────────────────────


def test_run_ends_its_conversation_with_a_domain_when_its_window_is_settled(
    put, deliver, session: Session
) -> None:
    rules = SendLimits(conversation_limits=limit_rules.parse_conversation_limits("1 at once"))
    put(9)

    assert deliver(rules, window=3) == DeliveryReport(sent=9)
    window = Window(domains={1: "example.org"}, lease="another")
    late = shared_limits.reserve(session, rules, window, now=datetime(2026, 11, 20, 8, tzinfo=UTC)).waits
    assert not late


# ── canary ────────────────────────────────────────────────────────────────────────────────────


def put_edition(session: Session, count: int, now: datetime, *, first: int = 0) -> None:
    """Write an edition of `number` digests into the outbox."""
    for number in range(first, first + count):
        one = subscriber_rows.add(
            session, f"r{number}@example.org", state=SubscriberState.ACTIVE,
            consent="a test", now=now,
        )  # fmt: skip
        session.flush()
        enqueue.queue_digests(
            session,
            [{"subscriber_id": one.id, "edition": "daily-2026-11-20", "email": one.email, "dated_at": now,
              "due_at": now, "expires_at": now + 15 * HOUR, "decision": '{"sections": []}'}],
        )  # fmt: skip
    session.commit()


@pytest.fixture
def edition(session: Session, now: datetime) -> Callable[[int], None]:
    """Return the rows of an edition of digests."""
    return lambda count: put_edition(session, count, now)


def taken_up(session: Session) -> tuple[int, int]:
    """Return how many digests were tried, and how many wait for the canary."""
    found = reasons(session)
    waiting = sum(n for (_, reason, _), n in found.items() if "canary until" in reason)
    return sum(found.values()) - waiting, waiting


def test_canary_goes_ahead_and_the_rest_follows(edition, deliver, session: Session) -> None:
    rules = SendLimits(canary=canary.parse_canary("20% for 30 min"))
    edition(100)

    deliver(rules)  # without a press they cannot be rendered; that they were tried is what counts
    first, waiting = taken_up(session)
    assert 8 <= first <= 35
    assert waiting == 100 - first
    assert ("queued", "the first 20% of daily-2026-11-20 are a canary until 08:30 UTC", 0) in reasons(session)

    deliver(rules, 29 * MINUTE)
    assert taken_up(session) == (first, waiting)
    deliver(rules, 30 * MINUTE)
    assert taken_up(session) == (100, 0)


def test_small_edition_needs_no_canary(edition, deliver, session: Session) -> None:
    edition(20)

    deliver(SendLimits(canary=canary.parse_canary("20% for 30 min")))

    assert taken_up(session) == (20, 0)


def test_edition_with_few_due_at_first_has_its_canary_when_many_are(
    deliver, session: Session, now: datetime
) -> None:
    rules = SendLimits(canary=canary.parse_canary("20% for 30 min"))
    put_edition(session, 20, now)  # readers whose morning comes first
    deliver(rules)
    assert taken_up(session) == (20, 0)

    put_edition(session, 100, now, first=20)
    deliver(rules, HOUR)
    first, _waiting = taken_up(session)
    assert 20 + 8 <= first <= 20 + 35
    deliver(rules, HOUR + 30 * MINUTE)
    assert taken_up(session) == (120, 0)


def test_canary_written_by_a_fast_clock_waits_no_longer_than_another(
    edition, deliver, session: Session
) -> None:
    share = canary.parse_canary("20% for 30 min")
    assert share
    rules = SendLimits(canary=share)
    edition(100)
    shared_limits.canary_waits(session, share, {"daily-2026-11-20"}, claimed=100, now=A_YEAR_LATER)
    session.commit()

    deliver(rules)
    assert taken_up(session)[1] > 0
    deliver(rules, 31 * MINUTE)
    assert taken_up(session) == (100, 0)


# ── stops ───────────────────────────────────────────────────────────────────────────────────────


BRAKES = SendLimits(stop_thresholds=limit_rules.parse_stop_thresholds("deferred 50%, policy 20%"))


def publish_digests(engine: Engine, site: Site, templates: Templates, count: int) -> None:
    """Publish digests to r0@example.org, r1@example.org, ... at 08:00."""
    world = PublishingWorld(engine=engine, site=site, templates=templates)
    for number in range(count):
        world.subscribe(f"r{number}@example.org", {"Robots": "robot*"})
    world.dump("20T06:00", ["A robot for every reader"])
    assert world.publish("20T08:00").queued == count


def refusing(count: int, code: int, reply: str) -> MemoryTransport:
    verdict = Verdict.DEFERRED if code < 500 else Verdict.REFUSED
    answer = Outcome(delivery_id=0, verdict=verdict, phase="rcpt", code=code, reply=reply)
    return MemoryTransport({f"r{number}@example.org": answer for number in range(count)})


def test_many_deferrals_stop_the_rest_until_the_operator_resumes(
    put,
    deliver,
    engine: Engine,
    session: Session,
    site: Site,
    templates: Templates,
    now: datetime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publish_digests(engine, site, templates, 60)

    first = deliver(BRAKES, transport=refusing(60, 451, "4.3.0 try later"), window=20)

    assert first.deferred >= 20
    stop = "stopped: 20 of 20 digests were deferred by the mail server (the limit is 50%)"
    assert reasons(session)[("queued", stop, 0)] == 40
    found = {each.cause: each.message for each in problems.find_problems(session, now=now)}
    assert found["stop-1"] == "Digests are stopped"
    assert "Digests are stopped: 20 of 20 digests were deferred" in caplog.text
    put(1, lane=Lane.PROMPT)
    assert deliver(BRAKES, 2 * MINUTE) == DeliveryReport(sent=1)

    emergency_stops.lift_stops(session, now=now + 3 * MINUTE)
    assert backoff.make_due(session, reason=STOPPED_PREFIX, now=now + 3 * MINUTE) == 40
    session.commit()
    assert deliver(BRAKES, 3 * MINUTE).sent == 40


def test_many_policy_refusals_stop_urgent_letters_but_not_the_alarm(
    put,
    deliver,
    engine: Engine,
    session: Session,
    site: Site,
    templates: Templates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publish_digests(engine, site, templates, 20)
    deliver(BRAKES, transport=refusing(20, 550, "5.7.26 unauthenticated mail"))
    put(1, lane=Lane.PROMPT)
    put(1, lane=Lane.PROMPT, letter="alarm")

    deliver(BRAKES, MINUTE)

    found = reasons(session)
    assert "All mail is stopped: 20 of 20 digests were refused" in caplog.text
    (stopped,) = [reason for state, reason, _ in found if state == "queued"]
    assert stopped.startswith("stopped: 20 of 20 digests were refused for policy reasons")
    assert found[("sent", "", 1)] == 1
    assert sum(number for (state, _, _), number in found.items() if state == "queued") == 1


def test_deferred_letters_to_unconfirmed_addresses_pause_no_domain(
    put, session: Session, now: datetime
) -> None:
    put(1)
    (claimed,) = transitions.claim(session, lane=Lane.BULK, now=now, limit=1)
    later = Outcome(
        delivery_id=claimed.id, verdict=Verdict.DEFERRED, phase="dot", code=451, reply="4.7.1 later"
    )

    assert settlement.reply_of(claimed, later) is not None
    for letter in ("confirm", "reminder"):
        assert settlement.reply_of(claimed._replace(letter=letter), later) is None


def test_window_without_limits_makes_no_extra_queries(put, deliver, session: Session) -> None:
    """There is one query for pauses and stops per window."""
    from sqlalchemy import event

    put(5)
    statements: list[str] = []
    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", lambda *event_args: statements.append(event_args[2]))

    assert deliver(SendLimits()) == DeliveryReport(sent=5)

    assert len([one for one in statements if "domain_pause" in one or "stop" in one]) == 1


def test_workers_slowed_down_by_the_same_domains_do_not_deadlock(engine: Engine, now: datetime) -> None:
    """Each worker pauses the domains in a different order; a deadlock would leave a whole window in doubt."""
    domains = [f"d{number}.example" for number in range(20)]
    together = Barrier(2)

    def work(order: list[str]) -> None:
        for turn in range(3):
            together.wait(timeout=HANG_SECONDS)
            with db.write_session(engine) as own:
                replies = [LetterReply(str(number), is_taken=False) for number in range(5)]
                shared_limits.record_replies(own, dict.fromkeys(order, replies), now=now + turn * 3 * HOUR)
                own.commit()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [domains, domains[::-1]]))

    with db.write_session(engine) as own:
        assert len(shared_limits.active_pauses(own, now=now + 6 * HOUR)) == 20
