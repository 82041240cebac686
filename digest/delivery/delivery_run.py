"""Deliver the due letters in the outbox, and report the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Lane
from digest.delivery import worker_loop
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.message_rendering import RenderContext
from digest.delivery.next_window import DeliveryRun
from digest.delivery.transports.transport import Transport
from digest.letters.dkim_signing import Signer
from digest.letters.templates import Templates
from digest.process import gc_control
from digest.process.caches import Caches
from digest.site.site_profile import Site

__all__ = ["DeliveryReport", "deliver"]


UNLIMITED = SendLimits()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryReport:
    """The number of deliveries with each result in one run."""

    sent: int = 0
    deferred: int = (
        0  #: letters that wait: a server deferred them, none responded, or a limit or stop applies
    )
    failed: int = 0
    suppressed: int = 0
    expired: int = 0
    stuck: int = 0
    in_doubt: int = 0  #: letters that may have been accepted; they are retried after their lease ends


@gc_control.gc_paused()
def deliver(  # noqa: PLR0913  (the entry point of a run; all arguments but the session are keywords)
    session: Session,
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    transport: Transport,
    clock: Callable[[], datetime],
    signers: Sequence[Signer] = (),
    limits: SendLimits = UNLIMITED,
    lane: Lane | None = None,
    window: int = 50,
    limit: int | None = None,
    max_time: timedelta | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _done: None,
    sleep: Callable[[float], None] | None = None,
) -> DeliveryReport:
    """Deliver due letters, confirmations and other prompt letters first, until none is left or no server responds.

    A crash leaves at most one window in doubt. A `window` of 1 leaves at most one letter in doubt, and costs
    two commits per message. If the database becomes unavailable while a window is being sent, the
    run waits for it for up to five minutes. `limit` is the maximum number of deliveries to claim. No further
    window begins after `max_time`, or when `is_stopping` returns True. With `sleep`, the run itself waits for
    tokens of a rate limit, up to `limits.MAX_TOKEN_WAIT`; without `sleep`, letters without a token are
    requeued.
    """
    run = DeliveryRun(
        session=session,
        context=RenderContext(site=site, templates=templates, signers=signers),
        caches=caches,
        transport=transport,
        rules=limits,
        clock=clock,
        sleep=sleep,
        is_stopping=is_stopping,
        progress=progress,
        lane=lane,
        window=window,
        limit=limit,
        ends_at=None if max_time is None else clock() + max_time,
    )
    worker_loop.check_thresholds(run)
    worker_loop.deliver_due(run)
    return DeliveryReport(**{name: run.tally[name] for name in DeliveryReport.__slots__})
