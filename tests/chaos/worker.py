"""Run a worker for the chaos suite: the real delivery on a real database, with short waits."""

from __future__ import annotations

import logging
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import database_retries, delivery_run, outbox, settlement, worker_loop
from digest.delivery.limits import domain_pauses
from digest.delivery.outbox import Outbox, backoff, postgresql, transitions
from digest.delivery.send_policy import SendPolicy
from digest.delivery.transports.smtp import MailServer, SmtpTransport, Timeouts
from digest.errors import DigestError
from digest.letters.templates import Templates
from digest.process import child_processes, failpoints
from digest.settings import templates_dir
from digest.site.site_profile import Site
from tests.support.shared_caches import CACHES

SITE = Site(
    url="https://digest.example.org", sender_address="digest@example.org", keys=(b"chaos",), pepper=b"pepper"
)
LEASE = timedelta(seconds=1.5)
TIMEOUTS = Timeouts(window=1, connect=0.5, command=0.5, body=0.5, dot=0.5, quit=0.1)


class MarkFirst(Outbox):
    """A mutant that marks letters as sent before it sends them. A crash in between loses them."""

    def intend(self, intents: Any, *, lease: str, until: datetime) -> set[int]:
        held = super().intend(intents, lease=lease, until=until)
        return self.settle(
            held, DeliveryState.SENT, from_state=DeliveryState.SENDING, lease=lease, now=until - LEASE
        )


class NoIntent(Outbox):
    """A mutant that does not commit the intent before the outcome.

    After a crash, it sends the letter again without having counted a doubt.
    """

    def intend(self, intents: Any, *, lease: str, until: datetime) -> set[int]:
        commit = self.session.commit

        def commit_next_time() -> None:
            self.session.commit = commit  # type: ignore[method-assign]

        self.session.commit = commit_next_time  # type: ignore[method-assign]
        keep_uncommitted(self.session)
        return super().intend(intents, lease=lease, until=until)


class MarkFirstInOneGo(postgresql.PostgresqlOutbox):
    """The same mistake as in `MarkFirst`, in the single statement of the fast path."""

    @contextmanager
    def settle_and_intend(self, *given: Any, **details: Any) -> Iterator[Any]:
        for name in ("INTEND_STATEMENT", "SETTLE_AND_INTEND_STATEMENT"):
            statement = getattr(postgresql, name)
            marking = statement.replace("'sending', ", "'sent', lease = NULL, settled_at = %(now)s, ")
            setattr(postgresql, name, marking)
        with super().settle_and_intend(*given, **details) as fetch:
            yield fetch


class NoIntentInOneGo(postgresql.PostgresqlOutbox):
    """The second mistake on the fast path: it takes a reply for a commit, and commits each intent with the
    next statement.
    """

    @contextmanager
    def settle_and_intend(self, *given: Any, **details: Any) -> Iterator[Any]:
        keep_uncommitted(self.session)
        postgresql.pipelined_query = uncommitted_query
        with super().settle_and_intend(*given, **details) as fetch:
            yield fetch


@contextmanager
def uncommitted_query(session: Any, statement: str, parameters: Any) -> Iterator[Any]:
    """Commit the previous statement, and execute this statement without a commit."""
    session.commit()
    yield session.connection().connection.driver_connection.execute(statement, parameters)


def keep_uncommitted(session: Any) -> None:
    """Let the next settlement keep uncommitted changes."""
    session.rollback = lambda: None


@dataclass(frozen=True)
class BrokenOutbox:
    """A broken outbox, and whether it breaks the fast path or the path with individual checks."""

    design: Any  #: the class that is mixed into the real outbox
    is_fast: bool = False


MUTANTS = {
    "mark first": BrokenOutbox(MarkFirst),
    "no intent": BrokenOutbox(NoIntent),
    "mark first, in one go": BrokenOutbox(MarkFirstInOneGo, is_fast=True),
    "no intent, in one go": BrokenOutbox(NoIntentInOneGo, is_fast=True),
}


