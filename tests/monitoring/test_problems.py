"""Each problem is reported to the operator once a day, and figures contain no addresses."""

from __future__ import annotations

from datetime import datetime, timedelta
from secrets import token_hex

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest.bounces import bounce_score, report_parser
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.delivery.outbox import attempts, enqueue
from digest.delivery.outbox.attempts import AttemptRecord
from digest.monitoring import figures, operator_letters, problems
from digest.process import heartbeats
from digest.site.site_profile import Site
from tests.support.plain_letters import plain_letter

ADA = "ada@uni.example"


def causes(session: Session, now: datetime) -> list[str]:
    return [problem.cause for problem in problems.find_problems(session, now=now)]


def put(session: Session, site: Site, now: datetime, key: str = "one") -> int:
    number = enqueue.queue_letter(
        session, letter=plain_letter("settings", key), subscriber_id=None, email=ADA, site=site, now=now
    )  # fmt: skip
    assert number
    return number


def test_healthy_service_has_no_problems(session: Session, site: Site, now: datetime) -> None:
    for role in ("scheduler", "worker", "inbound"):
        heartbeats.record_heartbeat(session, role, now - timedelta(minutes=1))
    put(session, site, now)

    assert causes(session, now) == []


def test_a_service_run_by_cron_reports_no_missing_process(session: Session, now: datetime) -> None:
    assert causes(session, now) == []


@pytest.mark.parametrize("role", ["scheduler", "worker", "inbound"])
def test_stopped_role_is_reported(session: Session, now: datetime, role: str) -> None:
    for each in ("scheduler", "worker", "inbound"):
        heartbeats.record_heartbeat(session, each, now - timedelta(minutes=10 if each == role else 1))

    assert causes(session, now) == [f"silent-{role}"]


def test_scheduler_without_a_worker_is_reported(session: Session, now: datetime) -> None:
    heartbeats.record_heartbeat(session, "scheduler", now)

    assert causes(session, now) == ["silent-worker"]


def test_optional_role_stopped_a_week_ago_is_not_reported(session: Session, now: datetime) -> None:
    for role in ("scheduler", "worker"):
        heartbeats.record_heartbeat(session, role, now)
    heartbeats.record_heartbeat(session, "inbound", now - timedelta(days=8))

    assert causes(session, now) == []


def test_overdue_letters_are_reported(session: Session, site: Site, now: datetime) -> None:
    put(session, site, now - timedelta(minutes=40))

    assert causes(session, now) == ["late-prompt"]


def test_mail_server_that_defers_everything_is_reported(session: Session, site: Site, now: datetime) -> None:
    def causes_after(*verdicts: str) -> list[str]:
        for verdict in verdicts:
            record_attempt(session, put(session, site, now, token_hex(8)), verdict, now)
        return causes(session, now)

    assert causes_after("deferred", "refused", "deferred", "deferred", "in doubt", "deferred") == []
    assert causes_after("deferred", "deferred") == ["mail-not-accepted"]
    assert causes_after("accepted") == []
    assert causes_after(*["deferred"] * 5) == ["mail-not-accepted"]
    assert causes(session, now + timedelta(hours=3)) == ["late-prompt"]


def test_a_few_deferred_letters_are_no_broken_server_once_another_is_accepted(
    session: Session, site: Site, now: datetime
) -> None:
    full = [put(session, site, now, f"full {place}") for place in range(6)]
    for number in full:
        record_attempt(session, number, "deferred", now)
    assert causes(session, now) == ["mail-not-accepted"]  # no other letter was tried yet

    record_attempt(session, put(session, site, now), "accepted", now)
    for hour in range(1, 4):
        for number in full:
            record_attempt(session, number, "deferred", now)
        assert [cause for cause in causes(session, now) if cause != "late-prompt"] == [], hour


@pytest.mark.parametrize(
    ("phase", "code", "reply", "is_reported"),
    [
        pytest.param("rcpt", 451, "4.7.1 greylisted, try again later", False, id="greylisting"),
        pytest.param("rcpt", 452, "4.2.2 mailbox full", False, id="mailbox full"),
        pytest.param("rcpt", 451, "4.3.2 system not accepting mail", True, id="mail system"),
        pytest.param("rcpt", 421, "4.7.0 closing the connection", True, id="connection closed"),
        pytest.param("mail", 451, "4.7.1 try again later", True, id="not about a recipient"),
    ],
)
def test_letters_deferred_for_their_recipients_do_not_mean_a_broken_server(
    session: Session, site: Site, now: datetime, phase: str, code: int, reply: str, is_reported: bool
) -> None:
    letters = [put(session, site, now, token_hex(8)) for _ in range(5)]

    def causes_after_attempt() -> list[str]:
        for number in letters:
            record_attempt(session, number, "deferred", now, phase=phase, code=code, reply=reply)
        return causes(session, now)

    expected = ["mail-not-accepted"] if is_reported else []
    assert [causes_after_attempt() for _ in range(2)] == [expected, expected]
    assert causes_after_attempt() == ["mail-not-accepted"]  # greylisting accepts the third attempt


def record_attempt(
    session: Session,
    number: int,
    verdict: str,
    now: datetime,
    *,
    phase: str = "rcpt",
    code: int = 451,
    reply: str = "4.3.0 not now",
) -> None:
    attempt = AttemptRecord(number, now, verdict, phase, code, reply)
    attempts.record_attempts(session, [attempt], lease=token_hex(8), now=now)


