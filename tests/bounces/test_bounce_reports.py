"""Read bounce reports, and suppress addresses that fail too often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from digest.bounces import bounce_score, broken_domains, report_parser, suppressions
from digest.bounces.bounce_score import FailureOutcome
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure, MailReport, NoActionNeeded
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.subscribers import Subscriber
from digest.delivery.outbox import enqueue
from digest.mail.mail_parsing import parse_message
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.support import sample_mails
from tests.support.plain_letters import plain_letter

ADA = "ada@uni.example"


def read_report(content: bytes) -> MailReport | None:
    return report_parser.read_report(parse_message(content))


DAY = timedelta(days=1)


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def test_machine_readable_report_is_read() -> None:
    report = read_report(sample_mails.dsn())

    assert report == Failure(
        kind=FailureKind.HARD,
        status="5.1.1",
        diagnostic="550 5.1.1 <…>: Recipient address rejected: User unknown",
        reported_by="dsn",
        recipients=(ADA,),
        failed_mailboxes=(ADA,),
    )


@pytest.mark.parametrize("missing", ["Final-Recipient: rfc822; ada@uni.example\r\n", "Action: failed\r\n"])
def test_a_report_without_its_recipient_or_its_action_is_read(missing: str) -> None:
    whole = sample_mails.dsn()
    assert missing.encode() in whole

    report = read_report(whole.replace(missing.encode(), b""))

    assert isinstance(report, Failure)
    assert (report.kind, report.status) == (FailureKind.HARD, "5.1.1")


def test_a_report_with_a_line_break_inside_a_field_is_read() -> None:
    """Python's parser ends the line there, and its generator refuses what it has parsed."""
    odd = sample_mails.dsn(action="failed\x0cX-Odd: field")

    report = read_report(odd)
    assert isinstance(report, Failure)
    assert (report.status, report.recipients) == ("5.1.1", (ADA,))


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_encoded_report_is_read(encoding: str) -> None:
    assert read_report(sample_mails.dsn(encoding=encoding)) == read_report(sample_mails.dsn())


@pytest.mark.parametrize("encoding", ["", "base64"])
def test_report_on_a_non_ascii_address_is_read(encoding: str) -> None:
    content = sample_mails.dsn(
        status="5.2.2",
        diagnostic="552 5.2.2 Postfach voll: größe",
        recipient="größe@uni.example",
        encoding=encoding,
    ).replace(b"message/delivery-status", b"message/global-delivery-status")

    report = read_report(content)

    assert isinstance(report, Failure)
    assert (report.kind, report.status, report.reported_by) == (FailureKind.SOFT, "5.2.2", "dsn")


def test_prose_of_an_older_server_is_read() -> None:
    report = read_report(sample_mails.QMAIL)

    assert isinstance(report, Failure)
    assert (report.kind, report.status, report.reported_by, report.recipients) == (
        FailureKind.HARD,
        "5.1.1",
        "words",
        (ADA,),
    )


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        ("5.1.1", "550 5.1.1 user unknown", FailureKind.HARD),
        ("5.1.2", "550 5.1.2 bad domain", FailureKind.HARD),
        ("5.1.10", "556 5.1.10 null MX", FailureKind.HARD),
        ("5.2.1", "550 5.2.1 The email account that you tried to reach is disabled", FailureKind.HARD),
        ("5.0.0", "550 No such user here", FailureKind.HARD),
        ("5.3.0", "553 5.3.0 ... Addressee unknown", FailureKind.HARD),
        ("", "550 Requested action not taken: mailbox unavailable", FailureKind.HARD),
        ("5.2.1", "550 5.2.1 The user is receiving mail too quickly right now", FailureKind.SOFT),
        ("5.2.2", "552 5.2.2 mailbox full", FailureKind.SOFT),
        ("5.0.0", "552 Quota exceeded", FailureKind.SOFT),
        ("4.4.7", "delivery time expired", FailureKind.SOFT),
        ("4.2.2", "452 4.2.2 over quota", FailureKind.SOFT),
        ("4.7.26", "421 4.7.26 this mail is unauthenticated", FailureKind.POLICY),
        ("4.4.7", "451 4.7.0 too many messages from your address", FailureKind.POLICY),
        ("", "451 4.7.1 greylisted, and given up", FailureKind.POLICY),
        ("5.3.4", "552 5.3.4 message too big", FailureKind.SOFT),
        ("5.7.1", "550 5.7.1 likely unsolicited mail", FailureKind.POLICY),
        ("5.7.26", "550 5.7.26 this mail is unauthenticated", FailureKind.POLICY),
        ("5.7.515", "550 5.7.515 Access denied, sending domain does not meet the level", FailureKind.POLICY),
        ("5.0.0", "550 5.7.26 this mail is unauthenticated", FailureKind.POLICY),
        ("5.1.8", "501 5.1.8 sender domain does not exist", FailureKind.POLICY),
        ("5.6.0", "554 5.6.0 content refused", FailureKind.POLICY),
        ("", "554 Your IP is on a blocklist", FailureKind.POLICY),
    ],
)
def test_failure_kind_is_read_from_status_and_text(status: str, said: str, kind: FailureKind) -> None:
    report = read_report(sample_mails.dsn(status=status, diagnostic=said))

    assert isinstance(report, Failure)
    assert report.kind is kind


