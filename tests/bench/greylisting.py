"""Simulate a morning of 1,500 readers, some with greylisting servers; no letter may expire unsent.

The real delivery runs with the default limits; the clock and the mail server are simulated. A greylisting
domain defers each pair of sender and recipient for five minutes. Every letter has its own sender and is
therefore new to the domain, and every retry must have the same pair.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, Lane
from digest.delivery import delivery_run
from digest.delivery.limits import emergency_stops
from digest.delivery.outbox import enqueue
from digest.delivery.transports.transport import Message, Outcome, Verdict
from digest.letters.templates import Templates
from digest.settings import load_settings, templates_dir
from digest.site.site_profile import Site
from tests.bench.world import SITE
from tests.support.clock import Clock
from tests.support.plain_letters import plain_letter
from tests.support.shared_caches import CACHES

BEGIN = datetime(2026, 11, 20, 6, tzinfo=UTC)
MORNING = timedelta(hours=6)
SWEEP = timedelta(seconds=3)
LETTER = timedelta(milliseconds=20)  #: the time that handing over a letter takes
GREYLISTED_FOR = timedelta(minutes=5)
HOURS, APART = 24, timedelta(minutes=5)  #: number of due times, and the time between two of them
READERS, SHARES = 1_500, (3, 10, 30, 60, 100)
SHAPES = {"100 domains": 100, "10 domains": 10, "one domain": 1}
FACTS = {"commands": [], "manage_url": "", "message": "It", "fix": "Fix it.", "since": "", "facts": []}


@dataclass(kw_only=True)
class GreylistingServer:
    """A transport to servers, some of which greylist; every message advances the clock."""

    clock: Clock
    domains: frozenset[str]  #: the domains that greylist
    first_seen: dict[tuple[str, str], datetime] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)  #: number of attempts, keyed by recipient

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Accept or defer each letter."""
        for message in window:
            self.clock.now += LETTER
            self.tried[message.recipient] += 1
            yield self.outcome(message)

    def outcome(self, message: Message) -> Outcome:
        """Defer a letter if its domain greylists and its pair is younger than five minutes."""
        first = self.first_seen.setdefault((message.sender, message.recipient), self.clock.now)
        is_known = self.clock.now - first >= GREYLISTED_FOR
        if is_known or message.recipient.partition("@")[2] not in self.domains:
            return Outcome(delivery_id=message.delivery_id, verdict=Verdict.ACCEPTED, phase="dot", code=250)
        return Outcome(
            delivery_id=message.delivery_id, verdict=Verdict.DEFERRED, phase="rcpt", code=451,
            reply="4.7.1 Greylisted, please try again in 300 seconds",
        )  # fmt: skip

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


@dataclass(frozen=True, kw_only=True)
class MorningOutcome:
    """The outcome of a morning."""

    states: Counter[str]
    never_tried: int
    longest: timedelta  #: maximum time from a letter's due time until it is sent
    tries: int  #: maximum number of attempts for one letter
    is_stopped: bool

    @property
    def holds(self) -> bool:
        """Return whether every letter was sent."""
        return set(self.states) == {"sent"} and not self.is_stopped


def simulate_morning(
    session: Session, site: Site, *, readers: int, domains: int, share: int, window: int = 50
) -> MorningOutcome:
    """Simulate six hours in which `share` percent of the domains greylist."""
    names = [f"d{number}.example" for number in range(domains)]
    grey = frozenset(Random(7).sample(names, -(-domains * share // 100)))
    clock = Clock(BEGIN)
    server = GreylistingServer(clock=clock, domains=grey)
    templates = Templates(templates_dir())
    for number in range(readers):
        enqueue.queue_letter(
            session, letter=plain_letter("help", f"letter-{number}", FACTS), subscriber_id=None, email=f"r{number}@{names[number % domains]}",
            site=site, now=BEGIN, lane=Lane.BULK,
            due_at=hour_of(number, readers), expires_at=BEGIN + MORNING,
        )  # fmt: skip
    session.commit()
    while (due_at := next_due(session)) and due_at <= BEGIN + MORNING:
        clock.now = max(clock.now, due_at) + SWEEP
        delivery_run.deliver(
            session, site=site, templates=templates, caches=CACHES, transport=server, clock=clock, window=window,
            limits=load_settings({}).limits, max_time=timedelta(seconds=20),
        )  # fmt: skip
        if emergency_stops.active_stops(session):
            break
    return figures(session, server, readers)


def hour_of(number: int, readers: int) -> datetime:
    """Return when a reader's letter is due."""
    return BEGIN + number * HOURS // readers * APART


def next_due(session: Session) -> datetime | None:
    """Return when the next letter is due."""
    found = session.scalar(select(func.min(Delivery.due_at)).where(Delivery.settled_at.is_(None)))
    session.rollback()
    return found


def figures(session: Session, server: GreylistingServer, readers: int) -> MorningOutcome:
    """Count the outcome of every letter."""
    session.expire_all()
    rows = session.scalars(select(Delivery).where(Delivery.state == "sent").order_by(Delivery.id)).all()
    hours = {
        plain_letter("help", f"letter-{number}").key: hour_of(number, readers) for number in range(readers)
    }
    waits = [row.settled_at - hours[row.dedupe_key or ""] for row in rows if row.settled_at]
    return MorningOutcome(
        states=Counter(str(state) for state in session.scalars(select(Delivery.state))),
        never_tried=readers - len(server.tried),
        longest=max(waits, default=timedelta()),
        tries=max(server.tried.values(), default=0),
        is_stopped=bool(emergency_stops.active_stops(session)),
    )


def main(full: bool) -> int:
    """Simulate a morning for each share of greylisting domains, in domains of several sizes."""
    print(f"   {READERS:,} readers; domains that greylist for five minutes; six hours")
    fails = 0
    for shape, domains in SHAPES.items():
        for share in SHARES if domains > 1 else (100,):
            for window in (50, 1) if full else (50,):
                with tempfile.TemporaryDirectory() as folder:
                    engine = db.make_engine(f"sqlite:///{Path(folder) / 'morning.sqlite3'}")
                    db.upgrade(engine)
                    with db.write_session(engine) as session:
                        found = simulate_morning(
                            session, SITE, readers=READERS, domains=domains, share=share, window=window
                        )
                    engine.dispose()
                fails += not found.holds
                print(
                    f"   {shape:>11}, {share:3} % greylist, windows of {window:2}: {in_words(found)}",
                    flush=True,
                )
    return 1 if fails else 0


def in_words(found: MorningOutcome) -> str:
    """Return the figures as a line."""
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(found.states.items()))
    stop = "; mail was STOPPED" if found.is_stopped else ""
    minutes = found.longest.total_seconds() / 60
    return (
        f"{states}; {found.never_tried} never tried; the longest wait {minutes:.0f} min;"
        f" at most {found.tries} tries{stop}"
    )
