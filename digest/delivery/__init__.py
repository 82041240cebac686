"""Delivery: what is in the outbox is rendered, and handed to the transport once.

 claim, commit ─▶ gather ─▶ render ─▶ ask again, intend, commit ─▶ send a window ─▶ settle, commit

Whoever dies between two commits leaves deliveries that come back when their lease is over: clean
before the intent, in doubt after it. Who lives and has lost the database tells it what they know when
it is back. No transaction is open while something is rendered or a server is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest import garbage
from digest.delivery import runs
from digest.delivery.gates import Gate
from digest.links import Site
from digest.model import Lane
from digest.rates import Rules
from digest.rendering import Templates
from digest.rendering.dkim import Signer
from digest.transport import Transport

__all__ = ["Report", "deliver"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What became of the deliveries that were due."""

    sent: int = 0
    deferred: int = 0  #: queued again: the server said later, or none answered
    failed: int = 0
    suppressed: int = 0
    expired: int = 0
    stuck: int = 0
    in_doubt: int = 0  #: accepted or not, nobody can know; tried again when the lease is over


@garbage.held_off()
def deliver(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    transport: Transport,
    clock: Callable[[], datetime],
    signers: Sequence[Signer] = (),
    limits: Rules = runs.UNLIMITED,
    lane: Lane | None = None,
    window: int = 50,
    limit: int | None = None,
    patience: timedelta | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Report:
    """Deliver what is due, prompt letters first, until nothing is left or no server answers.

    A crash leaves at most one window in doubt; window 1 is strict, and a commit or two dearer for each
    message. A database that is lost while a window is out is waited for. `limit` bounds how many are taken up;
    after `patience`, or when `is_stopping`, no further window is begun.
    """
    run = runs.Run(
        session=session,
        site=site,
        templates=templates,
        transport=transport,
        clock=clock,
        signers=signers,
        gate=Gate(session=session, rules=limits),
        is_stopping=is_stopping,
    )
    if limits.brakes:
        run.gate.brake(clock())
    ends_at = None if patience is None else clock() + patience
    done = 0

    def is_over() -> bool:
        return run.is_cut_off or is_stopping() or (ends_at is not None and clock() >= ends_at)

    def is_interrupted() -> bool:
        return run.gate.is_met or (lane is None and run.is_called_away())

    try:
        while True:
            size = window * runs.WINDOWS_AT_ONCE if limit is None else min(window, limit - done)
            if not run.claim(lane, size):
                break
            desk = run.desk(run.left)
            while run.left and not (is_over() or is_interrupted()):
                done += run.send(desk, window)
                progress(done)
            if run.left:
                run.give_back()
            if is_over():
                break
    finally:
        run.give_back()
    return Report(**run.tally)
