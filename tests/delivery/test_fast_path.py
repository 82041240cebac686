"""A window on the fast path shares one transaction with the one before it; any other window is checked
individually.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run, outbox, worker_loop
from digest.delivery.delivery_run import DeliveryReport
from digest.delivery.limits import emergency_stops, limit_rules
from digest.delivery.limits.decisions import ALL, Wait
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.message_rendering import RenderContext
from digest.delivery.outbox import Outbox, postgresql
from digest.delivery.send_policy import SendPolicy
from digest.delivery.steps import Claimed, Rendered, Settled, Step
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Message, Outcome
from digest.delivery.worker_loop import UNLIMITED, Worker
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from digest.subscribers import operator_acts, subscriber_rows
from tests.support.plain_letters import plain_letter
from tests.support.shared_caches import CACHES

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
READERS = [f"reader{number}@example.org" for number in range(6)]
COUNTED = SendLimits(rates=limit_rules.parse_rates("1000/s"))  #: with them windows are checked individually


@dataclass
class Watched(MemoryTransport):
    """A transport that does something before each window."""

    happens: Callable[[int], None] = lambda _window: None
    windows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        self.happens(len(self.windows))
        self.windows.append([message.recipient for message in window])
        yield from super().send(window)


@pytest.fixture
def deliver(
    postgres_engine: Engine, site: Site, templates: Templates, now: datetime
) -> Callable[[Watched], DeliveryReport]:
    """Write a letter to each reader, and deliver them in windows of two."""
    with db.write_session(postgres_engine) as session:
        for email in READERS:
            one = subscriber_rows.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
            outbox.queue_letter(
                session, letter=plain_letter("welcome", email), subscriber_id=one.id, email=email,
                site=site, now=now,
            )  # fmt: skip
        session.commit()

    def delivered(transport: Watched, **details: Any) -> DeliveryReport:
        with db.write_session(postgres_engine) as session:
            return delivery_run.deliver(
                session,
                site=site,
                templates=templates,
                caches=CACHES,
                transport=transport,
                clock=lambda: now,
                window=2,
                **details,
            )

    return delivered


def test_outcome_of_a_window_and_the_next_intent_are_one_transaction(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine
) -> None:
    seen: list[list[tuple[str, str]]] = []

    def look(_window: int) -> None:
        with db.read_session(postgres_engine) as session:
            rows = session.execute(text("SELECT state, CAST(xmin AS text) FROM delivery ORDER BY id"))
            seen.append([(row[0], row[1]) for row in rows])

    assert deliver(Watched(happens=look)) == DeliveryReport(sent=6)

    assert [[state for state, _ in rows] for rows in seen] == [
        ["sending"] * 2 + ["claimed"] * 4,
        ["sent"] * 2 + ["sending"] * 2 + ["claimed"] * 2,
        ["sent"] * 4 + ["sending"] * 2,
    ]
    assert len({version for _, version in seen[1][:4]}) == 1
    assert len({version for _, version in seen[2][2:]}) == 1
    with db.read_session(postgres_engine) as session:
        assert session.query(Attempt).count() == 6


def test_last_window_of_a_claim_is_settled_with_the_first_intent_of_the_next(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_loop, "WINDOWS_PER_CLAIM", 1)
    seen: list[list[str]] = []

    def look(_window: int) -> None:
        with db.read_session(postgres_engine) as session:
            rows = session.execute(text("SELECT state, CAST(xmin AS text) FROM delivery ORDER BY id")).all()
            seen.append([row[0] for row in rows])
            if len(seen) == 2:
                assert len({version for _, version in rows[:4]}) == 1

    assert deliver(Watched(happens=look)) == DeliveryReport(sent=6)

    assert seen == [
        ["sending"] * 2 + ["queued"] * 4,
        ["sent"] * 2 + ["sending"] * 2 + ["queued"] * 2,
        ["sent"] * 4 + ["sending"] * 2,
    ]


def test_claim_with_a_lost_commit_reply_is_requeued_and_claimed_again(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, losses = Outbox.claim, ["the connection"]

    def lossy(box: Outbox, **options: Any) -> list[outbox.ClaimedDelivery]:
        session = box.session
        found, commit = claim(box, **options), session.commit

        def lost() -> None:
            session.commit = commit  # type: ignore[method-assign]
            commit()
            raise OperationalError(None, None, Exception(losses.pop()), connection_invalidated=True)

        if transport.windows and losses:
            session.commit = lost  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(worker_loop, "WINDOWS_PER_CLAIM", 1)
    monkeypatch.setattr(Outbox, "claim", lossy)
    transport = Watched()

    assert deliver(transport) == DeliveryReport(sent=6)
    assert transport.windows == [READERS[:2], READERS[2:4], READERS[4:]]


def is_suppressed(session: Session, site: Site, now: datetime) -> None:
    suppressions.suppress(session, site, READERS[2], SuppressionReason.OPERATOR, "", now)


def is_taken_over(session: Session, site: Site, now: datetime) -> None:
    session.execute(update(Delivery).where(Delivery.email == READERS[2]).values(lease="another's"))


@pytest.mark.parametrize("happens", [is_suppressed, is_taken_over])
def test_blocked_recipient_is_left_out_though_their_letter_is_rendered(
    deliver: Callable[[Watched], DeliveryReport],
    postgres_engine: Engine,
    site: Site,
    now: datetime,
    happens: Callable[[Session, Site, datetime], None],
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.write_session(postgres_engine) as session:
                happens(session, site, now)
                session.commit()

    transport = Watched(happens=once)
    report = deliver(transport)

    assert report.sent == 5
    assert transport.windows == [READERS[:2], READERS[3:4], READERS[4:]]


def test_changed_settings_appear_in_the_letter(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.write_session(postgres_engine) as session:
                changing = update(Subscriber).where(Subscriber.email == READERS[2])
                session.execute(changing.values(timezone="Europe/Oslo"))
                session.commit()

    transport = Watched(happens=once)

    assert deliver(transport) == DeliveryReport(sent=6)
    assert transport.windows == [READERS[:2], READERS[3:4], READERS[4:], READERS[2:3]]


def test_transaction_with_a_lost_reply_is_counted_once_and_leaves_no_doubt(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, losses = postgresql.pipelined_query, ["the connection"]

    @contextmanager
    def lossy(session: Session, question: str, given: Any) -> Iterator[Any]:
        with original(session, question, given) as answer:
            yield answer
        if question == postgresql.SETTLE_AND_INTEND_STATEMENT and losses:
            raise OperationalError(None, None, Exception(losses.pop()), connection_invalidated=True)

    monkeypatch.setattr(postgresql, "pipelined_query", lossy)
    transport = Watched()

    assert deliver(transport) == DeliveryReport(sent=6)
    assert sorted(message.recipient for message in transport.messages) == READERS
    with db.read_session(postgres_engine) as session:
        found = session.execute(select(Delivery.state, Delivery.attempts, Delivery.in_doubt))
        assert {tuple(row) for row in found} == {("sent", 1, 0)}
        assert session.query(Attempt).count() == 6


def test_letter_rendered_ahead_and_given_back_is_rendered_again(
    postgres_engine: Engine,
    site: Site,
    templates: Templates,
    now: datetime,
    deliver: Callable[[Watched], DeliveryReport],
) -> None:
    with db.write_session(postgres_engine) as session:
        worker = Worker(
            outbox=outbox.open_outbox(session), context=RenderContext(site=site, templates=templates),
            caches=CACHES,
            transport=MemoryTransport(), policy=SendPolicy(session=session, rules=UNLIMITED), clock=lambda: now,
            window=2,
        )  # fmt: skip
        step: Step | None = Claimed(context=worker.context, checked_at=now)
        while step and not isinstance(step, Settled):
            step = worker_loop.next_step(worker, step)

        assert isinstance(step, Settled)
        assert len(step.rest.rendered) == 2
        again = worker_loop.claim(worker, worker_loop.give_back(worker, step.rest))
        assert again
        assert again.rendered == {}
        worker_loop.give_back(worker, again)


def test_stop_holds_up_letters_rendered_ahead(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine, now: datetime
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.write_session(postgres_engine) as session:
                emergency_stops.emergency_stop(session, "a test", scope=ALL, now=now)
                session.commit()

    transport = Watched(happens=once)

    assert deliver(transport).sent == 2
    assert transport.windows[0] == READERS[:2]
    assert not any(transport.windows[1:])


# ── outside the fast path ───────────────────────────────────────────────────────────────────────


def unsubscribes(session: Session, site: Site, now: datetime) -> None:
    operator_acts.remove_by_operator(session, READERS[2], operator="mara", now=now)


@pytest.mark.parametrize("happens", [unsubscribes, is_suppressed])
def test_checked_letter_is_not_sent_if_its_reader_leaves_before_the_intent(
    deliver: Callable[..., DeliveryReport],
    postgres_engine: Engine,
    site: Site,
    now: datetime,
    happens: Callable[[Session, Site, datetime], None],
) -> None:
    transport = Watched()

    with before_the_intent(postgres_engine, window=1, happens=lambda session: happens(session, site, now)):
        report = deliver(transport, limits=COUNTED)

    assert (report.sent, report.suppressed) == (5, 1)
    assert transport.windows == [READERS[:2], READERS[3:4], READERS[4:]]


@contextmanager
def before_the_intent(engine: Engine, *, window: int, happens: Callable[[Session], None]) -> Iterator[None]:
    """Let something be committed after a window was checked, right before its intent is executed."""
    left = [window]

    def act(_connection: Any, _cursor: Any, statement: str, *_given: Any) -> None:
        if statement.startswith("UPDATE delivery SET state = 'sending'"):
            left[0] -= 1
            if left[0] == -1:
                with db.write_session(engine) as session:
                    happens(session)
                    session.commit()

    event.listen(engine, "before_cursor_execute", act)
    yield
    event.remove(engine, "before_cursor_execute", act)


def test_a_letter_that_waited_for_a_token_is_held_no_longer_once_it_is_intended() -> None:
    letters: list[Any] = [SimpleNamespace(id=number) for number in (1, 2, 3)]
    context: Any = None
    intended: dict[int, Any] = {1: None, 3: None}
    waits = {1: Wait(MONDAY, "rate"), 2: Wait(MONDAY, "rate")}
    held = Claimed(deliveries=letters, context=context, checked_at=MONDAY, waits=waits)
    window = Rendered(claimed=held, window=[(each, None) for each in letters])

    rest = worker_loop.begin_sending(window, intended).rest

    assert [each.id for each in rest.deliveries] == [2]
    assert rest.waits == {2: waits[2]}
