"""A worker for the chaos suite: the real delivery on a real database, with its waits made short."""

from __future__ import annotations

import logging
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from digest import db, delivery, failpoints, lifeline, outbox
from digest.delivery import insisting, runs, settling
from digest.errors import DigestError
from digest.links import Site
from digest.model import DeliveryState
from digest.outbox import claiming, postponing
from digest.rates import pausing
from digest.rendering import Templates
from digest.settings import templates_dir
from digest.transport.smtp import Patience, Server, Smtp

SITE = Site(
    url="https://digest.example.org", sender_address="digest@example.org", keys=(b"chaos",), pepper=b"pepper"
)
LEASE = timedelta(seconds=1.5)
PATIENCE = Patience(window=1, connect=0.5, command=0.5, body=0.5, dot=0.5, farewell=0.1)


class MarkFirst(runs.Run):
    """A mutant: calls letters sent before they are. Whoever dies in between loses them."""

    is_ordinary = False  # type: ignore[assignment]

    def intend(self, window: Any, *given: Any) -> dict[int, Any]:
        going = super().intend(window, *given)
        now, lease = self.clock(), window[0].lease
        outbox.end(self.session, going, DeliveryState.SENT, was=DeliveryState.SENDING, lease=lease, now=now)
        self.session.commit()
        return going


class Secretive(runs.Run):
    """What the next two have in common: what was not committed is there when they tell of a window."""

    def tell(self) -> None:
        rollback, self.session.rollback = self.session.rollback, lambda: None  # type: ignore[method-assign]
        try:
            super().tell()
        finally:
            self.session.rollback = rollback  # type: ignore[method-assign]


class NoIntent(Secretive):
    """A mutant: keeps its intent to itself until the outcome. Whoever dies sends again, and counts no doubt."""

    is_ordinary = False  # type: ignore[assignment]

    def intend(self, window: Any, *given: Any) -> dict[int, Any]:
        commit, self.session.commit = self.session.commit, lambda: None  # type: ignore[method-assign]
        try:
            return super().intend(window, *given)
        finally:
            self.session.commit = commit  # type: ignore[method-assign]


class MarkFirstInOneGo(runs.Run):
    """The same mistake in the one question of an ordinary window: its intent is its end."""

    def ask(self, question: Any, write_ahead: Any) -> Any:
        asked, given = question
        marking = asked.replace("'sending', ", "'sent', lease = NULL, settled_at = %(now)s, ")
        return super().ask((marking, given), write_ahead)


class NoIntentInOneGo(Secretive):
    """The same mistake there: it takes an answer for a promise, and commits each intent with the next one's question."""

    def ask(self, question: Any, write_ahead: Any) -> Any:
        self.session.commit()
        driver: Any = self.session.connection().connection.driver_connection
        ended, ours = driver.execute(*question).fetchone()
        write_ahead()
        return ended, set(ours)


MUTANTS = {
    "mark first": MarkFirst,
    "no intent": NoIntent,
    "mark first, in one go": MarkFirstInOneGo,
    "no intent, in one go": NoIntentInOneGo,
}


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What a worker is told."""

    database: str
    server: Server
    window: int
    drains: bool = False  #: end once nothing is open
    failpoint: str = ""  #: where it dies
    spared: int = 0  #: how often it passes there first
    mutant: str = ""
    steps: Sequence[tuple[float, float]] = ()  #: after so many seconds its clock is so many seconds wrong
    largest_file: int = 0  #: bytes to which no file of its may grow


def hurry() -> None:
    """Make the product's waits short enough for a test; their order stays what it is."""
    outbox.LEASE = claiming.LEASE = LEASE
    claiming.FRESH = LEASE / 10
    postponing.FIRST_BACKOFF, postponing.LONGEST_BACKOFF = timedelta(seconds=0.2), timedelta(seconds=1)
    settling.PAUSE, runs.WINDOWS_AT_ONCE = timedelta(seconds=0.2), 3
    insisting.LONGEST_PAUSE = 0.2
    pausing.FIRST_PAUSE, pausing.LONGEST_PAUSE = timedelta(seconds=0.2), timedelta(seconds=1)


def count_saved(saved: Any) -> None:
    """Count the letters whose fate a lost database heard only when it was asked again."""
    insist = insisting.insist

    def counting(session: Any, keep: Callable[[], None], *, what: str, **details: Any) -> None:
        times = 0

        def keep_again() -> None:
            nonlocal times
            times += 1
            keep()

        insist(session, keep_again, what=what, **details)
        if times > 1 and what.startswith("the fate of"):
            with saved.get_lock():
                saved.value += int(what.split()[3])

    insisting.insist = counting


def work(told: Orders, saved: Any) -> None:
    """Deliver until killed, or until nothing is open if told to drain."""
    lifeline.tie(signal.SIGKILL)
    logging.basicConfig(level=logging.CRITICAL)
    hurry()
    count_saved(saved)
    runs.Run = MUTANTS.get(told.mutant, runs.Run)  # type: ignore[misc]
    if told.failpoint:
        failpoints.armed[told.failpoint] = told.spared
    if told.largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (told.largest_file, told.largest_file))
    engine, templates = db.connect(told.database), Templates(templates_dir())
    transport = Smtp(told.server, helo="example.org", patience=PATIENCE)
    clock = wrong(told.steps)
    while True:
        try:
            with db.writing(engine) as session:
                delivery.deliver(
                    session,
                    site=SITE,
                    templates=templates,
                    transport=transport,
                    clock=db.common_clock(session, clock),
                    window=told.window,
                    patience=timedelta(seconds=1),
                )
                if told.drains and not is_anything_open(session):
                    break
        except (DigestError, DBAPIError):
            pass  # as a task fails: this process takes up the next one
        time.sleep(0.05)
    transport.close()


def wrong(steps: Sequence[tuple[float, float]]) -> Any:
    """Return a clock that is put forward and back."""
    began = time.monotonic()

    def clock() -> datetime:
        since = time.monotonic() - began
        off = next((seconds for after, seconds in reversed(steps) if since >= after), 0.0)
        return datetime.now(UTC) + timedelta(seconds=off)

    return clock


def is_anything_open(session: Any) -> bool:
    """Return whether a delivery has not come to its end."""
    found = outbox.counts(session)
    return any(found[state] for state in (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING))