def test_stuck_letter_is_named_by_its_id(session: Session, site: Site, now: datetime) -> None:
    number = put(session, site, now)
    session.execute(update(Delivery).values(state=DeliveryState.STUCK, settled_at=now))

    (problem,) = problems.find_problems(session, now=now)
    assert (problem.cause, problem.facts) == ("stuck", (f"digest deliveries show {number}",))


def test_policy_refusal_is_reported_with_the_servers_reply(
    session: Session, site: Site, now: datetime
) -> None:
    refusal = report_parser.failure_of_reply(
        550, "5.7.26 mail from ada@uni.example is unauthenticated", phase="dot"
    )
    bounce_score.record_failure(session, site, ADA, refusal, now=now)

    (problem,) = problems.find_problems(session, now=now)
    assert problem.cause == "policy"
    assert problem.facts == ("uni.example: 550 5.7.26 mail from … is unauthenticated (1)",)
    assert causes(session, now + timedelta(days=2)) == []


def test_operator_is_warned_of_complaints_before_mail_is_stopped(
    session: Session, site: Site, now: datetime
) -> None:
    for number in range(1, 1_001):
        session.add(
            Delivery(
                id=number, edition=f"daily-{number}", letter="digest", lane="bulk",
                email=f"{number}@example.org", dated_at=now, due_at=now, expires_at=now, settled_at=now, state="sent",
            )
        )  # fmt: skip
    tried = [AttemptRecord(number, now, "accepted") for number in range(1, 1_001)]
    attempts.record_attempts(session, tried, lease="x", now=now)
    for number in (1, 2):
        complaint = Complaint()
        bounce_score.record_failure(
            session, site, f"{number}@example.org", complaint, now=now, delivery_id=number
        )

    (problem,) = problems.find_problems(session, now=now)
    assert problem.message == "Too many readers report our mail as spam"
    assert problem.facts == ("2 of 1,000 digests were reported as spam (the limit is 0.1%)",)


def test_broken_domain_is_reported_with_both_fixes(session: Session, site: Site, now: datetime) -> None:
    for number in range(10):
        hard = Failure(kind=FailureKind.HARD, status="5.1.1")
        bounce_score.record_failure(session, site, f"r{number}@uni.example", hard, now=now)

    (problem,) = problems.find_problems(session, now=now)
    assert "digest bounces forgive --domain uni.example" in problem.fix
    assert "digest bounces accept --domain uni.example" in problem.fix


def test_problem_gets_one_letter_a_day(session: Session, site: Site, now: datetime) -> None:
    heartbeats.record_heartbeat(session, "scheduler", now)
    found = problems.find_problems(session, now=now)

    def queued_at(moment: datetime) -> int:
        return operator_letters.queue_alarm_letters(
            session, found, site=site, operator="op@example.org", now=moment
        )

    moments = [now, now + timedelta(minutes=1), now + timedelta(days=1)]
    assert [queued_at(moment) for moment in moments] == [1, 0, 1]
    letters = session.execute(select(Delivery.letter, Delivery.email).distinct()).all()
    assert [tuple(row) for row in letters] == [("alarm", "op@example.org")]


def test_problem_that_lasts_over_midnight_gets_no_second_letter(
    session: Session, site: Site, now: datetime
) -> None:
    heartbeats.record_heartbeat(session, "scheduler", now)
    found = problems.find_problems(session, now=now)
    evening = now.replace(hour=23, minute=59)

    def queued_after(minutes: int) -> int:
        moment = evening + timedelta(minutes=minutes)
        return operator_letters.queue_alarm_letters(
            session, found, site=site, operator="op@example.org", now=moment
        )

    assert [queued_after(minutes) for minutes in (0, 1, 2, 600, 1439, 1440, 1441)] == [1, 0, 0, 0, 0, 1, 0]


def test_many_problems_in_one_hour_make_four_letters(session: Session, site: Site, now: datetime) -> None:
    for domain in range(30):
        for number in range(10):
            hard = Failure(kind=FailureKind.HARD, status="5.1.1")
            bounce_score.record_failure(session, site, f"r{number}@d{domain}.example", hard, now=now)
    heartbeats.record_heartbeat(session, "scheduler", now - timedelta(hours=1))

    queued, found = 0, []
    for minute in range(60):
        moment = now + timedelta(minutes=minute)
        found = problems.find_problems(session, now=moment)
        queued += operator_letters.queue_alarm_letters(
            session, found, site=site, operator="op@example.org", now=moment
        )

    assert queued == 4  # no worker, no scheduler, all domains in one, and overdue letters
    assert "Addresses of 30 domains failed within a day" in [problem.message for problem in found]


def test_without_an_operator_no_letter_is_queued(session: Session, site: Site, now: datetime) -> None:
    heartbeats.record_heartbeat(session, "scheduler", now)
    found = problems.find_problems(session, now=now)

    assert operator_letters.queue_alarm_letters(session, found, site=site, operator="", now=now) == 0


def test_figures_name_every_state_and_no_address(session: Session, site: Site, now: datetime) -> None:
    put(session, site, now - timedelta(hours=1))
    heartbeats.record_heartbeat(session, "worker", now)

    counted = figures.count_figures(session, now=now)

    assert set(counted.deliveries) == set(DeliveryState)
    assert (counted.deliveries["queued"], counted.deliveries["sent"]) == (1, 0)
    (work,) = counted.work
    assert (work.kind, work.count, work.since) == ("prompt", 1, now - timedelta(hours=1))
    assert counted.subscribers["active"] == 0
    assert set(counted.bounces) == {"hard", "soft", "policy", "complaint"}
    assert "ada" not in repr(counted)
