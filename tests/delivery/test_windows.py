"""A letter is sent only if nothing blocks it when the intent of its window is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Attempt, Delivery
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import delivery_run, worker_loop
from digest.delivery.delivery_run import UNLIMITED, DeliveryReport
from digest.delivery.limits import emergency_stops, limit_rules
from digest.delivery.limits.decisions import ALL
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.outbox import enqueue, transitions
from digest.delivery.outbox.transitions import ClaimedDelivery
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Message, Outcome
from digest.errors import Unreachable
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from digest.subscribers import operator_acts, subscriber_rows
from tests.support.plain_letters import plain_letter
from tests.support.shared_caches import CACHES

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
READERS = [f"reader{number}@example.org" for number in range(6)]
COUNTED = SendLimits(rates=limit_rules.parse_rates("1000/s"))


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
            enqueue.queue_letter(
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


def test_outcome_of_a_window_is_committed_before_the_next_one_is_sent(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine
) -> None:
    seen: list[list[str]] = []

    def look(_window: int) -> None:
        with db.read_session(postgres_engine) as session:
            seen.append(list(session.scalars(select(Delivery.state).order_by(Delivery.id))))

    assert deliver(Watched(happens=look)) == DeliveryReport(sent=6)

    assert seen == [
        ["sending"] * 2 + ["claimed"] * 4,
        ["sent"] * 2 + ["sending"] * 2 + ["claimed"] * 2,
        ["sent"] * 4 + ["sending"] * 2,
    ]
    with db.read_session(postgres_engine) as session:
        assert session.query(Attempt).count() == 6


def test_claim_with_a_lost_commit_reply_is_requeued_and_claimed_again(
    deliver: Callable[[Watched], DeliveryReport], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, losses = transitions.claim, ["the connection"]

    def lossy(session: Session, **options: Any) -> list[ClaimedDelivery]:
        found, commit = claim(session, **options), session.commit

        def lost() -> None:
            session.commit = commit  # type: ignore[method-assign]
            commit()
            raise OperationalError(None, None, Exception(losses.pop()), connection_invalidated=True)

        if transport.windows and losses:
            session.commit = lost  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(worker_loop, "WINDOWS_PER_CLAIM", 1)
    monkeypatch.setattr(transitions, "claim", lossy)
    transport = Watched()

    with pytest.raises(Unreachable, match="the connection"):
        deliver(transport)
    assert transport.windows == [READERS[:2]]
    assert deliver(transport) == DeliveryReport(sent=4)
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


# ── at the last moment ───────────────────────────────────────────────────────────────────────


def unsubscribes(session: Session, site: Site, now: datetime) -> None:
    operator_acts.remove_by_operator(session, READERS[2], operator="mara", now=now)


@pytest.mark.parametrize("rules", [UNLIMITED, COUNTED])
@pytest.mark.parametrize("happens", [unsubscribes, is_suppressed])
def test_letter_is_not_sent_if_its_reader_leaves_before_the_intent(
    deliver: Callable[..., DeliveryReport],
    postgres_engine: Engine,
    site: Site,
    now: datetime,
    happens: Callable[[Session, Site, datetime], None],
    rules: SendLimits,
) -> None:
    transport = Watched()

    with before_the_intent(postgres_engine, window=1, happens=lambda session: happens(session, site, now)):
        report = deliver(transport, limits=rules)

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
