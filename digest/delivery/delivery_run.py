"""Render what is due in the outbox, and hand each message to the transport once.

 claim, commit ─▶ load ─▶ render ─▶ check again, intend, commit ─▶ send a window ─▶ settle, commit

A worker that dies between two commits leaves deliveries that become due again when their lease ends:
unchanged before the intent, in doubt after it. A worker that loses the database records the outcomes when
it is back. No transaction is open while a message is rendered or a server is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest import gc_control
from digest.db.tables import Lane
from digest.delivery import worker_loop
from digest.delivery.limits import SendLimits
from digest.delivery.outbox import open_outbox
from digest.delivery.send_policy import SendPolicy
from digest.delivery.transports import Transport
from digest.letters import Templates
from digest.letters.dkim_signing import Signer
from digest.site_profile import Site

__all__ = ["DeliveryReport", "deliver"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryReport:
    """How many due deliveries had each result."""

    sent: int = 0
    deferred: int = 0  #: queued again: the server deferred it, or none answered
    failed: int = 0
    suppressed: int = 0
    expired: int = 0
    stuck: int = 0
    in_doubt: int = 0  #: accepted or not is unknown; tried again when the lease ends


@gc_control.gc_paused()
def deliver(  # noqa: PLR0912, PLR0913, PLR0915  (the entry point of a delivery run; all but the session by keyword)
    session: Session,
    *,
    site: Site,
    templates: Templates,
    transport: Transport,
    clock: Callable[[], datetime],
    signers: Sequence[Signer] = (),
    limits: SendLimits = worker_loop.UNLIMITED,
    lane: Lane | None = None,
    window: int = 50,
    limit: int | None = None,
    max_time: timedelta | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _done: None,
    sleep: Callable[[float], None] | None = None,
) -> DeliveryReport:
    """Deliver what is due, prompt letters first, until nothing is left or no server answers.

    A crash leaves at most one window in doubt. Window 1 leaves at most one letter in doubt, and costs a
    commit or two more per message. If the database is lost while a window is out, the run waits for it.
    `limit` is the most deliveries to claim; after `max_time`, or when `is_stopping`, no further window
    begins. With `sleep` the run itself waits for tokens of a rate, up to `limits.MAX_TOKEN_WAIT`; without
    it, such letters are queued until they have one.
    """
    run = worker_loop.DeliveryRun(
        outbox=open_outbox(session),
        site=site,
        templates=templates,
        transport=transport,
        clock=clock,
        signers=signers,
        policy=SendPolicy(session=session, rules=limits, can_wait=sleep is not None),
        is_stopping=is_stopping,
    )
    if limits.stop_thresholds:
        run.policy.check_thresholds(clock())
    ends_at = None if max_time is None else clock() + max_time
    done = 0

    def is_over() -> bool:
        return run.is_disconnected or is_stopping() or (ends_at is not None and clock() >= ends_at)

    def is_interrupted() -> bool:
        is_old = sleep is not None and run.is_lease_old()
        return run.policy.met_standstill or is_old or (lane is None and run.is_preempted())

    try:
        while True:
            size = window * worker_loop.WINDOWS_PER_CLAIM if limit is None else min(window, limit - done)
            if not run.claim(lane, size):
                break
            context = run.render_context(run.remaining)
            while run.remaining and not (is_over() or is_interrupted()):
                if sleep and (seconds := run.seconds_to_wait()):
                    sleep(min(max(seconds, worker_loop.MIN_SLEEP), worker_loop.MAX_SLEEP))
                else:
                    done += run.send_window(context, window)
                    progress(done)
            if run.remaining:
                run.requeue_remaining()
            if is_over():
                break
    finally:
        run.requeue_remaining()
    return DeliveryReport(**run.tally)
