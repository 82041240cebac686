"""A worker for the chaos suite: the real delivery on a real database, with its waits made short.

    python -m tests.chaos.worker '{"database": ..., "port": ..., "window": ..., "failpoint": ..., "mutant": ...}'

It delivers until its standard input is closed, or until nothing is open if it is told to drain.
"""

from __future__ import annotations

import json
import logging
import select
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from digest import db, delivery, failpoints, outbox, rates
from digest.delivery import runs
from digest.links import Site
from digest.model import DeliveryState
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

    def intend(self, window: Any, written: Any) -> dict[int, Any]:
        going = super().intend(window, written)
        now, lease = self.clock(), window[0].lease
        outbox.end(self.session, going, DeliveryState.SENT, was=DeliveryState.SENDING, lease=lease, now=now)
        self.session.commit()
        return going


class NoIntent(runs.Run):
    """A mutant: keeps its intent to itself until the outcome. Whoever dies sends again, and counts no doubt."""

    def intend(self, window: Any, written: Any) -> dict[int, Any]:
        commit, self.session.commit = self.session.commit, lambda: None  # type: ignore[method-assign]
        try:
            return super().intend(window, written)
        finally:
            self.session.commit = commit  # type: ignore[method-assign]


MUTANTS = {"mark first": MarkFirst, "no intent": NoIntent}


def hurry() -> None:
    """Make the product's waits short enough for a test; their order stays what it is."""
    outbox.LEASE = LEASE
    outbox.FIRST_BACKOFF, outbox.LONGEST_BACKOFF = timedelta(seconds=0.2), timedelta(seconds=1)
    runs.PAUSE = timedelta(seconds=0.2)
    rates.FIRST_PAUSE, rates.LONGEST_PAUSE = timedelta(seconds=0.2), timedelta(seconds=1)


def main(told: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.ERROR)
    hurry()
    runs.Run = MUTANTS.get(told.get("mutant", ""), runs.Run)  # type: ignore[misc]
    if told.get("failpoint"):
        failpoints.armed[told["failpoint"]] = told.get("spared", 0)
    engine = db.connect(told["database"])
    templates = Templates(templates_dir())
    skew = timedelta(seconds=told.get("skew", 0))
    transport = Smtp(
        Server(scheme="smtp", host="127.0.0.1", port=told["port"]), helo="example.org", patience=PATIENCE
    )
    while not is_told_to_stop():
        with db.writing(engine) as session:
            delivery.deliver(
                session,
                site=SITE,
                templates=templates,
                transport=transport,
                clock=lambda: datetime.now(UTC) + skew,
                window=told["window"],
                patience=timedelta(seconds=1),
                is_stopping=is_told_to_stop,
            )
            if told.get("drain") and not is_anything_open(session):
                break
        time.sleep(0.05)
    transport.close()


def is_told_to_stop() -> bool:
    """Return whether our standard input has been closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def is_anything_open(session: Any) -> bool:
    """Return whether a delivery has not come to its end."""
    found = outbox.counts(session)
    return any(found[state] for state in (DeliveryState.QUEUED, DeliveryState.CLAIMED, DeliveryState.SENDING))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
