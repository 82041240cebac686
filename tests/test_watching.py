"""Watching over the house: what is wrong is told once a day, and no figure names anybody."""

from __future__ import annotations

from datetime import datetime, timedelta
from secrets import token_hex

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest import bounces, outbox, watching
from digest.bounces import Failure, Kind
from digest.links import Site
from digest.model import Delivery, DeliveryState

ADA = "ada@uni.example"


def causes(session: Session, now: datetime) -> list[str]:
    return [trouble.cause for trouble in watching.troubles(session, now=now)]


def put(session: Session, site: Site, now: datetime, key: str = "one") -> int:
    number = outbox.put_letter(
        session, letter="settings", subscriber_id=None, email=ADA, decision={}, dedupe_key=key, site=site, now=now
    )  # fmt: skip
    assert number
    return number


def test_a_house_that_is_well_has_no_troubles(session: Session, site: Site, now: datetime) -> None:
    for role in ("scheduler", "worker", "inbound"):
        watching.beat(session, role, now - timedelta(minutes=1))
    put(session, site, now)

    assert causes(session, now) == []


def test_a_house_run_by_cron_misses_nobody(session: Session, now: datetime) -> None:
    assert causes(session, now) == []


@pytest.mark.parametrize("role", ["scheduler", "worker", "inbound"])
def test_a_role_that_stopped_is_missed(session: Session, now: datetime, role: str) -> None:
    for each in ("scheduler", "worker", "inbound"):
        watching.beat(session, each, now - timedelta(minutes=10 if each == role else 1))

    assert causes(session, now) == [f"silent-{role}"]


def test_a_clock_without_any_worker_is_noticed(session: Session, now: datetime) -> None:
    watching.beat(session, "scheduler", now)

    assert causes(session, now) == ["silent-worker"]


def test_a_door_that_was_closed_for_good_is_forgotten(session: Session, now: datetime) -> None:
    for role in ("scheduler", "worker"):
        watching.beat(session, role, now)
    watching.beat(session, "inbound", now - timedelta(days=8))

    assert causes(session, now) == []


def test_letters_that_do_not_move_are_noticed(session: Session, site: Site, now: datetime) -> None:
    put(session, site, now - timedelta(minutes=40))

    assert causes(session, now) == ["late-prompt"]


def test_a_mail_server_that_answers_and_takes_nothing_is_noticed(
    session: Session, site: Site, now: datetime
) -> None:
    def tried(*verdicts: str) -> list[str]:
        for verdict in verdicts:
            keep_try(session, put(session, site, now, token_hex(8)), verdict, now)
        return causes(session, now)

    assert tried("deferred", "refused", "deferred", "deferred", "in doubt", "deferred") == []
    assert tried("deferred", "deferred") == ["mail-takes-nothing"]
    assert tried("accepted") == []
    assert tried(*["deferred"] * 5) == ["mail-takes-nothing"]
    assert causes(session, now + timedelta(hours=3)) == ["late-prompt"]


def test_a_few_full_mailboxes_are_no_broken_mail_server(session: Session, site: Site, now: datetime) -> None:
    full = [put(session, site, now, f"full {place}") for place in range(6)]
    for number in full:
        keep_try(session, number, "deferred", now)
    assert causes(session, now) == ["mail-takes-nothing"]  # nobody can know yet

    keep_try(session, put(session, site, now), "accepted", now)
    for hour in range(1, 4):
        for number in full:
            keep_try(session, number, "deferred", now)
        assert [cause for cause in causes(session, now) if cause != "late-prompt"] == [], hour


def keep_try(session: Session, number: int, verdict: str, now: datetime) -> None:
    tried = outbox.Tried(number, now, verdict, "rcpt", 451, "4.3.0 not now")
    outbox.keep_attempts(session, [tried], lease=token_hex(8), now=now)


def test_a_stuck_letter_is_named_by_its_id(session: Session, site: Site, now: datetime) -> None:
    number = put(session, site, now)
    session.execute(update(Delivery).values(state=DeliveryState.STUCK, settled_at=now))

    (trouble,) = watching.troubles(session, now=now)
    assert (trouble.cause, trouble.facts) == ("stuck", (f"digest trace {number}",))


