"""Every letter ends in a known state, whatever a server replies or does not reply."""

from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import dkim as oracle
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery, Lane, Shown
from digest.db.tables.subscribers import FilterRow, Subscriber, SubscriberState
from digest.delivery import delivery_run, rendering_inputs
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.outbox import enqueue
from digest.delivery.outbox.attempts import list_attempts
from digest.delivery.outbox.transitions import LEASE
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.smtp import MailServer, SmtpTransport, Timeouts
from digest.delivery.transports.transport import Message, Outcome, Transport
from digest.dumps.intake import load_dump
from digest.letters import dkim_signing
from digest.letters.dkim_signing import Signer
from digest.letters.templates import Templates
from digest.process import gc_control
from digest.publishing import digest_preview, publish_due
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from digest.subscribers import confirmation_letters, confirmations, subscriber_rows
from tests.conftest import ROOT
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.plain_letters import plain_letter
from tests.support.shared_caches import CACHES

ALICE, BOB, CHARLIE = "alice@example.org", "bob@example.org", "charlie@example.org"
PATIENCE = Timeouts(window=5, connect=2, command=2, body=2, dot=0.5, quit=0.5)


@pytest.fixture
def deliver(site: Site, templates: Templates, now: datetime) -> Callable[..., DeliveryReport]:
    """Deliver at `now`, or later by `after`."""

    def delivered(
        session: Session, transport: Transport, *, after: timedelta = timedelta(), **details: Any
    ) -> DeliveryReport:
        clock = details.pop("clock", lambda: now + after)
        return delivery_run.deliver(
            session,
            site=site,
            templates=templates,
            caches=CACHES,
            transport=transport,
            clock=clock,
            **details,
        )

    return delivered


@pytest.fixture
def cast(session: Session, now: datetime) -> dict[str, Subscriber]:
    """Alice, Bob and Charlie, who all get digests."""
    people = {
        email: subscriber_rows.add(
            session,
            email,
            texts={"timezone": "Europe/Oslo"},
            state=SubscriberState.ACTIVE,
            consent="a test",
            now=now,
        )
        for email in (ALICE, BOB, CHARLIE)
    }
    session.commit()
    return people


@pytest.fixture
def letters(session: Session, site: Site, now: datetime, cast: dict[str, Subscriber]) -> dict[str, int]:
    """One letter to each of the cast."""
    written = {
        email: enqueue.queue_letter(
            session, letter=plain_letter("settings", f"settings-{one.id}"), subscriber_id=one.id, email=email,
            site=site, now=now,
        )
        for email, one in cast.items()
    }  # fmt: skip
    session.commit()
    return {email: number for email, number in written.items() if number}


@pytest.fixture
def digests(
    session: Session, site: Site, templates: Templates, now: datetime, cast: dict[str, Subscriber]
) -> None:
    """Today's digest for each of the cast, published from the sample."""
    for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
        load_dump.load(session, path, now=now - timedelta(hours=1))
    published = publish_due.publish(
        Publication(session, site=site, templates=templates, caches=CACHES, now=now)
    )
    assert published.queued == 3


def smtp(server: FaultyServer) -> SmtpTransport:
    return SmtpTransport(
        MailServer(scheme="smtp", host="127.0.0.1", port=server.port), helo="example.org", timeouts=PATIENCE
    )


@pytest.fixture
def faulty() -> Iterator[tuple[FaultyServer, SmtpTransport]]:
    """A server whose plan a test may change, and a transport to it."""
    with faulty_server() as server:
        transport = smtp(server)
        yield server, transport
        transport.close()


def states(session: Session) -> dict[str, tuple[str, int, int]]:
    """(state, attempts, in doubt) of every delivery, by address."""
    session.expire_all()
    return {
        row.email or "": (row.state, row.attempts, row.in_doubt) for row in session.scalars(select(Delivery))
    }


# ── without failures ──────────────────────────────────────────────────────────────────────────────