@pytest.mark.parametrize("phase", ["connect", "mail", "data", "dot"])
def test_refusal_before_the_recipient_is_about_us(phase: str) -> None:
    assert report_parser.failure_of_reply(554, "transaction failed", phase=phase).kind is FailureKind.POLICY
    assert (
        report_parser.failure_of_reply(550, "5.1.1 user unknown", phase="dot").kind is FailureKind.HARD
    )  # LMTP replies there


@pytest.mark.parametrize("action", ["delayed", "delivered", "relayed", "expanded"])
def test_report_without_a_failure_needs_no_action(action: str) -> None:
    report = read_report(sample_mails.dsn(action=action, status="4.4.1"))

    assert isinstance(report, NoActionNeeded)


def test_out_of_office_reply_is_no_bounce() -> None:
    assert read_report(sample_mails.ON_LEAVE) == NoActionNeeded(reason="an automatic reply")


def test_complaint_is_read_and_not_spam_is_none() -> None:
    assert isinstance(read_report(sample_mails.complaint()), Complaint)
    assert isinstance(read_report(sample_mails.complaint(kind="not-spam")), NoActionNeeded)


@pytest.mark.parametrize("kind", ["auth-failure", "virus", "DMARC"])
def test_report_that_our_mail_failed_a_check_is_no_readers_complaint(kind: str) -> None:
    report = read_report(sample_mails.complaint(kind=kind))

    assert isinstance(report, Failure)
    assert report.kind is FailureKind.POLICY


def test_diagnostic_is_printable_and_storable() -> None:
    report = read_report(
        sample_mails.dsn(
            diagnostic="550 5.1.1 nobody\0 here\x1b[31m, \N{RIGHT-TO-LEFT OVERRIDE}ada@uni.example"
        )
    )

    assert isinstance(report, Failure)
    assert report.diagnostic == "550 5.1.1 nobody here [31m, …"
    assert report_parser.failure_of_reply(550, "no\0body", phase="rcpt").diagnostic == "550 no body"


def test_result_of_a_report_is_reported_in_our_words_only() -> None:
    report = sample_mails.dsn(action="ada@uni.example", status="2.0.0")

    assert read_report(report) == NoActionNeeded(reason="a report of no failure")


def test_report_that_names_no_address_is_read_without_a_recipient() -> None:
    report = read_report(sample_mails.dsn(recipient="unknown"))

    assert isinstance(report, Failure)
    assert (report.kind, report.recipients) == (FailureKind.HARD, ())


def test_report_in_a_header_of_a_mail_without_text_is_read() -> None:
    content = f"X-Failed-Recipients: {ADA}\r\nContent-Type: image/png\r\n\r\n".encode()

    report = read_report(content)

    assert report == Failure(
        kind=FailureKind.HARD, reported_by="words", recipients=(ADA,), failed_mailboxes=(ADA,)
    )


def test_persons_mail_is_no_bounce() -> None:
    assert read_report(sample_mails.A_LETTER) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff\xfe",
        b"Content-Type: multipart/report; boundary=x\r\n\r\n--x\r\n\r\n--x--\r\n",
        b"Content-Type: message/delivery-status\r\n\r\n",
        b"Content-Type: message/feedback-report\r\n\r\nFeedback-Type: not-spam",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n" * 2000,
    ],
)
def test_reading_any_mail_does_not_fail(content: bytes) -> None:
    assert not isinstance(read_report(content), Failure)


# ── bounce addresses ─────────────────────────────────────────────────────────────


def test_bounce_address_names_its_delivery_and_survives_lower_case(site: Site) -> None:
    site = replace(site, inbound_domain="bounce.example.org")
    address = links.bounce_address(site, 123)

    assert address.startswith("bounce+123.")
    assert address.endswith("@bounce.example.org")
    assert len(address.partition("@")[0]) <= 64
    assert links.verify_address(site, "bounce", address.upper()) == "123"
    assert links.verify_address(replace(site, keys=(b"a new key", *site.keys)), "bounce", address) == "123"


