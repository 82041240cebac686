"""Claims about how fast mail goes: on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from digest import rates
from digest.errors import BadField

SECOND = timedelta(seconds=1)


def held(session: Session, told: str, emails: list[str], now: datetime, *, is_urgent: bool = False) -> dict:
    found = rates.held(session, rates.parse(told), dict(enumerate(emails)), now=now, is_urgent=is_urgent)
    session.commit()
    return found


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
    assert late[60][1] == "the rate of all/60 is used up"


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

    assert first == same == now + rates.FIRST_PAUSE
    assert {number: due_at for number, (due_at, _) in late.items()} == {0: first, 1: first}
    assert not held(session, "", readers(1, "busy.example"), first)
    assert rates.pause(session, "a@busy.example", now=first) == first + 2 * rates.FIRST_PAUSE
    assert rates.standing(session, now=first) == {"busy.example": first + 2 * rates.FIRST_PAUSE}


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
