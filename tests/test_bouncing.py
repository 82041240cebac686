"""Bounces: what a mail that came back says, and when an address has failed once too often."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from digest import bounces, links, outbox, subscriptions
from digest.bounces import Complaint, Counted, Failure, Kind, Nothing, Reason
from digest.links import Site
from digest.model import Subscriber
from tests import mails

ADA = "ada@uni.example"
DAY = timedelta(days=1)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def test_a_report_made_for_machines_is_read() -> None:
    told = bounces.read(mails.dsn())

    assert told == Failure(
        kind=Kind.HARD,
        status="5.1.1",
        said="550 5.1.1 <…>: Recipient address rejected: User unknown",
        told_by="dsn",
        recipients=(ADA,),
    )


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_a_report_that_was_encoded_to_travel_is_read(encoding: str) -> None:
    assert bounces.read(mails.dsn(encoding=encoding)) == bounces.read(mails.dsn())


@pytest.mark.parametrize("encoding", ["", "base64"])
def test_a_report_on_an_address_outside_ascii_is_read(encoding: str) -> None:
    report = mails.dsn(
        status="5.2.2",
        said="552 5.2.2 Postfach voll: größe",
        recipient="größe@uni.example",
        encoding=encoding,
    ).replace(b"message/delivery-status", b"message/global-delivery-status")

    told = bounces.read(report)

    assert isinstance(told, Failure)
    assert (told.kind, told.status, told.told_by) == (Kind.SOFT, "5.2.2", "dsn")


def test_the_prose_of_an_older_server_is_read() -> None:
    told = bounces.read(mails.QMAIL)

    assert isinstance(told, Failure)
    assert (told.kind, told.status, told.told_by, told.recipients) == (Kind.HARD, "5.1.1", "words", (ADA,))


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        ("5.1.1", "550 5.1.1 user unknown", Kind.HARD),
        ("5.1.2", "550 5.1.2 bad domain", Kind.HARD),
        ("5.1.10", "556 5.1.10 null MX", Kind.HARD),
        ("5.2.1", "550 5.2.1 The email account that you tried to reach is disabled", Kind.HARD),
        ("5.0.0", "550 No such user here", Kind.HARD),
        ("5.3.0", "553 5.3.0 ... Addressee unknown", Kind.HARD),
        ("", "550 Requested action not taken: mailbox unavailable", Kind.HARD),
        ("5.2.1", "550 5.2.1 The user is receiving mail too quickly right now", Kind.SOFT),
        ("5.2.2", "552 5.2.2 mailbox full", Kind.SOFT),
        ("5.0.0", "552 Quota exceeded", Kind.SOFT),
        ("4.4.7", "delivery time expired", Kind.SOFT),
        ("4.2.2", "452 4.2.2 over quota", Kind.SOFT),
        ("4.7.26", "421 4.7.26 this mail is unauthenticated", Kind.POLICY),
        ("4.4.7", "451 4.7.0 too many messages from your address", Kind.POLICY),
        ("", "451 4.7.1 greylisted, and given up", Kind.POLICY),
        ("5.3.4", "552 5.3.4 message too big", Kind.SOFT),
        ("5.7.1", "550 5.7.1 likely unsolicited mail", Kind.POLICY),
        ("5.7.26", "550 5.7.26 this mail is unauthenticated", Kind.POLICY),
        ("5.7.515", "550 5.7.515 Access denied, sending domain does not meet the level", Kind.POLICY),
        ("5.0.0", "550 5.7.26 this mail is unauthenticated", Kind.POLICY),
        ("5.1.8", "501 5.1.8 sender domain does not exist", Kind.POLICY),
        ("5.6.0", "554 5.6.0 content refused", Kind.POLICY),
        ("", "554 Your IP is on a blocklist", Kind.POLICY),
    ],
)
def test_what_a_failure_says_of_the_address(status: str, said: str, kind: Kind) -> None:
    told = bounces.read(mails.dsn(status=status, said=said))

    assert isinstance(told, Failure)
    assert told.kind is kind


@pytest.mark.parametrize("phase", ["connect", "mail", "data", "dot"])
def test_what_is_refused_without_naming_the_recipient_is_about_us(phase: str) -> None:
    assert bounces.refused(554, "transaction failed", phase=phase).kind is Kind.POLICY
    assert bounces.refused(550, "5.1.1 user unknown", phase="dot").kind is Kind.HARD  # LMTP says it there


@pytest.mark.parametrize("action", ["delayed", "delivered", "relayed", "expanded"])
def test_a_report_of_no_failure_asks_for_nothing(action: str) -> None:
    told = bounces.read(mails.dsn(action=action, status="4.4.1"))

    assert isinstance(told, Nothing)


def test_who_is_on_leave_has_not_bounced() -> None:
    assert bounces.read(mails.ON_LEAVE) == Nothing(because="an automatic answer")


def test_a_complaint_is_read_and_its_opposite_is_none() -> None:
    assert isinstance(bounces.read(mails.complaint()), Complaint)
    assert isinstance(bounces.read(mails.complaint(kind="not-spam")), Nothing)


@pytest.mark.parametrize("kind", ["auth-failure", "virus", "DMARC"])
def test_a_report_that_our_mail_failed_a_check_is_no_readers_complaint(kind: str) -> None:
    told = bounces.read(mails.complaint(kind=kind))

    assert isinstance(told, Failure)
    assert told.kind is Kind.POLICY


def test_what_a_server_says_can_be_shown_and_kept() -> None:
    told = bounces.read(
        mails.dsn(said="550 5.1.1 nobody\0 here\x1b[31m, \N{RIGHT-TO-LEFT OVERRIDE}ada@uni.example")
    )

    assert isinstance(told, Failure)
    assert told.said == "550 5.1.1 nobody here [31m, …"
    assert bounces.refused(550, "no\0body", phase="rcpt").said == "550 no body"


def test_what_a_report_did_is_told_in_our_words_only() -> None:
    report = mails.dsn(action="ada@uni.example", status="2.0.0")

    assert bounces.read(report) == Nothing(because="a report of no failure")


def test_a_persons_mail_is_no_bounce() -> None:
    assert bounces.read(mails.A_LETTER) is None


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
def test_whatever_comes_reading_it_does_not_fail(content: bytes) -> None:
    assert not isinstance(bounces.read(content), Failure)


@pytest.mark.parametrize(
    "content",
    [
        mails.dsn(said="550 5.1.1 nobody " + "x" * 1_000_000),
        mails.complaint().replace(b"Mailbox/1.0", b"z" * 1_000_000),
        b"From: a@x\r\n\r\n" + b"a@" * 500_000,
        b"From: a@x\r\nContent-Type: text/plain; " + b"a=b; " * 200_000 + b"\r\n\r\nx",
        b"Content-Type: message/rfc822\r\n\r\n" * 30_000,
    ],
    ids=["a line", "a word", "signs", "parameters", "mails in mails"],
)
def test_no_mail_takes_long_to_read(content: bytes) -> None:
    began = time.process_time()

    with suppress(RecursionError):  # such a mail is shown to a person
        bounces.read(content)

    assert time.process_time() - began < 5  # it was minutes


# ── addresses that only we can make ─────────────────────────────────────────────────────────────


def test_a_bounce_address_names_its_delivery_and_survives_lower_case(site: Site) -> None:
    site = replace(site, inbound_domain="bounce.example.org")
    address = links.bounce_address(site, 123)

    assert address.startswith("bounce+123.")
    assert address.endswith("@bounce.example.org")
    assert len(address.partition("@")[0]) <= 64
    assert links.opened_address(site, "bounce", address.upper()) == "123"
    assert links.opened_address(replace(site, keys=(b"a new key", *site.keys)), "bounce", address) == "123"


def test_an_invented_bounce_address_names_nothing(site: Site) -> None:
    site = replace(site, inbound_domain="bounce.example.org")
    made = links.bounce_address(site, 123)

    assert links.opened_address(site, "bounce", made.replace("123", "124")) is None
    assert links.opened_address(site, "leave", made.replace("bounce+", "leave+")) is None
    assert links.opened_address(replace(site, keys=(b"another",)), "bounce", made) is None
    for invented in ("bounce+123@example.org", "bounce+.@x", "bounce+1.é@x", "@", "", "bounce+1.2.3@x"):
        assert links.opened_address(site, "bounce", invented) is None


# ── counting ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fail(session: Session, site: Site, now: datetime) -> Callable[..., Counted]:
    """Let an address fail, so many days later."""

    def failed(
        kind: Kind = Kind.HARD, *, day: float = 0, email: str = ADA, told_by: str = "dsn", **details: str
    ) -> Counted:
        told = Failure(kind=kind, status=details.pop("status", "5.1.1"), said="no", told_by=told_by)
        return bounces.record(session, site, email, told, now=now + day * DAY, **details)

    return failed


@pytest.fixture
def letters(session: Session, site: Site, now: datetime) -> Callable[[int], list[int | None]]:
    """So many letters in the outbox."""
    return lambda count: [
        outbox.put_letter(session, letter="help", subscriber_id=None, email=ADA, decision={},
                          dedupe_key=f"letter-{number}", site=site, now=now)
        for number in range(count)
    ]  # fmt: skip


def test_five_days_of_hard_failures_are_too_many(fail, session: Session, site: Site) -> None:
    assert [fail(day=day).score for day in range(4)] == [1, 2, 3, 4]
    assert not bounces.is_suppressed(session, site, ADA)

    assert fail(day=4).is_suppressed
    assert bounces.is_suppressed(session, site, ADA)
    assert [line.reason for line in bounces.listing(session)] == [Reason.BOUNCE]


def test_many_failures_of_one_day_count_once(fail) -> None:
    assert [fail(day=part / 100).score for part in range(20)] == [1.0] * 20


def test_one_letter_fails_once_on_however_many_days_that_is_told(fail, letters) -> None:
    one, other = letters(2)

    assert [fail(day=day, delivery_id=one).score for day in range(6)] == [1.0] * 6
    assert fail(Kind.SOFT, day=6, delivery_id=other).score == 1.5
    assert fail(day=6.1, delivery_id=other).score == 2


def test_soft_failures_count_half(fail) -> None:
    assert [fail(Kind.SOFT, status="4.4.1", day=day).score for day in (0, 1, 2)] == [0.5, 1.0, 1.5]


def test_a_week_without_failures_forgets_what_was_before(fail) -> None:
    assert [fail(day=day).score for day in (0, 1, 2, 10, 11)] == [1, 2, 3, 1, 2]


def test_who_is_written_to_once_a_week_is_not_forgotten_each_week(fail) -> None:
    scores = [fail(day=7.1 * week, cadence="weekly").score for week in range(4)]

    assert scores == [1, 2, 3, 4]


def test_what_is_our_own_fault_never_counts(fail, session: Session, site: Site) -> None:
    counted = [fail(Kind.POLICY, status="5.7.26", day=day) for day in range(30)]

    assert {one.score for one in counted} == {0.0}
    assert not bounces.is_suppressed(session, site, ADA)


def test_a_server_that_says_on_two_days_that_nobody_is_there_is_believed(fail) -> None:
    assert not fail(told_by="smtp").is_suppressed
    assert not fail(told_by="smtp", day=0.1).is_suppressed
    assert fail(told_by="smtp", day=30).is_suppressed


def test_a_complaint_is_enough(session: Session, site: Site, now: datetime) -> None:
    counted = bounces.record(session, site, ADA, Complaint(said="abuse"), now=now)

    assert counted.is_suppressed
    assert [line.reason for line in bounces.listing(session)] == [Reason.COMPLAINT]


def test_the_evidence_holds_no_address(fail, session: Session) -> None:
    fail()

    stored = str(session.execute(text("SELECT * FROM bounce")).all())
    assert "ada" not in stored
    assert "uni.example" in stored


# ── domains ─────────────────────────────────────────────────────────────────────────────────────


def test_a_mass_of_failures_in_one_domain_counts_against_nobody(
    fail, session: Session, site: Site, now: datetime
) -> None:
    for day in range(-4, 0):
        fail(day=day, email="r0@uni.example")
    assert fail(day=-0.2, email="r0@uni.example").is_suppressed
    later = [fail(email=f"r{number}@uni.example") for number in range(1, 15)]

    assert [one.is_frozen for one in later[:8]] == [False] * 8
    assert all(one.is_frozen for one in later[9:])
    assert bounces.frozen_domains(session, since=now - DAY) == {"uni.example": 15}
    assert bounces.listing(session) == []
    assert not fail(email="ada@elsewhere.example").is_frozen


def test_a_few_dead_addresses_among_many_readers_are_no_broken_domain(
    fail, session: Session, now: datetime
) -> None:
    for number in range(100):
        subscriptions.add(session, f"r{number}@uni.example", now=now)

    assert not any(fail(email=f"r{number}@uni.example").is_frozen for number in range(19))
    assert fail(email="r19@uni.example").is_frozen


def test_to_tell_a_broken_domain_a_large_one_is_not_counted_whole(
    fail, session: Session, now: datetime
) -> None:
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


def test_the_operator_forgives_a_domain(fail, session: Session, site: Site, now: datetime) -> None:
    for day in range(5):
        fail(day=day)
        fail(day=day, email="bo@elsewhere.example")
    later = now + 5 * DAY

    assert bounces.forgive(session, domain="UNI.example", since=now - DAY, now=later) == (5, 1)

    assert not bounces.is_suppressed(session, site, ADA)
    assert bounces.is_suppressed(session, site, "bo@elsewhere.example")
    assert fail(day=6).score == 1


def test_forgiving_bounces_lifts_no_complaint(fail, session: Session, site: Site, now: datetime) -> None:
    bounces.record(session, site, ADA, Complaint(), now=now)

    assert bounces.forgive(session, domain="uni.example", since=now, now=now)[1] == 0
    assert bounces.is_suppressed(session, site, ADA)


def test_the_operator_believes_a_broken_domain(fail, session: Session, site: Site, now: datetime) -> None:
    for number in range(12):
        fail(email=f"r{number}@uni.example")
    assert not bounces.is_suppressed(session, site, "r3@uni.example")

    assert bounces.accept(session, domain="uni.example", since=now - DAY, now=now) == 12
    assert bounces.is_suppressed(session, site, "r3@uni.example")
    assert bounces.accept(session, domain="uni.example", since=now - DAY, now=now) == 0


def test_what_the_operator_believed_stays_believed_when_one_more_fails(
    fail, session: Session, site: Site, now: datetime
) -> None:
    for number in range(12):
        fail(email=f"r{number}@uni.example")
    bounces.accept(session, domain="uni.example", since=now - DAY, now=now)
    assert bounces.frozen_domains(session, since=now - DAY) == {}

    assert not fail(email="r12@uni.example", day=0.1).is_frozen
    fail(email="r3@uni.example", day=0.1)  # told late
    assert bounces.is_suppressed(session, site, "r3@uni.example")

    assert bounces.forgive(session, domain="uni.example", since=now - DAY, now=now)[1] == 12