def test_invented_bounce_address_names_nothing(site: Site) -> None:
    site = replace(site, inbound_domain="bounce.example.org")
    made = links.bounce_address(site, 123)

    assert links.verify_address(site, "bounce", made.replace("123", "124")) is None
    assert links.verify_address(site, "unsubscribe", made.replace("bounce+", "unsubscribe+")) is None
    assert links.verify_address(replace(site, keys=(b"another",)), "bounce", made) is None
    for invented in ("bounce+123@example.org", "bounce+.@x", "bounce+1.é@x", "@", "", "bounce+1.2.3@x"):
        assert links.verify_address(site, "bounce", invented) is None


# ── scores ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fail(session: Session, site: Site, now: datetime) -> Callable[..., FailureOutcome]:
    """Record a failure of an address, `day` days later."""

    def failed(
        kind: FailureKind = FailureKind.HARD,
        *,
        day: float = 0,
        email: str = ADA,
        reported_by: str = "dsn",
        **details: Any,
    ) -> FailureOutcome:
        report = Failure(
            kind=kind, status=details.pop("status", "5.1.1"), diagnostic="no", reported_by=reported_by
        )
        return bounce_score.record_failure(session, site, email, report, now=now + day * DAY, **details)

    return failed


@pytest.fixture
def letters(session: Session, site: Site, now: datetime) -> Callable[[int], list[int | None]]:
    """Letters in the outbox."""
    return lambda count: [
        enqueue.queue_letter(session, letter=plain_letter("help", f"letter-{number}"), subscriber_id=None, email=ADA,
                          site=site, now=now)
        for number in range(count)
    ]  # fmt: skip


def test_five_days_of_hard_failures_suppress(fail, session: Session, site: Site) -> None:
    assert [fail(day=day).score for day in range(4)] == [1, 2, 3, 4]
    assert not suppressions.is_suppressed(session, site, ADA)

    assert fail(day=4).is_suppressed
    assert suppressions.is_suppressed(session, site, ADA)
    assert [line.reason for line in suppressions.list_suppressions(session)] == [SuppressionReason.BOUNCE]


def test_many_failures_of_one_day_count_once(fail) -> None:
    assert [fail(day=part / 100).score for part in range(20)] == [1.0] * 20


def test_repeated_reports_of_one_letter_count_once(fail, letters) -> None:
    one, other = letters(2)

    assert [fail(day=day, delivery_id=one).score for day in range(6)] == [1.0] * 6
    assert fail(FailureKind.SOFT, day=6, delivery_id=other).score == 1.5
    assert fail(day=6.1, delivery_id=other).score == 2


def test_soft_failures_count_half(fail) -> None:
    assert [fail(FailureKind.SOFT, status="4.4.1", day=day).score for day in (0, 1, 2)] == [0.5, 1.0, 1.5]


def test_a_mailbox_that_is_full_for_ten_days_is_tried_again_after_four_weeks(
    fail, session: Session, site: Site, now: datetime
) -> None:
    assert not any(fail(FailureKind.SOFT, status="5.2.2", day=day).is_suppressed for day in range(9))
    assert fail(FailureKind.SOFT, status="5.2.2", day=9).is_suppressed
    assert [line.reason for line in suppressions.list_suppressions(session)] == [SuppressionReason.FULL]

    suppressed_at = now + timedelta(days=9)
    assert suppressions.end_temporary_suppressions(session, now=suppressed_at + timedelta(days=27)) == 0
    assert suppressions.end_temporary_suppressions(session, now=suppressed_at + timedelta(days=28)) == 1
    assert not suppressions.is_suppressed(session, site, ADA)
    assert fail(FailureKind.SOFT, status="5.2.2", day=38).score == 0.5


def test_an_unknown_recipient_is_not_tried_again(fail, session: Session, now: datetime) -> None:
    for day in range(10):
        fail(FailureKind.HARD if day == 3 else FailureKind.SOFT, day=day)

    assert [line.reason for line in suppressions.list_suppressions(session)] == [SuppressionReason.BOUNCE]
    assert suppressions.end_temporary_suppressions(session, now=now + timedelta(days=365)) == 0


def test_week_without_failures_resets_the_score(fail) -> None:
    assert [fail(day=day).score for day in (0, 1, 2, 10, 11)] == [1, 2, 3, 1, 2]


def test_weekly_subscribers_score_lasts_longer_than_a_week(fail) -> None:
    scores = [fail(day=7.1 * week, cadence="weekly").score for week in range(4)]

    assert scores == [1, 2, 3, 4]


def test_policy_failures_never_count(fail, session: Session, site: Site) -> None:
    counted = [fail(FailureKind.POLICY, status="5.7.26", day=day) for day in range(30)]

    assert {one.score for one in counted} == {0.0}
    assert not suppressions.is_suppressed(session, site, ADA)


def test_unknown_recipient_reply_on_two_days_suppresses(fail) -> None:
    assert not fail(reported_by="smtp").is_suppressed
    assert not fail(reported_by="smtp", day=0.1).is_suppressed
    assert fail(reported_by="smtp", day=30).is_suppressed