def break_outbox(mutant: BrokenOutbox) -> None:
    """Let this process work with a broken outbox."""
    if not mutant.is_fast:
        SendPolicy.is_unrestricted = False  # type: ignore[assignment, method-assign]
    real = outbox.implementation
    outbox.implementation = lambda dialect: type(mutant.design.__name__, (mutant.design, real(dialect)), {})


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The instructions for a worker."""

    database: str
    server: MailServer
    window: int
    drains: bool = False  #: end when nothing is open
    failpoint: str = ""  #: the failpoint at which the worker is killed
    spared: int = 0  #: how often the worker passes this failpoint before it is killed
    mutant: str = ""
    steps: Sequence[
        tuple[float, float]
    ] = ()  #: (seconds after the start, seconds by which the worker's clock is then wrong)
    largest_file: int = 0  #: maximum number of bytes in a file that the worker writes; 0 for no limit


def shorten_waits() -> None:
    """Shorten the product's waits for a test; their order stays the same."""
    outbox.LEASE = transitions.LEASE = LEASE
    transitions.RENEW_AFTER = LEASE / 10
    backoff.FIRST_BACKOFF, backoff.MAX_BACKOFF = timedelta(seconds=0.2), timedelta(seconds=1)
    settlement.SILENT_SERVER_PAUSE, worker_loop.WINDOWS_PER_CLAIM = timedelta(seconds=0.2), 3
    database_retries.MAX_PAUSE = 0.2
    domain_pauses.RETRY_HEAD_START = timedelta(seconds=0.1)
    domain_pauses.FIRST_PAUSE, domain_pauses.MAX_PAUSE = timedelta(seconds=0.2), timedelta(seconds=1)


def count_saved(saved: Any) -> None:
    """Count the letters whose outcome was recorded only by a retry."""
    tries = database_retries.tries

    def counting(session: Any, *, description: str, **details: Any) -> Iterator[database_retries.Try]:
        is_retry = False
        for one in tries(session, description=description, **details):
            is_retry = one.is_retry
            yield one
        if is_retry and description.startswith("the outcome of"):
            with saved.get_lock():
                saved.value += int(description.split()[3])

    database_retries.tries = counting


def work(orders: Orders, saved: Any) -> None:
    """Deliver until killed, or, when draining, until nothing is open."""
    child_processes.end_with_parent(signal.SIGKILL)
    logging.basicConfig(level=logging.CRITICAL)
    shorten_waits()
    count_saved(saved)
    if orders.mutant:
        break_outbox(MUTANTS[orders.mutant])
    if orders.failpoint:
        failpoints.armed_failpoints[orders.failpoint] = orders.spared
    if orders.largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (orders.largest_file, orders.largest_file))
    engine, templates = db.make_engine(orders.database), Templates(templates_dir())
    transport = SmtpTransport(orders.server, helo="example.org", timeouts=TIMEOUTS)
    clock = wrong_clock(orders.steps)
    while True:
        try:
            with db.write_session(engine) as session:
                delivery_run.deliver(
                    session,
                    site=SITE,
                    templates=templates,
                    caches=CACHES,
                    transport=transport,
                    clock=db.common_clock(session, clock),
                    window=orders.window,
                    max_time=timedelta(seconds=1),
                )
                if orders.drains and not is_anything_open(session):
                    break
        except (DigestError, DBAPIError):
            pass  # the task fails; this process runs the next one
        time.sleep(0.05)
    transport.close()


def wrong_clock(steps: Sequence[tuple[float, float]]) -> Any:
    """Return a clock that is set forward and back at given times."""
    began = time.monotonic()

    def clock() -> datetime:
        since = time.monotonic() - began
        offset = next((seconds for after, seconds in reversed(steps) if since >= after), 0.0)
        return datetime.now(UTC) + timedelta(seconds=offset)

    return clock


def is_anything_open(session: Any) -> bool:
    """Return whether a delivery is not settled."""
    found = outbox.count_by_state(session)
    return any(found[state] for state in (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING))