def test_mail_refused_for_our_own_sake_is_told_in_the_servers_words(
    session: Session, site: Site, now: datetime
) -> None:
    refusal = bounces.refused(550, "5.7.26 mail from ada@uni.example is unauthenticated", phase="dot")
    bounces.record(session, site, ADA, refusal, now=now)

    (trouble,) = watching.troubles(session, now=now)
    assert trouble.cause == "policy"
    assert trouble.facts == ("uni.example: 550 5.7.26 mail from … is unauthenticated (1)",)
    assert causes(session, now + timedelta(days=2)) == []


def test_a_broken_domain_is_told_with_both_ways_out(session: Session, site: Site, now: datetime) -> None:
    for number in range(10):
        hard = Failure(kind=Kind.HARD, status="5.1.1")
        bounces.record(session, site, f"r{number}@uni.example", hard, now=now)

    (trouble,) = watching.troubles(session, now=now)
    assert "digest bounces forgive --domain uni.example" in trouble.mend
    assert "digest bounces accept --domain uni.example" in trouble.mend


def test_a_trouble_is_written_about_once_a_day(session: Session, site: Site, now: datetime) -> None:
    watching.beat(session, "scheduler", now)
    found = watching.troubles(session, now=now)

    def told(moment: datetime) -> int:
        return watching.write_to_operator(session, found, site=site, operator="op@example.org", now=moment)

    assert [told(now), told(now + timedelta(minutes=1)), told(now + timedelta(days=1))] == [1, 0, 1]
    letters = session.execute(select(Delivery.letter, Delivery.email).distinct()).all()
    assert [tuple(row) for row in letters] == [("alarm", "op@example.org")]


def test_midnight_makes_no_trouble_new(session: Session, site: Site, now: datetime) -> None:
    watching.beat(session, "scheduler", now)
    found = watching.troubles(session, now=now)
    evening = now.replace(hour=23, minute=59)

    def told(minutes: int) -> int:
        moment = evening + timedelta(minutes=minutes)
        return watching.write_to_operator(session, found, site=site, operator="op@example.org", now=moment)

    assert [told(minutes) for minutes in (0, 1, 2, 600, 1439, 1440, 1441)] == [1, 0, 0, 0, 0, 1, 0]


def test_a_day_on_which_everything_breaks_is_a_handful_of_letters(
    session: Session, site: Site, now: datetime
) -> None:
    for domain in range(30):
        for number in range(10):
            hard = Failure(kind=Kind.HARD, status="5.1.1")
            bounces.record(session, site, f"r{number}@d{domain}.example", hard, now=now)
    watching.beat(session, "scheduler", now - timedelta(hours=1))

    written = 0
    for minute in range(60):
        moment = now + timedelta(minutes=minute)
        found = watching.troubles(session, now=moment)
        written += watching.write_to_operator(
            session, found, site=site, operator="op@example.org", now=moment
        )

    assert written == 4  # no worker, no scheduler, the domains in one, and soon that no letter moves
    assert "Addresses of 30 domains failed within a day" in [trouble.wrong for trouble in found]


def test_without_an_operator_nobody_is_written_to(session: Session, site: Site, now: datetime) -> None:
    watching.beat(session, "scheduler", now)
    found = watching.troubles(session, now=now)

    assert watching.write_to_operator(session, found, site=site, operator="", now=now) == 0


def test_figures_name_every_state_and_nobody(session: Session, site: Site, now: datetime) -> None:
    put(session, site, now - timedelta(hours=1))
    watching.beat(session, "worker", now)

    figures = watching.figures(session, now=now)

    assert set(figures.deliveries) == set(DeliveryState)
    assert (figures.deliveries["queued"], figures.deliveries["sent"]) == (1, 0)
    assert (figures.waiting, figures.subscribers["active"]) == ({"prompt": 1, "bulk": 0}, 0)
    assert figures.waiting_since == {"prompt": now - timedelta(hours=1)}
    assert set(figures.bounces) == {"hard", "soft", "policy", "complaint"}
    assert "ada" not in repr(figures)