def test_complaint_suppresses_at_once(session: Session, site: Site, now: datetime) -> None:
    counted = bounce_score.record_failure(session, site, ADA, Complaint(diagnostic="abuse"), now=now)

    assert counted.is_suppressed
    assert [line.reason for line in suppressions.list_suppressions(session)] == [SuppressionReason.COMPLAINT]


def test_stored_failures_hold_no_address(fail, session: Session) -> None:
    fail()

    stored = str(session.execute(text("SELECT * FROM bounce")).all())
    assert "ada" not in stored
    assert "uni.example" in stored


# ── domains ─────────────────────────────────────────────────────────────────────────────────────


def test_mass_failure_in_one_domain_counts_against_nobody(
    fail, session: Session, site: Site, now: datetime
) -> None:
    for day in range(-4, 0):
        fail(day=day, email="r0@uni.example")
    assert fail(day=-0.2, email="r0@uni.example").is_suppressed
    later = [fail(email=f"r{number}@uni.example") for number in range(1, 15)]

    assert [one.is_frozen for one in later[:8]] == [False] * 8
    assert all(one.is_frozen for one in later[9:])
    assert broken_domains.frozen_domains(session, since=now - DAY) == {"uni.example": 15}
    assert suppressions.list_suppressions(session) == []
    assert not fail(email="ada@elsewhere.example").is_frozen


def test_few_dead_addresses_among_many_readers_are_no_broken_domain(
    fail, session: Session, now: datetime
) -> None:
    for number in range(100):
        subscriber_rows.add(session, f"r{number}@uni.example", now=now)

    assert not any(fail(email=f"r{number}@uni.example").is_frozen for number in range(19))
    assert fail(email="r19@uni.example").is_frozen


def test_large_domain_is_not_counted_whole(fail, session: Session, now: datetime) -> None:
    def steps_of_a_failure(number: int) -> int:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        raw = session.connection().connection.driver_connection
        raw.set_progress_handler(step, 100)  # type: ignore[union-attr]
        fail(email=f"r{number}@gmail.com")
        raw.set_progress_handler(None, 0)  # type: ignore[union-attr]
        return steps

    if session.get_bind().dialect.name != "sqlite":
        pytest.skip("only SQLite counts its steps")
    emails = [f"r{number}@gmail.com" for number in range(10_000)]
    session.execute(
        insert(Subscriber),
        [{"email": email, "email_key": email, "state": "active", "created_at": now} for email in emails],
    )
    few = max(steps_of_a_failure(number) for number in range(8))

    assert max(steps_of_a_failure(number) for number in range(8, 30)) < few + 100


def test_operator_forgives_a_domain(fail, session: Session, site: Site, now: datetime) -> None:
    for day in range(5):
        fail(day=day)
        fail(day=day, email="bo@elsewhere.example")
    later = now + 5 * DAY

    assert broken_domains.forgive_domain(session, domain="UNI.example", since=now - DAY, now=later) == (5, 1)

    assert not suppressions.is_suppressed(session, site, ADA)
    assert suppressions.is_suppressed(session, site, "bo@elsewhere.example")
    assert fail(day=6).score == 1


def test_forgiving_bounces_lifts_no_complaint(fail, session: Session, site: Site, now: datetime) -> None:
    bounce_score.record_failure(session, site, ADA, Complaint(), now=now)

    assert broken_domains.forgive_domain(session, domain="uni.example", since=now, now=now)[1] == 0
    assert suppressions.is_suppressed(session, site, ADA)


def test_operator_accepts_failures_of_a_domain(fail, session: Session, site: Site, now: datetime) -> None:
    for number in range(12):
        fail(email=f"r{number}@uni.example")
    assert not suppressions.is_suppressed(session, site, "r3@uni.example")

    assert broken_domains.accept_failures(session, domain="uni.example", since=now - DAY, now=now) == 12
    assert suppressions.is_suppressed(session, site, "r3@uni.example")
    assert broken_domains.accept_failures(session, domain="uni.example", since=now - DAY, now=now) == 0


def test_accepted_failures_stay_accepted_when_one_more_fails(
    fail, session: Session, site: Site, now: datetime
) -> None:
    for number in range(12):
        fail(email=f"r{number}@uni.example")
    broken_domains.accept_failures(session, domain="uni.example", since=now - DAY, now=now)
    assert broken_domains.frozen_domains(session, since=now - DAY) == {}

    assert not fail(email="r12@uni.example", day=0.1).is_frozen
    fail(email="r3@uni.example", day=0.1)  # reported late
    assert suppressions.is_suppressed(session, site, "r3@uni.example")

    assert broken_domains.forgive_domain(session, domain="uni.example", since=now - DAY, now=now)[1] == 12
