"""Delivery as a story: whatever a server says or does not say, every letter's fate is known."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import dkim as oracle
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from digest import bounces, db, delivery, garbage, intake, outbox, publishing, subscriptions
from digest.bounces import Reason
from digest.delivery import Report, gathering
from digest.editions import Schedule
from digest.links import Site
from digest.model import Attempt, Delivery, FilterRow, Lane, Shown, Subscriber, SubscriberState
from digest.rendering import Templates, dkim
from digest.rendering.dkim import Signer
from digest.transport import Message, Outcome, Transport
from digest.transport.memory import Memory
from digest.transport.smtp import Patience, Server, Smtp
from tests.conftest import ROOT
from tests.faulty import Fault, FaultyServer, faulty_server

ALICE, BOB, CHARLIE = "alice@example.org", "bob@example.org", "charlie@example.org"
PATIENCE = Patience(window=5, connect=2, command=2, body=2, dot=0.5, farewell=0.5)


@pytest.fixture
def deliver(site: Site, templates: Templates, now: datetime) -> Callable[..., Report]:
    """Deliver at `now`, or so much later."""

    def delivered(
        session: Session, transport: Transport, *, after: timedelta = timedelta(), **details: Any
    ) -> Report:
        clock = details.pop("clock", lambda: now + after)
        return delivery.deliver(
            session, site=site, templates=templates, transport=transport, clock=clock, **details
        )

    return delivered


@pytest.fixture
def cast(session: Session, now: datetime) -> dict[str, Subscriber]:
    """Alice, Bob and Charlie, who all get digests."""
    people = {
        email: subscriptions.add(
            session,
            email,
            schedule=Schedule(timezone="Europe/Oslo"),
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
        email: outbox.put_letter(
            session, letter="settings", subscriber_id=one.id, email=email, decision={},
            dedupe_key=f"settings-{one.id}", site=site, now=now,
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
    for path in (ROOT / "digest" / "sample").glob("*.txt"):
        intake.load(session, path, now=now - timedelta(hours=1))
    published = publishing.publish(session, site=site, templates=templates, now=now)
    assert published.queued == 3


def smtp(server: FaultyServer) -> Smtp:
    return Smtp(
        Server(scheme="smtp", host="127.0.0.1", port=server.port), helo="example.org", patience=PATIENCE
    )


@pytest.fixture
def faulty() -> Iterator[tuple[FaultyServer, Smtp]]:
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


# ── what goes well ──────────────────────────────────────────────────────────────────────────────


def test_every_digest_is_delivered_and_never_again(
    session: Session, digests: None, deliver: Callable[..., Report]
) -> None:
    memory = Memory()

    first, second = deliver(session, memory), deliver(session, memory)

    assert (first, second) == (Report(sent=3), Report())
    assert sorted(message.recipient for message in memory.messages) == [ALICE, BOB, CHARLIE]
    assert set(states(session).values()) == {("sent", 1, 0)}


def test_a_preview_shows_the_very_bytes_that_are_sent(
    session: Session,
    site: Site,
    templates: Templates,
    cast: Any,
    deliver: Callable[..., Report],
    now: datetime,
) -> None:
    for path in (ROOT / "digest" / "sample").glob("*.txt"):
        intake.load(session, path, now=now - timedelta(hours=1))
    made = publishing.preview(session, site=site, templates=templates, email=ALICE, now=now)
    publishing.publish(session, site=site, templates=templates, now=now)
    memory = Memory()

    deliver(session, memory)

    (sent,) = [message.content for message in memory.messages if message.recipient == ALICE]
    assert sent == made.message


def test_letters_that_people_wait_for_go_before_the_digests(
    session: Session, digests: None, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    memory = Memory()

    deliver(session, memory, window=1)

    lanes = [session.get_one(Delivery, message.delivery_id).lane for message in memory.messages]
    assert lanes == [Lane.PROMPT] * 3 + [Lane.BULK] * 3


def test_what_somebody_waits_for_overtakes_digests_that_a_slow_server_is_being_given(
    engine: Engine,
    session: Session,
    cast: dict[str, Subscriber],
    site: Site,
    now: datetime,
    deliver: Callable[..., Report],
) -> None:
    """Ten windows are claimed together; with a server that takes a second for each letter that is long."""
    for number in range(20):
        outbox.put_letter(
            session, letter="settings", subscriber_id=cast[ALICE].id, email=ALICE, decision={},
            dedupe_key=f"bulk {number}", site=site, now=now, lane=Lane.BULK,
        )  # fmt: skip
    session.commit()
    seconds = [0]

    class Slow(Memory):
        def take(self, message: Message) -> Outcome:
            seconds[0] += 1
            if seconds[0] == 5:
                with db.writing(engine) as another:
                    outbox.put_letter(
                        another, letter="settings", subscriber_id=cast[BOB].id, email=BOB, decision={},
                        dedupe_key="prompt", site=site, now=now,
                    )  # fmt: skip
                    another.commit()
            return super().take(message)

    slow = Slow()
    report = deliver(session, slow, window=2, clock=lambda: now + timedelta(seconds=seconds[0]))

    assert report == Report(sent=21)
    place = [message.recipient for message in slow.messages].index(BOB)
    assert 5 <= place <= 5 + 4
    assert {attempts for _, attempts, _ in states(session).values()} == {1}


def test_one_lane_can_be_delivered_alone(
    session: Session, digests: None, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    assert deliver(session, Memory(), lane=Lane.PROMPT) == Report(sent=3)
    assert deliver(session, Memory(), lane=Lane.BULK) == Report(sent=3)


# ── what servers say ────────────────────────────────────────────────────────────────────────────

FATES = {
    Fault.RCPT_450: (Report(sent=2, deferred=1), ("queued", 1, 0), "450 4.2.1 mailbox busy (rcpt)"),
    Fault.RCPT_550: (Report(sent=2, failed=1), ("failed", 1, 0), "550 5.1.1 no such user (rcpt)"),
    Fault.DOT_451: (Report(sent=2, deferred=1), ("queued", 1, 0), "451 4.3.0 not now (dot)"),
    Fault.DOT_552: (Report(sent=2, failed=1), ("failed", 1, 0), "552 5.3.4 too big (dot)"),
    Fault.DOT_DROP: (Report(sent=2, in_doubt=1), ("sending", 1, 0), "in doubt: it hung up (dot)"),
    Fault.DOT_HANG: (Report(sent=2, in_doubt=1), ("sending", 1, 0), "in doubt: it fell silent (dot)"),
    Fault.QUIT_421: (Report(sent=3), ("sent", 1, 0), ""),
    Fault.BINARY: (Report(sent=3), ("sent", 1, 0), ""),
}


@pytest.mark.parametrize("window", [1, 50])
@pytest.mark.parametrize("fault", FATES)
def test_what_a_server_says_decides_one_letters_fate(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
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
    (attempt,) = outbox.trace(session, letters[BOB])
    assert attempt.lease
    assert attempt.ended_at is not None


def test_a_deferred_letter_is_tried_again_until_it_expires(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: Fault.RCPT_450

    reports = [deliver(session, transport, after=timedelta(hours=hours)) for hours in (0, 2, 4, 49, 50)]

    assert reports == [Report(deferred=3)] * 3 + [Report(expired=3), Report()]
    assert set(states(session).values()) == {("expired", 3, 0)}


def test_in_doubt_means_the_same_bytes_again_after_the_lease(
    session: Session, digests: None, deliver: Callable[..., Report], faulty: tuple[FaultyServer, Smtp]
) -> None:
    server, transport = faulty
    plans = iter([Fault.DOT_DROP])
    server.plan = lambda recipient: next(plans, None) if recipient == BOB else None

    deliver(session, transport)
    too_early = deliver(session, transport, after=outbox.LEASE - timedelta(seconds=1))
    in_time = deliver(session, transport, after=outbox.LEASE)

    assert (too_early, in_time) == (Report(), Report(sent=1))
    assert states(session)[BOB] == ("sent", 2, 1)
    first, second = server.copies(BOB)
    assert first == second
    assert b"\r\nMessage-ID: <" in first


@pytest.mark.parametrize(("changed", "becomes"), [(b"", "sent"), (b"and a word", "stuck")])
def test_what_is_in_doubt_since_hashes_were_sha256_is_compared_all_the_same(
    session: Session,
    digests: None,
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
    changed: bytes,
    becomes: str,
) -> None:
    server, transport = faulty
    plans = iter([Fault.DOT_DROP])
    server.plan = lambda recipient: next(plans, None) if recipient == BOB else None
    deliver(session, transport)
    as_it_was = sha256(server.copies(BOB)[0] + changed).hexdigest()
    session.execute(update(Delivery).where(Delivery.email == BOB).values(content_hash=as_it_was))
    session.commit()

    deliver(session, transport, after=outbox.LEASE)

    assert states(session)[BOB][0] == becomes


def test_who_is_in_doubt_three_times_needs_a_person(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: Fault.DOT_DROP

    reports = [deliver(session, transport, after=outbox.LEASE * turn) for turn in range(5)]

    assert reports == [Report(in_doubt=3)] * 3 + [Report(stuck=3), Report()]
    assert set(states(session).values()) == {("stuck", 3, 3)}
    assert len(server.copies(ALICE)) == 3


def test_without_a_server_all_letters_wait_and_none_burns_an_attempt(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = smtp(FaultyServer(port=1))

    with caplog.at_level(logging.WARNING):
        report = deliver(session, nowhere, window=1)

    assert report == Report(deferred=3)
    assert set(states(session).values()) == {("queued", 0, 0)}
    assert "smtp://127.0.0.1:1: Connection refused" in caplog.text
    assert not any(address in caplog.text for address in letters)
    assert deliver(session, Memory()) == Report()
    assert deliver(session, Memory(), after=timedelta(minutes=1)) == Report(sent=3)


def test_a_server_that_sends_all_letters_away_is_asked_once_and_burns_no_attempt(
    session: Session,
    letters: dict[str, int],
    faulty: tuple[FaultyServer, Smtp],
    deliver: Callable[..., Report],
    now: datetime,
) -> None:
    server, transport = faulty
    server.mail_plan = lambda: Fault.MAIL_421

    assert deliver(session, transport, window=2) == Report(deferred=3)
    assert server.connections == 1
    assert set(states(session).values()) == {("queued", 0, 0)}

    server.mail_plan = lambda: None
    assert deliver(session, transport, after=timedelta(minutes=1)) == Report(sent=3)


def test_what_a_provider_calls_a_letter_is_kept_and_names_it(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
) -> None:
    server, transport = faulty
    transport.server = replace(transport.server, profile="ses")
    server.thanks = "250 Ok 0102018f6a3b7c11-aa11bb22-000000"

    deliver(session, transport)

    named = set(session.scalars(select(Delivery.provider_id)))
    assert named == {"0102018f6a3b7c11-aa11bb22-000000"}


def test_a_server_that_leaves_our_message_id_alone_gives_no_name(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
) -> None:
    server, transport = faulty
    server.thanks = "250 Ok 0102018f6a3b7c11-aa11bb22-000000"

    deliver(session, transport)

    assert set(session.scalars(select(Delivery.provider_id))) == {None}


# ── who must not be written to ──────────────────────────────────────────────────────────────────


def test_who_left_meanwhile_is_not_written_to_and_no_paper_counts_as_shown(
    session: Session,
    site: Site,
    digests: None,
    cast: dict[str, Subscriber],
    deliver: Callable[..., Report],
    now: datetime,
) -> None:
    bob = cast[BOB]
    bob.state = SubscriberState.UNSUBSCRIBED
    bounces.suppress(session, site, CHARLIE.upper(), Reason.OPERATOR, "", now)
    session.commit()
    memory = Memory()

    report = deliver(session, memory)

    assert report == Report(sent=1, suppressed=2)
    assert [message.recipient for message in memory.messages] == [ALICE]
    assert set(session.scalars(select(Shown.subscriber_id))) == {cast[ALICE].id}


def test_leaving_is_obeyed_even_after_the_letter_was_taken_up(
    engine: Engine,
    session: Session,
    digests: None,
    cast: dict[str, Subscriber],
    deliver: Callable[..., Report],
    now: datetime,
) -> None:
    looks = 0

    def clock() -> datetime:
        """The third look at the clock is the one right before the intent."""
        nonlocal looks
        looks += 1
        if looks == 3:
            with db.writing(engine) as other:
                other.get_one(Subscriber, cast[BOB].id).state = SubscriberState.UNSUBSCRIBED
                other.commit()
        return now

    memory = Memory()
    report = deliver(session, memory, clock=clock)

    assert report == Report(sent=2, suppressed=1)
    assert BOB not in [message.recipient for message in memory.messages]


def test_a_letter_whose_reader_changed_meanwhile_is_written_anew(
    engine: Engine,
    session: Session,
    letters: dict[str, int],
    cast: dict[str, Subscriber],
    deliver: Callable[..., Report],
    now: datetime,
) -> None:
    looks = 0

    def clock() -> datetime:
        nonlocal looks
        looks += 1
        if looks == 2:  # right before the intent
            with db.writing(engine) as other:
                other.get_one(Subscriber, cast[BOB].id).epoch += 1
                other.commit()
        return now

    memory = Memory()
    report = deliver(session, memory, clock=clock)

    assert report == Report(sent=3)
    assert [message.recipient for message in memory.messages][-1] == BOB


def test_what_expired_in_doubt_stays_shown(
    session: Session,
    digests: None,
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
    cast: dict[str, Subscriber],
) -> None:
    server, transport = faulty
    server.plan = lambda recipient: Fault.DOT_DROP if recipient == BOB else Fault.RCPT_450
    deliver(session, transport)

    report = deliver(session, transport, after=timedelta(days=1))

    assert report == Report(expired=3)
    assert states(session)[BOB] == ("expired", 1, 1)
    assert set(session.scalars(select(Shown.subscriber_id))) == {cast[BOB].id}


# ── never a second, different mail ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "expected"), [(Fault.DOT_DROP, Report(stuck=3)), (Fault.RCPT_450, Report(sent=3))]
)
def test_other_bytes_are_sent_only_if_certainly_nobody_has_the_first(
    session: Session,
    letters: dict[str, int],
    cast: dict[str, Subscriber],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
    fault: Fault,
    expected: Report,
) -> None:
    server, transport = faulty
    server.plan = lambda _recipient: fault
    deliver(session, transport)
    for one in cast.values():
        one.epoch += 1
    session.commit()
    server.plan = lambda _recipient: None

    assert deliver(session, transport, after=timedelta(hours=1)) == expected


def test_a_letter_that_cannot_be_written_stops_no_other(
    session: Session, site: Site, letters: dict[str, int], deliver: Callable[..., Report], now: datetime
) -> None:
    outbox.put_letter(
        session, letter="nonsense", subscriber_id=None, email="dora@example.org", decision={}, dedupe_key="x",
        site=site, now=now,
    )  # fmt: skip

    report = deliver(session, Memory())

    assert report == Report(sent=3, stuck=1)
    assert states(session)["dora@example.org"] == ("stuck", 0, 0)


@pytest.mark.usefixtures("digests")
@pytest.mark.parametrize("decision", ['{"sections": [[', "{}", '{"sections": 7}', "null"])
def test_a_decision_that_cannot_be_read_stops_no_other(
    session: Session, site: Site, templates: Templates, now: datetime, decision: str
) -> None:
    session.execute(update(Delivery).where(Delivery.email == BOB).values(decision=decision))
    session.commit()

    delivery.deliver(session, site=site, templates=templates, transport=Memory(), clock=lambda: now)

    assert {who: state for who, (state, _, _) in states(session).items()} == {
        ALICE: "sent", BOB: "stuck", CHARLIE: "sent",
    }  # fmt: skip


def test_a_digest_leaves_nothing_behind_that_only_the_collector_would_find(
    session: Session, site: Site, templates: Templates, now: datetime, deliver: Callable[..., Report]
) -> None:
    for path in (ROOT / "digest" / "sample").glob("*.txt"):
        intake.load(session, path, now=now - timedelta(hours=1))
    for number in range(200):
        subscriptions.add(
            session, f"reader-{number}@example.org", state=SubscriberState.ACTIVE, consent="a test", now=now
        )
    publishing.publish(session, site=site, templates=templates, now=now)
    deliver(session, Memory(), limit=100)  # what the first letters prepare for all others stays
    gc.collect()

    with garbage.held_off():
        report = deliver(session, Memory())
        left = gc.collect()

    assert report == Report(sent=100)
    assert left < 100, "a run holds the collector off until it ends"


# ── stopping ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_reads_a_filter_once_and_remembers_only_so_many(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.add_all([FilterRow(id=number, canonical=f"word{number}") for number in (1, 2, 3)])
    session.flush()

    def naming(*numbers: int | None) -> list[Any]:
        return [SimpleNamespace(sections=[SimpleNamespace(filter_id=each)]) for each in numbers]

    known = gathering.filters(session, naming(1, 2, None), {})
    assert known == {1: "word1", 2: "word2"}
    assert gathering.filters(session, naming(2, 1), known) is known
    assert gathering.filters(session, naming(3), known) == {**known, 3: "word3"}
    monkeypatch.setattr(gathering, "MOST_KNOWN", 2)
    assert gathering.filters(session, naming(1, 3), known) == {1: "word1", 3: "word3"}


def test_a_run_takes_up_no_more_than_its_limit(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    assert deliver(session, Memory(), limit=2) == Report(sent=2)
    assert deliver(session, Memory()) == Report(sent=1)


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_not_begun(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    memory = Memory()

    report = deliver(session, memory, window=1, is_stopping=lambda: bool(memory.messages))

    assert report == Report(sent=1)
    assert deliver(session, memory) == Report(sent=2)


def test_an_interrupted_run_gives_back_what_it_has_not_begun(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    def interrupt(_done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(session, Memory(), window=1, progress=interrupt)

    assert sorted(states(session).values()) == [("queued", 0, 0), ("queued", 0, 0), ("sent", 1, 0)]
    assert deliver(session, Memory()) == Report(sent=2)


def test_a_run_without_patience_left_begins_nothing(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    assert deliver(session, Memory(), patience=timedelta(0)) == Report()
    assert deliver(session, Memory()) == Report(sent=3)


def test_progress_tells_how_many_are_done(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report]
) -> None:
    told: list[int] = []

    deliver(session, Memory(), window=2, progress=told.append)

    assert told == [2, 3]


def test_a_reminder_reaches_who_has_not_confirmed_yet(
    session: Session, site: Site, now: datetime, deliver: Callable[..., Report]
) -> None:
    subscriptions.ask(session, site, "dora@example.org", now=now)
    mailbox = Memory()
    deliver(session, mailbox)
    subscriptions.remind_unanswered(session, site, now + timedelta(hours=24))

    deliver(session, mailbox, after=timedelta(hours=24))

    assert [b"the only reminder" in message.content for message in mailbox.messages] == [False, True]
    assert mailbox.messages[1].recipient == "dora@example.org"


# ── signatures ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def signer(site: Site) -> Signer:
    pem = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return dkim.ring(pem.decode(), "mail", domain=site.domain)[0]


def verifies(raw: bytes, signer: Signer) -> bool:
    record = signer.dns_record.encode()
    return bool(oracle.DKIM(raw).verify(dnsfunc=lambda *_, **__: record))


def test_every_letter_is_signed_the_digest_with_its_one_click_header(
    session: Session, digests: None, letters: dict[str, int], deliver: Callable[..., Report], signer: Signer
) -> None:
    mailbox = Memory()

    assert deliver(session, mailbox, signers=[signer]).sent == 6

    raws = [message.content for message in mailbox.messages]
    assert [verifies(raw, signer) for raw in raws] == [True] * 6
    assert sum(b"list-unsubscribe-post" in raw.partition(b"bh=")[0] for raw in raws) == 3


def test_a_new_signing_key_between_two_attempts_does_not_make_it_another_letter(
    session: Session, letters: dict[str, int], deliver: Callable[..., Report], signer: Signer,
    faulty: tuple[FaultyServer, Smtp],
) -> None:  # fmt: skip
    server, transport = faulty
    server.plan = lambda _recipient: Fault.DOT_DROP
    assert deliver(session, transport, signers=[signer]).in_doubt > 0

    report = deliver(session, Memory(), after=timedelta(hours=1))

    assert (report.sent, report.stuck) == (3, 0)


def test_what_the_server_calls_the_letter_is_kept_with_the_attempt(
    session: Session,
    letters: dict[str, int],
    deliver: Callable[..., Report],
    faulty: tuple[FaultyServer, Smtp],
) -> None:
    deliver(session, faulty[1])

    assert {attempt.code for attempt in session.scalars(select(Attempt))} == {250}
    assert all(attempt.reply for attempt in session.scalars(select(Attempt)))
