"""Run a worker for the chaos suite: the real delivery on a real database, with short waits."""

from __future__ import annotations

import logging
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import database_retries, delivery_run, worker_loop
from digest.delivery.limits import domain_pauses
from digest.delivery.outbox import backoff, delivery_listing, transitions
from digest.delivery.outbox.transitions import Ending, settle
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


def mark_first() -> None:
    """Mark letters as sent before they are sent. A crash in between loses them."""
    intend = transitions.intend

    def marking(session: Session, intents: Any, *, lease: str, until: datetime) -> set[int]:
        held = intend(session, intents, lease=lease, until=until)
        sent = [Ending(id=number, state=DeliveryState.SENT) for number in held]
        return settle(session, sent, was=DeliveryState.SENDING, lease=lease, now=until - LEASE)

    transitions.intend = marking


def commit_no_intent() -> None:
    """Commit the intent only with the outcome: after a crash, a letter is sent again without a counted doubt."""
    intend = transitions.intend

    def uncommitted(session: Any, intents: Any, *, lease: str, until: datetime) -> set[int]:
        commit = session.commit

        def commit_next_time() -> None:
            session.commit = commit

        session.commit, session.rollback = commit_next_time, lambda: None
        return intend(session, intents, lease=lease, until=until)

    transitions.intend = uncommitted


MUTANTS = {"mark first": mark_first, "no intent": commit_no_intent}


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
    transitions.LEASE = LEASE
    transitions.RENEW_AFTER = LEASE / 10
    backoff.FIRST_BACKOFF, backoff.MAX_BACKOFF = timedelta(seconds=0.2), timedelta(seconds=1)
    domain_pauses.NO_REPLY_PAUSE, worker_loop.WINDOWS_PER_CLAIM = timedelta(seconds=0.2), 3
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
        MUTANTS[orders.mutant]()
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
    found = delivery_listing.count_by_state(session)
    return any(found[state] for state in (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING))
