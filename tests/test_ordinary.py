"""An ordinary window takes one transaction with the one before it; whatever is not ordinary is looked at closely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from digest import bounces, db, delivery, meanwhile, outbox, rates, subscriptions
from digest.bounces import Reason
from digest.delivery import Report, ordinary, runs
from digest.delivery.gates import Gate
from digest.delivery.runs import UNLIMITED, Run
from digest.links import Site
from digest.model import Attempt, Delivery, Lane, Subscriber, SubscriberState
from digest.rendering import Templates
from digest.transport import Message, Outcome
from digest.transport.memory import Memory

READERS = [f"reader{number}@example.org" for number in range(6)]


@dataclass
class Watched(Memory):
    """A transport before whose windows something happens."""

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
) -> Callable[[Watched], Report]:
    """Write a letter to each reader, and deliver them in windows of two."""
    with db.writing(postgres_engine) as session:
        for email in READERS:
            one = subscriptions.add(session, email, state=SubscriberState.ACTIVE, consent="a test", now=now)
            outbox.put_letter(
                session, letter="settings", subscriber_id=one.id, email=email, decision={},
                dedupe_key=email, site=site, now=now,
            )  # fmt: skip
        session.commit()

    def delivered(transport: Watched) -> Report:
        with db.writing(postgres_engine) as session:
            return delivery.deliver(
                session, site=site, templates=templates, transport=transport, clock=lambda: now, window=2
            )

    return delivered


def test_the_fate_of_a_window_and_the_next_intent_are_one_transaction(
    deliver: Callable[[Watched], Report], postgres_engine: Engine
) -> None:
    seen: list[list[tuple[str, str]]] = []

    def look(_window: int) -> None:
        with db.reading(postgres_engine) as session:
            rows = session.execute(text("SELECT state, CAST(xmin AS text) FROM delivery ORDER BY id"))
            seen.append([(row[0], row[1]) for row in rows])

    assert deliver(Watched(happens=look)) == Report(sent=6)

    assert [[state for state, _ in rows] for rows in seen] == [
        ["sending"] * 2 + ["claimed"] * 4,
        ["sent"] * 2 + ["sending"] * 2 + ["claimed"] * 2,
        ["sent"] * 4 + ["sending"] * 2,
    ]
    assert len({version for _, version in seen[1][:4]}) == 1
    assert len({version for _, version in seen[2][2:]}) == 1
    with db.reading(postgres_engine) as session:
        assert session.query(Attempt).count() == 6


def test_the_last_window_of_a_claim_is_told_with_the_first_intent_of_the_next(
    deliver: Callable[[Watched], Report], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "WINDOWS_AT_ONCE", 1)
    seen: list[list[str]] = []

    def look(_window: int) -> None:
        with db.reading(postgres_engine) as session:
            rows = session.execute(text("SELECT state, CAST(xmin AS text) FROM delivery ORDER BY id")).all()
            seen.append([row[0] for row in rows])
            if len(seen) == 2:
                assert len({version for _, version in rows[:4]}) == 1

    assert deliver(Watched(happens=look)) == Report(sent=6)

    assert seen == [
        ["sending"] * 2 + ["queued"] * 4,
        ["sent"] * 2 + ["sending"] * 2 + ["queued"] * 2,
        ["sent"] * 4 + ["sending"] * 2,
    ]


def test_a_claim_whose_end_is_not_heard_of_is_put_back_and_claimed_anew(
    deliver: Callable[[Watched], Report], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, losses = outbox.claim, ["the connection"]

    def lossy(session: Session, **asked: Any) -> list[outbox.Claimed]:
        found, commit = claim(session, **asked), session.commit

        def lost() -> None:
            session.commit = commit  # type: ignore[method-assign]
            commit()
            raise OperationalError(None, None, Exception(losses.pop()), connection_invalidated=True)

        if transport.windows and losses:
            session.commit = lost  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(runs, "WINDOWS_AT_ONCE", 1)
    monkeypatch.setattr(outbox, "claim", lossy)
    transport = Watched()

    assert deliver(transport) == Report(sent=6)
    assert transport.windows == [READERS[:2], READERS[2:4], READERS[4:]]


def is_suppressed(session: Session, site: Site, now: datetime) -> None:
    bounces.suppress(session, site, READERS[2], Reason.OPERATOR, "", now)


def is_taken_over(session: Session, site: Site, now: datetime) -> None:
    session.execute(update(Delivery).where(Delivery.email == READERS[2]).values(lease="another's"))


@pytest.mark.parametrize("happens", [is_suppressed, is_taken_over])
def test_who_may_not_be_written_to_any_more_is_left_out_though_their_letter_is_written(
    deliver: Callable[[Watched], Report],
    postgres_engine: Engine,
    site: Site,
    now: datetime,
    happens: Callable[[Session, Site, datetime], None],
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.writing(postgres_engine) as session:
                happens(session, site, now)
                session.commit()

    transport = Watched(happens=once)
    report = deliver(transport)

    assert report.sent == 5
    assert transport.windows == [READERS[:2], READERS[3:4], READERS[4:]]


def test_who_changes_their_settings_meanwhile_gets_a_letter_that_says_so(
    deliver: Callable[[Watched], Report], postgres_engine: Engine
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.writing(postgres_engine) as session:
                changing = update(Subscriber).where(Subscriber.email == READERS[2])
                session.execute(changing.values(timezone="Europe/Oslo"))
                session.commit()

    transport = Watched(happens=once)

    assert deliver(transport) == Report(sent=6)
    assert transport.windows == [READERS[:2], READERS[3:4], READERS[4:], READERS[2:3]]


def test_a_transaction_whose_end_is_not_heard_of_is_counted_once_and_nobody_is_left_in_doubt(
    deliver: Callable[[Watched], Report], postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, losses = meanwhile.asked, ["the connection"]

    @contextmanager
    def lossy(session: Session, question: str, given: Any) -> Iterator[Any]:
        with asked(session, question, given) as answer:
            yield answer
        if question == ordinary.TELLING and losses:
            raise OperationalError(None, None, Exception(losses.pop()), connection_invalidated=True)

    monkeypatch.setattr(meanwhile, "asked", lossy)
    transport = Watched()

    assert deliver(transport) == Report(sent=6)
    assert sorted(message.recipient for message in transport.messages) == READERS
    with db.reading(postgres_engine) as session:
        found = session.execute(select(Delivery.state, Delivery.attempts, Delivery.in_doubt))
        assert {tuple(row) for row in found} == {("sent", 1, 0)}
        assert session.query(Attempt).count() == 6


def test_what_was_written_ahead_and_given_back_is_written_anew(
    postgres_engine: Engine,
    site: Site,
    templates: Templates,
    now: datetime,
    deliver: Callable[[Watched], Report],
) -> None:
    with db.writing(postgres_engine) as session:
        run = Run(
            session=session, site=site, templates=templates, transport=Memory(), clock=lambda: now,
            gate=Gate(session=session, rules=UNLIMITED),
        )  # fmt: skip
        run.claim(Lane.PROMPT, 6)
        run.send(run.desk(run.left), 2)
        first = run.ahead.copy()
        run.give_back()
        run.claim(Lane.PROMPT, 6)

        assert len(first) == 2
        assert run.ahead == {}
        run.give_back()


def test_a_stop_holds_up_what_is_written_ahead(
    deliver: Callable[[Watched], Report], postgres_engine: Engine, now: datetime
) -> None:
    def once(window: int) -> None:
        if window == 0:
            with db.writing(postgres_engine) as session:
                rates.stop(session, "a test", covers=rates.ALL, now=now)
                session.commit()

    transport = Watched(happens=once)

    assert deliver(transport).sent == 2
    assert transport.windows[0] == READERS[:2]
    assert not any(transport.windows[1:])
