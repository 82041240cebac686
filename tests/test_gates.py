"""Claims about what may not go out yet: on SQLite and PostgreSQL, with real runs of delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from random import Random
from threading import Barrier

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db, delivery, outbox, rates, subscriptions, watching
from digest.delivery import Report
from digest.delivery.gates import Gate
from digest.editions import Schedule
from digest.links import Site
from digest.model import Delivery, Lane, SubscriberState
from digest.rates import Rules
from digest.rendering import Templates
from digest.transport import Message, Outcome, Verdict
from digest.transport.memory import Memory
from digest.transport.several import Member, Several

SAID = {"commands": [], "manage_url": "", "wrong": "It", "mend": "Mend it.", "since": "", "facts": []}
A_YEAR_LATER = datetime(2027, 11, 20, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def put(session: Session, site: Site, now: datetime) -> Callable[..., None]:
    """Write so many letters into a lane. Those of an edition are put as digests are."""

    def written(count: int, *, lane: Lane = Lane.BULK, letter: str = "help", **more: datetime) -> None:
        for _letter in range(count):
            number = written.count  # type: ignore[attr-defined]
            written.count += 1  # type: ignore[attr-defined]
            outbox.put_letter(
                session, letter=letter, subscriber_id=None, email=f"r{number}@example.org", decision=SAID,
                dedupe_key=f"letter-{number}", site=site, now=now, lane=lane, **more,
            )  # fmt: skip
        session.commit()

    written.count = 0  # type: ignore[attr-defined]
    return written


@pytest.fixture
def deliver(session: Session, site: Site, templates: Templates, now: datetime) -> Callable[..., Report]:
    """Deliver so much later than now, under these rules."""

    def delivered(
        rules: Rules, after: timedelta = timedelta(), transport: object = None, **more: object
    ) -> Report:
        session.expire_all()
        return delivery.deliver(
            session,
            site=site,
            templates=templates,
            transport=transport or Memory(),  # type: ignore[arg-type]
            clock=lambda: now + after,
            limits=rules,
            **more,  # type: ignore[arg-type]
        )

    return delivered


def reasons(session: Session) -> dict[tuple[str, str, int], int]:
    """How many deliveries are in each state, for each reason, after so many attempts."""
    session.expire_all()
    found: dict[tuple[str, str, int], int] = {}
    for row in session.scalars(select(Delivery)):
        key = (row.state, row.reason, row.attempts)
        found[key] = found.get(key, 0) + 1
    return found


# ── hours ───────────────────────────────────────────────────────────────────────────────────────


NIGHT = Rules(hours=rates.hours_in("10:00-22:00", "UTC"))


def test_digests_wait_for_the_morning_and_what_people_wait_for_does_not(
    put, deliver, session: Session
) -> None:
    put(7)
    put(2, lane=Lane.PROMPT)

    assert deliver(NIGHT) == Report(sent=2)
    assert reasons(session) == {("sent", "", 1): 2, ("queued", "digests go out from 10:00 on", 0): 7}
    assert deliver(NIGHT, HOUR) == Report()
    assert deliver(NIGHT, 2 * HOUR) == Report(sent=7)


def test_what_is_too_late_before_the_morning_ends_with_both_reasons(
    put, deliver, session: Session, now: datetime
) -> None:
    put(1, expires_at=now + HOUR)
    deliver(NIGHT)

    assert deliver(NIGHT, HOUR + SECOND) == Report(expired=1)
    ((state, reason, attempts),) = reasons(session)
    assert (state, attempts) == ("expired", 0)
    assert (
        reason == "too late: it expired at 2026-11-20 09:00 UTC; it had waited: digests go out from 10:00 on"
    )


# ── rates ───────────────────────────────────────────────────────────────────────────────────────


def test_beyond_a_rate_letters_wait_unburnt_and_later_all_have_gone(put, deliver, session: Session) -> None:
    rules = Rules(rates=rates.parse("60/min"))
    put(130)

    first = deliver(rules, window=20)

    assert first.sent == 60
    assert {attempts for (state, _, attempts) in reasons(session) if state == "queued"} == {0}
    assert deliver(rules, 30 * SECOND, window=20).sent == 30
    assert deliver(rules, 90 * SECOND, window=20).sent == 40


def test_a_used_up_warm_up_lets_all_digests_wait_for_midnight(put, deliver, session: Session) -> None:
    rules = Rules(warm_up=rates.warm_up_in("2026-11-20: 5, 20", "UTC"))
    put(12)
    put(3, lane=Lane.PROMPT)

    assert deliver(rules, window=2).sent == 3 + 2
    assert reasons(session)[("queued", "the 5 letters of day 1 of the warm-up are sent", 0)] == 10
    put(4, lane=Lane.PROMPT)
    assert deliver(rules, 14 * HOUR) == Report(sent=4)
    assert deliver(rules, 16 * HOUR) == Report(sent=10)


def test_a_reply_about_our_quota_burns_no_attempt_and_pauses_the_server(
    put, deliver, session: Session
) -> None:
    said = "Throttling failure: Daily message quota exceeded."
    answer = Outcome(delivery_id=0, verdict=Verdict.DEFERRED, phase="data", code=454, reply=said)
    throttled = Memory({f"r{number}@example.org": answer for number in range(4)})
    put(4)

    assert deliver(Rules(), transport=throttled, window=2) == Report(deferred=4)
    assert {attempts for _, _, attempts in reasons(session)} == {0}
    assert deliver(Rules(), 59 * MINUTE) == Report()
    assert deliver(Rules(), HOUR) == Report(sent=4)


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


class Away:
    """A server that does not answer."""

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        for each in window:
            yield Outcome(
                delivery_id=each.delivery_id, verdict=Verdict.UNTRIED, phase="connect", reply="away"
            )

    def close(self) -> None: ...


def test_letters_paid_for_a_server_that_is_away_go_through_another_within_its_own_rate(
    put, deliver, session: Session
) -> None:
    rules = Rules(servers=rates.servers_in([("smtp://a:25", 3, "9/s"), ("smtp://b:25", 1, "10/min")]))
    sound = Memory()
    both = Several(
        [
            Member(transport=Away(), name="smtp://a:25", weight=3),
            Member(transport=sound, name="smtp://b:25"),
        ]
    )
    put(12)

    assert deliver(rules, transport=both, window=4).sent == 10
    assert len(sound.messages) == 10
    assert reasons(session)[("queued", "the rate of smtp://b:25 10/min is used up", 0)] == 2
    assert deliver(rules, 12 * SECOND, transport=both, window=4).sent == 2


def test_one_letter_at_a_time_finds_the_server_that_answers(put, deliver, session: Session) -> None:
    rules = Rules(servers=rates.servers_in([("smtp://a:25", 3, "9/s"), ("smtp://b:25", 1, "")]))
    sound = Memory()
    both = Several(
        [Member(transport=Away(), name="smtp://a:25"), Member(transport=sound, name="smtp://b:25")]
    )
    put(3, lane=Lane.PROMPT)

    assert deliver(rules, transport=both, window=1).sent == 3


def test_an_alarm_that_no_server_takes_waits_a_minute_too(put, deliver, session: Session) -> None:
    rules = Rules(servers=rates.servers_in([("smtp://a:25", 1, "9/s")]))
    calls = []

    class Down(Away):
        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            calls.append(len(window))
            assert len(calls) < 9, "it is tried again and again"
            return super().send(window)

    put(1, letter="alarm", lane=Lane.PROMPT)

    deliver(rules, transport=Several([Member(transport=Down(), name="smtp://a:25")]))
    assert calls == [1]
    assert deliver(rules, 59 * SECOND) == Report()
    assert deliver(rules, MINUTE) == Report(sent=1)


def test_where_no_server_answers_letters_wait_a_minute_unburnt(put, deliver, session: Session) -> None:
    rules = Rules(servers=rates.servers_in([("smtp://a:25", 1, "9/s")]))
    away = Several([Member(transport=Away(), name="smtp://a:25")])
    put(3)

    deliver(rules, transport=away)
    assert reasons(session) == {("queued", "smtp://a:25 does not answer, or asked us to slow down", 0): 3}
    assert deliver(rules, 59 * SECOND) == Report()
    assert deliver(rules, 60 * SECOND) == Report(sent=3)


def test_a_refused_smarthost_pauses_all_workers_and_burns_no_attempt(put, deliver, session: Session) -> None:
    put(3)
    deliver(Rules(), transport=Away())
    put(2)

    assert deliver(Rules(), SECOND) == Report(deferred=2)
    assert {attempts for _, _, attempts in reasons(session)} == {0}
    assert deliver(Rules(), MINUTE) == Report(sent=5)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(warm_up=rates.warm_up_in("2026-11-20: 6, 20", "UTC")),
        Rules(rates=rates.parse("6/day")),
        Rules(rates=rates.parse("9/day, example.org 6/h")),
        Rules(rates=rates.parse("6/min"), warm_up=rates.warm_up_in("2026-11-20: 9", "UTC")),
        Rules(servers=rates.servers_in([("smtp://a:25", 1, "6/h")])),
    ],
)
def test_an_outage_uses_up_no_limit(put, deliver, session: Session, rules: Rules) -> None:
    away = Several([Member(transport=Away(), name="smtp://a:25")])
    put(8)
    for minute in range(5):
        deliver(rules, minute * MINUTE, transport=away, window=3)

    assert deliver(rules, 5 * MINUTE, window=3).sent == 6
    assert {attempts for state, _, attempts in reasons(session) if state == "queued"} == {0}


def test_in_a_crowd_with_servers_that_come_and_go_no_limit_is_exceeded_and_none_is_used_up_unsent(
    put, engine: Engine, site: Site, templates: Templates, now: datetime
) -> None:
    told = "60/day, example.org 50/h, 8 at once"
    rules = Rules(
        rates=rates.parse(told),
        at_once=rates.at_once_in(told),
        warm_up=rates.warm_up_in("2026-11-20: 55", "UTC"),
    )
    sound, chance = Memory(), Random(7)

    class Flaky(Memory):
        """Takes what it takes of a window, and hangs up."""

        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            taken = chance.choice([0, 1, 3, 5])
            yield from sound.send(window[:taken])
            yield from Away().send(window[taken:])

    def work(number: int) -> None:
        for minute in range(12):
            with db.writing(engine) as own:
                delivery.deliver(
                    own, site=site, templates=templates, transport=Flaky(), window=5, limit=20, limits=rules,
                    clock=lambda at=now + minute * MINUTE + number * SECOND / 10: at,
                )  # fmt: skip

    put(100)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    assert 40 <= len(sound.messages) <= 50


def test_a_day_on_which_no_server_answered_is_no_day_of_the_warm_up(put, deliver, session: Session) -> None:
    rules = Rules(warm_up=rates.warm_up_in("2026-11-20: 5, 20", "UTC"))
    put(12)
    deliver(rules, transport=Away())

    assert deliver(rules, 24 * HOUR).sent == 5


def test_an_alarm_has_paid_nothing_and_gets_nothing_back(put, deliver, session: Session) -> None:
    rules = Rules(rates=rates.parse("3/day"))
    put(2)
    deliver(rules)
    put(1, letter="alarm", lane=Lane.PROMPT)
    deliver(rules, transport=Away())
    put(4)

    assert deliver(rules, MINUTE).sent == 1 + 1


def test_what_a_server_hung_up_before_is_paid_for_once(put, deliver, session: Session) -> None:
    class Weary(Memory):
        """A server that hangs up after two letters."""

        def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
            yield from super().send(window[:2])
            for each in window[2:]:
                yield Outcome(delivery_id=each.delivery_id, verdict=Verdict.UNTRIED, phase="mail")

    put(9)

    assert deliver(Rules(rates=rates.parse("9/day")), transport=Weary(), window=5).sent == 9


# ── conversations ───────────────────────────────────────────────────────────────────────────────


def test_a_run_lets_go_of_a_domain_when_its_window_is_settled(put, deliver, session: Session) -> None:
    rules = Rules(at_once=rates.at_once_in("1 at once"))
    put(9)

    assert deliver(rules, window=3) == Report(sent=9)
    late = rates.held(session, rules, {1: "a@example.org"}, now=datetime(2026, 11, 20, 8, tzinfo=UTC),
                      is_urgent=False, lease="another").late  # fmt: skip
    assert not late


# ── a canary ────────────────────────────────────────────────────────────────────────────────────


def put_edition(session: Session, count: int, now: datetime, *, first: int = 0) -> None:
    """Put an edition of so many digests into the outbox."""
    for number in range(first, first + count):
        one = subscriptions.add(
            session, f"r{number}@example.org", schedule=Schedule(at=time(8)), state=SubscriberState.ACTIVE,
            consent="a test", now=now,
        )  # fmt: skip
        session.flush()
        outbox.put_digests(
            session,
            [{"subscriber_id": one.id, "edition": "daily-2026-11-20", "email": one.email, "dated_at": now,
              "due_at": now, "expires_at": now + 15 * HOUR, "decision": '{"sections": []}'}],
        )  # fmt: skip
    session.commit()


@pytest.fixture
def edition(session: Session, now: datetime) -> Callable[[int], None]:
    """An edition of so many digests, as the outbox knows them."""
    return lambda count: put_edition(session, count, now)


def taken_up(session: Session) -> tuple[int, int]:
    """How many digests had their turn, and how many wait for the first."""
    found = reasons(session)
    waiting = sum(n for (_, reason, _), n in found.items() if "go ahead" in reason)
    return sum(found.values()) - waiting, waiting


def test_a_share_of_an_edition_goes_ahead_and_the_rest_follows(edition, deliver, session: Session) -> None:
    rules = Rules(canary=rates.canary_in("20% for 30 min"))
    edition(100)

    deliver(rules)  # without a press they cannot be written: that they had their turn is what counts
    first, waiting = taken_up(session)
    assert 8 <= first <= 35
    assert waiting == 100 - first
    assert ("queued", "the first 20 % of daily-2026-11-20 go ahead, until 08:30 UTC", 0) in reasons(session)

    deliver(rules, 29 * MINUTE)
    assert taken_up(session) == (first, waiting)
    deliver(rules, 30 * MINUTE)
    assert taken_up(session) == (100, 0)


def test_a_small_edition_needs_no_canary(edition, deliver, session: Session) -> None:
    edition(20)

    deliver(Rules(canary=rates.canary_in("20% for 30 min")))

    assert taken_up(session) == (20, 0)


def test_an_edition_that_few_are_due_of_at_first_has_its_canary_when_many_are(
    deliver, session: Session, now: datetime
) -> None:
    rules = Rules(canary=rates.canary_in("20% for 30 min"))
    put_edition(session, 20, now)  # those whose morning comes first
    deliver(rules)
    assert taken_up(session) == (20, 0)

    put_edition(session, 100, now, first=20)
    deliver(rules, HOUR)
    first, _waiting = taken_up(session)
    assert 20 + 8 <= first <= 20 + 35
    deliver(rules, HOUR + 30 * MINUTE)
    assert taken_up(session) == (120, 0)


def test_a_canary_of_a_clock_far_ahead_holds_its_edition_no_longer_than_another(
    edition, deliver, session: Session
) -> None:
    rules = Rules(canary=rates.canary_in("20% for 30 min"))
    edition(100)
    rates.waiting_editions(session, rules, ["daily-2026-11-20"], due=100, least=10, now=A_YEAR_LATER)
    session.commit()

    deliver(rules)
    assert taken_up(session)[1] > 0
    deliver(rules, 31 * MINUTE)
    assert taken_up(session) == (100, 0)


# ── stops ───────────────────────────────────────────────────────────────────────────────────────


BRAKES = Rules(brakes=rates.brakes_in("deferred 50%, policy 20%"))


def refusing(count: int, code: int, reply: str) -> Memory:
    verdict = Verdict.DEFERRED if code < 500 else Verdict.REFUSED
    answer = Outcome(delivery_id=0, verdict=verdict, phase="rcpt", code=code, reply=reply)
    return Memory({f"r{number}@example.org": answer for number in range(count)})


def test_a_surge_of_4xx_stops_the_rest_until_the_operator_says_so(
    put, deliver, session: Session, now: datetime
) -> None:
    put(60)

    first = deliver(BRAKES, transport=refusing(60, 451, "4.3.0 try later"), window=20)

    assert first.deferred >= 20
    stop = "stopped: 20 of 20 letters were put off by the mail server (the limit is 50 %)"
    assert reasons(session)[("queued", stop, 0)] == 40
    told = {each.cause: each.wrong for each in watching.troubles(session, now=now)}
    assert told["stop-1"] == "Digests are stopped"
    put(1, lane=Lane.PROMPT)
    assert deliver(BRAKES, 2 * MINUTE) == Report(sent=1)

    rates.resume(session, now=now + 3 * MINUTE)
    assert outbox.hasten(session, reason=rates.STOPPED, now=now + 3 * MINUTE) == 40
    session.commit()
    assert deliver(BRAKES, 3 * MINUTE).sent == 40


def test_a_surge_of_policy_refusals_stops_what_people_wait_for_and_spares_the_alarm(
    put, deliver, session: Session
) -> None:
    put(10)
    deliver(BRAKES, transport=refusing(10, 550, "5.7.26 unauthenticated mail"))
    put(1, lane=Lane.PROMPT)
    put(1, lane=Lane.PROMPT, letter="alarm")

    deliver(BRAKES, MINUTE)

    found = reasons(session)
    (stopped,) = [reason for state, reason, _ in found if state == "queued"]
    assert stopped.startswith("stopped: 10 of 10 letters were refused because of how we send")
    assert found[("sent", "", 1)] == 1
    assert sum(number for (state, _, _), number in found.items() if state == "queued") == 1


def test_without_limits_a_window_asks_the_database_no_more_than_before(
    put, deliver, session: Session
) -> None:
    """The one look at pauses and stops is all there is."""
    from sqlalchemy import event

    put(5)
    told: list[str] = []
    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", lambda *given: told.append(given[2]))

    assert deliver(Rules()) == Report(sent=5)

    assert len([one for one in told if "pace" in one or "stop" in one]) == 1


def test_workers_that_are_asked_to_slow_down_by_the_same_domains_do_not_wait_for_each_other(
    engine: Engine, now: datetime
) -> None:
    """Each hears of them in an order of its own; a deadlock would leave a whole window in doubt."""
    domains = [f"d{number}.example" for number in range(20)]
    together = Barrier(2)

    def work(order: list[str]) -> None:
        for turn in range(3):
            together.wait(timeout=60)
            with db.writing(engine) as own:
                gate = Gate(session=own, rules=Rules())
                gate.domains = {domain: f"a@{domain}" for domain in order}
                gate.leave({}, [], lease="", now=now + turn * 3 * HOUR)
                own.commit()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [domains, domains[::-1]]))

    with db.writing(engine) as own:
        assert len(rates.standing(own, now=now + 6 * HOUR)) == 20