def test_every_digest_is_delivered_once(
    session: Session, digests: None, deliver: Callable[..., DeliveryReport]
) -> None:
    memory = MemoryTransport()

    first, second = deliver(session, memory), deliver(session, memory)

    assert (first, second) == (DeliveryReport(sent=3), DeliveryReport())
    assert sorted(message.recipient for message in memory.messages) == [ALICE, BOB, CHARLIE]
    assert set(states(session).values()) == {("sent", 1, 0)}


@pytest.mark.parametrize("owner", [None, "kari@example.org"], ids=["a person", "a group"])
def test_preview_shows_the_bytes_that_are_sent(
    session: Session,
    site: Site,
    templates: Templates,
    cast: Any,
    deliver: Callable[..., DeliveryReport],
    owner: str | None,
    now: datetime,
) -> None:
    cast[ALICE].owner_email = owner
    for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
        load_dump.load(session, path, now=now - timedelta(hours=1))
    made = digest_preview.preview(
        Publication(session, site=site, templates=templates, caches=CACHES, now=now), email=ALICE
    )
    publish_due.publish(Publication(session, site=site, templates=templates, caches=CACHES, now=now))
    memory = MemoryTransport()

    deliver(session, memory)

    (sent,) = [message.content for message in memory.messages if message.recipient == ALICE]
    assert sent == made.message


def test_urgent_letters_go_before_digests(
    session: Session, digests: None, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    memory = MemoryTransport()

    deliver(session, memory, window=1)

    lanes = [session.get_one(Delivery, message.delivery_id).lane for message in memory.messages]
    assert lanes == [Lane.PROMPT] * 3 + [Lane.BULK] * 3


def test_urgent_letter_overtakes_digests_on_a_slow_server(
    engine: Engine,
    session: Session,
    cast: dict[str, Subscriber],
    site: Site,
    now: datetime,
    deliver: Callable[..., DeliveryReport],
) -> None:
    """Ten windows are claimed together, which takes long if a server needs a second for each letter."""
    for number in range(20):
        enqueue.queue_letter(
            session, letter=plain_letter("settings", f"bulk {number}"), subscriber_id=cast[ALICE].id, email=ALICE,
            site=site, now=now, lane=Lane.BULK,
        )  # fmt: skip
    session.commit()
    seconds = [0]

    class SlowTransport(MemoryTransport):
        def take(self, message: Message) -> Outcome:
            seconds[0] += 1
            if seconds[0] == 5:
                with db.write_session(engine) as another:
                    enqueue.queue_letter(
                        another, letter=plain_letter("settings", "prompt"), subscriber_id=cast[BOB].id, email=BOB,
                        site=site, now=now,
                    )  # fmt: skip
                    another.commit()
            return super().take(message)

    slow = SlowTransport()
    report = deliver(session, slow, window=2, clock=lambda: now + timedelta(seconds=seconds[0]))

    assert report == DeliveryReport(sent=21)
    place = [message.recipient for message in slow.messages].index(BOB)
    assert 5 <= place <= 5 + 4
    assert {attempts for _, attempts, _ in states(session).values()} == {1}


def test_one_lane_can_be_delivered_alone(
    session: Session, digests: None, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    assert deliver(session, MemoryTransport(), lane=Lane.PROMPT) == DeliveryReport(sent=3)
    assert deliver(session, MemoryTransport(), lane=Lane.BULK) == DeliveryReport(sent=3)


# ── replies ────────────────────────────────────────────────────────────────────────────

FATES = {
    Fault.RCPT_450: (DeliveryReport(sent=2, deferred=1), ("queued", 1, 0), "450 4.2.1 mailbox busy (rcpt)"),
    Fault.RCPT_550: (DeliveryReport(sent=2, failed=1), ("failed", 1, 0), "550 5.1.1 no such user (rcpt)"),
    Fault.DOT_451: (DeliveryReport(sent=2, deferred=1), ("queued", 1, 0), "451 4.3.0 not now (dot)"),
    Fault.DOT_552: (DeliveryReport(sent=2, failed=1), ("failed", 1, 0), "552 5.3.4 too big (dot)"),
    Fault.DOT_DROP: (
        DeliveryReport(sent=2, in_doubt=1),
        ("sending", 1, 0),
        "in doubt: the server closed the connection (dot)",
    ),
    Fault.DOT_HANG: (
        DeliveryReport(sent=2, in_doubt=1),
        ("sending", 1, 0),
        "in doubt: the server did not reply in time (dot)",
    ),
    Fault.QUIT_421: (DeliveryReport(sent=3), ("sent", 1, 0), ""),
    Fault.BINARY: (DeliveryReport(sent=3), ("sent", 1, 0), ""),
}


@pytest.mark.parametrize("window", [1, 50])
@pytest.mark.parametrize("fault", FATES)
def test_server_reply_decides_one_letters_outcome(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
    fault: Fault,
    window: int,
) -> None:
    server, transport = faulty
    server.plan = lambda recipient: fault if recipient == BOB else None

    report = deliver(session, transport, window=window)

    expected, fate, reason = FATES[fault]
    assert report == expected
    assert states(session) == {ALICE: ("sent", 1, 0), BOB: fate, CHARLIE: ("sent", 1, 0)}
    assert session.get_one(Delivery, letters[BOB]).reason == reason
    (attempt,) = list_attempts(session, letters[BOB])
    assert attempt.lease
    assert attempt.ended_at is not None


def test_deferred_letter_is_tried_until_it_expires(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: Fault.RCPT_450

    reports = [deliver(session, transport, after=timedelta(hours=hours)) for hours in (0, 2, 4, 49, 50)]

    assert reports == [DeliveryReport(deferred=3)] * 3 + [DeliveryReport(expired=3), DeliveryReport()]
    assert set(states(session).values()) == {("expired", 3, 0)}


def test_letter_waiting_when_its_key_is_retired_gets_links_of_the_new_key(
    session: Session, site: Site, templates: Templates, now: datetime, letters: dict[str, int]
) -> None:
    renewed, memory = replace(site, keys=(b"a new key",)), MemoryTransport()

    report = delivery_run.deliver(
        session, site=renewed, templates=templates, caches=CACHES, transport=memory, clock=lambda: now
    )

    assert report.sent == len(letters)
    for message in memory.messages:
        assert f"/{renewed.signing_key_id}.".encode() in message.content
        assert site.signing_key_id.encode() not in message.content


def test_letter_in_doubt_is_sent_again_with_the_same_bytes_after_the_lease(
    session: Session,
    digests: None,
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    plans = iter([Fault.DOT_DROP])
    server.plan = lambda recipient: next(plans, None) if recipient == BOB else None

    deliver(session, transport)
    too_early = deliver(session, transport, after=LEASE - timedelta(seconds=1))
    in_time = deliver(session, transport, after=LEASE)

    assert (too_early, in_time) == (DeliveryReport(), DeliveryReport(sent=1))
    assert states(session)[BOB] == ("sent", 2, 1)
    first, second = server.copies(BOB)
    assert first == second
    assert b"\r\nMessage-ID: <" in first


def test_letter_in_doubt_is_stuck_if_its_bytes_would_differ(
    session: Session,
    digests: None,
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    plans = iter([Fault.DOT_DROP])
    server.plan = lambda recipient: next(plans, None) if recipient == BOB else None
    deliver(session, transport)
    session.execute(update(Delivery).where(Delivery.email == BOB).values(content_hash="another"))
    session.commit()

    deliver(session, transport, after=LEASE)

    assert states(session)[BOB][0] == "stuck"


def test_letter_three_times_in_doubt_is_stuck(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: Fault.DOT_DROP

    reports = [deliver(session, transport, after=LEASE * turn) for turn in range(5)]

    assert reports == [DeliveryReport(in_doubt=3)] * 3 + [DeliveryReport(stuck=3), DeliveryReport()]
    assert set(states(session).values()) == {("stuck", 3, 3)}
    assert len(server.copies(ALICE)) == 3


def test_letters_wait_without_using_up_attempts_if_no_server_answers(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = smtp(FaultyServer(port=1))

    with caplog.at_level(logging.WARNING):
        report = deliver(session, nowhere, window=1)

    assert report == DeliveryReport(deferred=3)
    assert set(states(session).values()) == {("queued", 0, 0)}
    assert "smtp://127.0.0.1:1: Connection refused" in caplog.text
    assert not any(address in caplog.text for address in letters)
    assert deliver(session, MemoryTransport()) == DeliveryReport()
    assert deliver(session, MemoryTransport(), after=timedelta(minutes=1)) == DeliveryReport(sent=3)


def test_server_that_turns_all_letters_away_is_tried_once_without_using_up_attempts(
    session: Session,
    letters: dict[str, int],
    faulty: tuple[FaultyServer, SmtpTransport],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    server, transport = faulty
    server.mail_plan = lambda: Fault.MAIL_421

    assert deliver(session, transport, window=2) == DeliveryReport(deferred=3)
    assert server.connections == 1
    assert set(states(session).values()) == {("queued", 0, 0)}

    server.mail_plan = lambda: None
    assert deliver(session, transport, after=timedelta(minutes=1)) == DeliveryReport(sent=3)


def test_provider_id_is_stored_and_names_the_delivery(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    transport.server = replace(transport.server, profile="ses")
    server.thanks = "250 Ok 0102018f6a3b7c11-aa11bb22-000000"

    deliver(session, transport)

    named = set(session.scalars(select(Delivery.provider_id)))
    assert named == {"0102018f6a3b7c11-aa11bb22-000000"}


def test_server_that_keeps_our_message_id_gives_no_provider_id(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    server, transport = faulty
    server.thanks = "250 Ok 0102018f6a3b7c11-aa11bb22-000000"

    deliver(session, transport)

    assert set(session.scalars(select(Delivery.provider_id))) == {None}


# ── recipients who must get no mail ──────────────────────────────────────────────────────────────────


def test_unsubscribed_reader_gets_no_mail_and_no_paper_counts_as_shown(
    session: Session,
    site: Site,
    digests: None,
    cast: dict[str, Subscriber],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    bob = cast[BOB]
    bob.state = SubscriberState.UNSUBSCRIBED
    suppressions.suppress(session, site, CHARLIE.upper(), SuppressionReason.OPERATOR, "", now)
    session.commit()
    memory = MemoryTransport()

    report = deliver(session, memory)

    assert report == DeliveryReport(sent=1, suppressed=2)
    assert [message.recipient for message in memory.messages] == [ALICE]
    assert set(session.scalars(select(Shown.subscriber_id))) == {cast[ALICE].id}


def clock_that_changes(
    engine: Engine, reader: Subscriber, now: datetime, **columns: object
) -> Callable[[], datetime]:
    """Return a clock whose third reading, right before the intent, changes these columns of the reader."""
    readings = itertools.count(1)

    def clock() -> datetime:
        if next(readings) == 3:
            with db.write_session(engine) as other:
                other.execute(update(Subscriber).where(Subscriber.id == reader.id).values(columns))
                other.commit()
        return now

    return clock


def test_unsubscribe_after_the_claim_is_respected(
    engine: Engine,
    session: Session,
    digests: None,
    cast: dict[str, Subscriber],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    clock = clock_that_changes(engine, cast[BOB], now, state=SubscriberState.UNSUBSCRIBED)
    memory = MemoryTransport()
    report = deliver(session, memory, clock=clock)

    assert report == DeliveryReport(sent=2, suppressed=1)
    assert BOB not in [message.recipient for message in memory.messages]


def test_letter_is_rendered_again_if_its_reader_changed(
    engine: Engine,
    session: Session,
    letters: dict[str, int],
    cast: dict[str, Subscriber],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    clock = clock_that_changes(engine, cast[BOB], now, link_version=cast[BOB].link_version + 1)
    memory = MemoryTransport()
    report = deliver(session, memory, clock=clock)

    assert report == DeliveryReport(sent=3)
    assert [message.recipient for message in memory.messages][-1] == BOB


def test_digest_of_a_reader_who_just_became_a_group_is_rendered_again_without_their_links(
    engine: Engine,
    session: Session,
    digests: None,
    cast: dict[str, Subscriber],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    clock = clock_that_changes(engine, cast[BOB], now, owner_email="kari@example.org")
    memory = MemoryTransport()
    report = deliver(session, memory, clock=clock)

    assert report == DeliveryReport(sent=3)
    with_links = {one.recipient for one in memory.messages if b"List-Unsubscribe:" in one.content}
    assert with_links == {ALICE, CHARLIE}


def test_digest_that_expired_in_doubt_stays_shown(
    session: Session,
    digests: None,
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
    cast: dict[str, Subscriber],
) -> None:
    server, transport = faulty
    server.plan = lambda recipient: Fault.DOT_DROP if recipient == BOB else Fault.RCPT_450
    deliver(session, transport)

    report = deliver(session, transport, after=timedelta(days=1))

    assert report == DeliveryReport(expired=3)
    assert states(session)[BOB] == ("expired", 1, 1)
    assert set(session.scalars(select(Shown.subscriber_id))) == {cast[BOB].id}


# ── no second, different mail ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(Fault.DOT_DROP, DeliveryReport(stuck=3)), (Fault.RCPT_450, DeliveryReport(sent=3))],
)
def test_changed_bytes_are_sent_only_if_certainly_nobody_has_the_first(
    session: Session,
    letters: dict[str, int],
    cast: dict[str, Subscriber],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
    fault: Fault,
    expected: DeliveryReport,
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: fault
    deliver(session, transport)
    for one in cast.values():
        one.link_version += 1
    session.commit()
    server.plan = lambda _recipient: None

    assert deliver(session, transport, after=timedelta(hours=1)) == expected


def test_letter_that_cannot_be_rendered_stops_no_other(
    session: Session,
    site: Site,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    now: datetime,
) -> None:
    enqueue.queue_letter(
        session, letter=plain_letter("nonsense", "x"), subscriber_id=None, email="dora@example.org",
        site=site, now=now,
    )  # fmt: skip

    report = deliver(session, MemoryTransport())

    assert report == DeliveryReport(sent=3, stuck=1)
    assert states(session)["dora@example.org"] == ("stuck", 0, 0)


@pytest.mark.usefixtures("digests")
@pytest.mark.parametrize("decision", ['{"sections": [[', "{}", '{"sections": 7}', "null"])
def test_unreadable_decision_stops_no_other(
    session: Session, site: Site, templates: Templates, now: datetime, decision: str
) -> None:
    session.execute(update(Delivery).where(Delivery.email == BOB).values(decision=decision))
    session.commit()

    delivery_run.deliver(
        session, site=site, templates=templates, caches=CACHES, transport=MemoryTransport(), clock=lambda: now
    )

    assert {who: state for who, (state, _, _) in states(session).items()} == {
        ALICE: "sent", BOB: "stuck", CHARLIE: "sent",
    }  # fmt: skip


def test_digest_leaves_no_cycles_for_the_garbage_collector(
    session: Session, site: Site, templates: Templates, now: datetime, deliver: Callable[..., DeliveryReport]
) -> None:
    for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
        load_dump.load(session, path, now=now - timedelta(hours=1))
    for number in range(200):
        subscriber_rows.add(
            session, f"reader-{number}@example.org", state=SubscriberState.ACTIVE, consent="a test", now=now
        )
    publish_due.publish(Publication(session, site=site, templates=templates, caches=CACHES, now=now))
    deliver(session, MemoryTransport(), limit=100)  # what the first letters cache for the others stays
    gc.collect()

    with gc_control.gc_paused():
        report = deliver(session, MemoryTransport())
        left = gc.collect()

    assert report == DeliveryReport(sent=100)
    assert left < 100, "a run holds the collector off until it ends"


# ── stops ────────────────────────────────────────────────────────────────────────────────────


def test_run_loads_each_filter_once_and_caches_a_limited_number(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.add_all([FilterRow(id=number, canonical=f"word{number}") for number in (1, 2, 3)])
    session.flush()

    def naming(*numbers: int | None) -> list[Any]:
        return [SimpleNamespace(sections=[SimpleNamespace(filter_id=each)]) for each in numbers]

    known = rendering_inputs.load_filters(session, naming(1, 2, None), {})
    assert known == {1: "word1", 2: "word2"}
    assert rendering_inputs.load_filters(session, naming(2, 1), known) is known
    assert rendering_inputs.load_filters(session, naming(3), known) == {**known, 3: "word3"}
    monkeypatch.setattr(rendering_inputs, "MAX_KNOWN", 2)
    assert rendering_inputs.load_filters(session, naming(1, 3), known) == {1: "word1", 3: "word3"}


def test_run_claims_no_more_than_its_limit(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    assert deliver(session, MemoryTransport(), limit=2) == DeliveryReport(sent=2)
    assert deliver(session, MemoryTransport()) == DeliveryReport(sent=1)


def test_stopped_worker_gives_back_what_it_has_not_begun(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    memory = MemoryTransport()

    report = deliver(session, memory, window=1, is_stopping=lambda: bool(memory.messages))

    assert report == DeliveryReport(sent=1)
    assert deliver(session, memory) == DeliveryReport(sent=2)


def test_interrupted_run_gives_back_what_it_has_not_begun(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    def interrupt(_done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(session, MemoryTransport(), window=1, progress=interrupt)

    assert sorted(states(session).values()) == [("queued", 0, 0), ("queued", 0, 0), ("sent", 1, 0)]
    assert deliver(session, MemoryTransport()) == DeliveryReport(sent=2)


def test_run_without_time_left_begins_nothing(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    assert deliver(session, MemoryTransport(), max_time=timedelta(0)) == DeliveryReport()
    assert deliver(session, MemoryTransport()) == DeliveryReport(sent=3)


def test_progress_reports_how_many_are_done(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport]
) -> None:
    done: list[int] = []

    deliver(session, MemoryTransport(), window=2, progress=done.append)

    assert done == [2, 3]


def test_reminder_reaches_an_unconfirmed_subscriber(
    session: Session, site: Site, now: datetime, deliver: Callable[..., DeliveryReport]
) -> None:
    confirmations.request_subscription(session, site, "dora@example.org", now=now)
    mailbox = MemoryTransport()
    deliver(session, mailbox)
    confirmation_letters.queue_reminders(session, site, now + timedelta(hours=24))

    deliver(session, mailbox, after=timedelta(hours=24))

    assert [b"the only reminder" in message.content for message in mailbox.messages] == [False, True]
    assert mailbox.messages[1].recipient == "dora@example.org"


# ── signatures ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def signer(site: Site) -> Signer:
    pem = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return dkim_signing.load_signers({"mail": pem.decode()}, domain=site.domain)[0]


def verifies(raw: bytes, signer: Signer) -> bool:
    record = signer.dns_record.encode()
    return bool(oracle.DKIM(raw).verify(dnsfunc=lambda *_, **__: record))


def test_every_letter_is_signed_and_the_digests_one_click_header_too(
    session: Session,
    digests: None,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    signer: Signer,
) -> None:
    mailbox = MemoryTransport()

    assert deliver(session, mailbox, signers=[signer]).sent == 6

    raws = [message.content for message in mailbox.messages]
    assert [verifies(raw, signer) for raw in raws] == [True] * 6
    signed = [raw.partition(b"bh=")[0].count(b"list-unsubscribe-post") for raw in raws]
    assert sorted(signed) == [1, 1, 1, 2, 2, 2]  # once more than it occurs, so that none can be added


def test_new_signing_key_between_two_attempts_does_not_change_the_letter(
    session: Session, letters: dict[str, int], deliver: Callable[..., DeliveryReport], signer: Signer,
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:  # fmt: skip
    server, transport = faulty
    server.plan = lambda _recipient: Fault.DOT_DROP
    assert deliver(session, transport, signers=[signer]).in_doubt > 0

    report = deliver(session, MemoryTransport(), after=timedelta(hours=1))

    assert (report.sent, report.stuck) == (3, 0)


def test_provider_id_is_stored_with_the_attempt(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., DeliveryReport],
    faulty: tuple[FaultyServer, SmtpTransport],
) -> None:
    deliver(session, faulty[1])

    assert {attempt.code for attempt in session.scalars(select(Attempt))} == {250}
    assert all(attempt.reply for attempt in session.scalars(select(Attempt)))
