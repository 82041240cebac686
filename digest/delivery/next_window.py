"""Hold claimed letters, and choose the next window of those that may be sent now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Lane
from digest.delivery import rendering_inputs
from digest.delivery.limits import shared_limits
from digest.delivery.limits.canary import Canary
from digest.delivery.limits.decisions import Wait
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.message_rendering import RenderContext
from digest.delivery.outbox import delivery_listing, transitions
from digest.delivery.outbox.transitions import ClaimedDelivery
from digest.delivery.transports.transport import Transport
from digest.delivery.window_checks import end_unsent, requeued
from digest.process import failpoints
from digest.process.caches import Caches

PRIORITY_CHECK_INTERVAL = timedelta(seconds=2)  #: minimum time between two checks for urgent letters
MIN_SLEEP, MAX_SLEEP = 0.2, 0.5  #: minimum and maximum seconds between two checks for tokens or a stop
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(kw_only=True)
class DeliveryRun:
    """The resources of a delivery run, and what it has done."""

    session: Session
    context: RenderContext  #: what the letters of the last claim need to be rendered
    caches: Caches
    transport: Transport
    rules: SendLimits
    clock: Callable[[], datetime]
    sleep: Callable[[float], None] | None  #: if None, letters without tokens are requeued
    is_stopping: Callable[[], bool]
    progress: Callable[[int], None]
    lane: Lane | None  #: the only lane to claim from; if None, all lanes, urgent letters first
    window: int
    limit: int | None  #: maximum number of letters to claim
    ends_at: datetime | None  #: the time after which no further window begins
    tally: Counter[str] = field(default_factory=Counter)  #: number of deliveries by result
    done: int = 0  #: number of letters that were sent, ended or postponed
    is_over_for_digests: bool = False  #: whether no further digest may be sent in this run
    thresholds_checked_at: datetime = LONG_AGO

    @property
    def is_over(self) -> bool:
        """Return whether no further window may begin."""
        return self.is_stopping() or (self.ends_at is not None and self.clock() >= self.ends_at)


@dataclass(kw_only=True)
class HeldLetters:
    """The letters that a worker holds under one lease and has not begun to send."""

    letters: Sequence[ClaimedDelivery]
    lane: Lane
    lease: str
    leased_until: datetime
    leased_at: float  #: the monotonic time when the lease began, or the last window was intended
    checked_at: datetime  #: when we last checked for urgent letters
    waits: Mapping[int, Wait] = field(default_factory=dict)  #: the waits for tokens, keyed by delivery id
    standstill: Wait | None = None  #: how long all digests must wait
    deferring: Collection[str] = ()  #: the domains with deferrals or pauses, which an accepted letter cancels


def load(run: DeliveryRun, held: HeldLetters) -> None:
    """Commit the claim, requeue what waits for the results of a canary, and load the data to render the rest."""
    run.session.commit()
    failpoints.reach("claimed")
    canary = run.rules.canary if held.lane is Lane.BULK else None
    waits = waits_for_canary(run, held, canary) if canary else {}
    endings = [requeued(number, wait) for number, wait in waits.items()]
    run.tally.update(end_unsent(run.session, endings, lease=held.lease, now=held.checked_at))
    run.session.commit()
    held.letters = [each for each in held.letters if each.id not in waits]
    known = run.context.filters
    run.context = rendering_inputs.load_context(
        run.session, run.context, held.letters, known_filters=known, caches=run.caches
    )
    run.session.commit()


def waits_for_canary(run: DeliveryRun, held: HeldLetters, canary: Canary) -> dict[int, Wait]:
    """Return the waits of the letters that must wait for the results of their edition's canary."""
    now = held.checked_at
    editions = {each.edition for each in held.letters if each.edition}
    waits = shared_limits.canary_waits(run.session, canary, editions, claimed=len(held.letters), now=now)
    return {
        each.id: waits[each.edition]
        for each in held.letters
        if each.edition in waits
        and waits[each.edition].until > now
        and not each.attempts
        and not canary.is_first(each.id)
    }


def next_window(run: DeliveryRun, held: HeldLetters) -> Sequence[ClaimedDelivery]:
    """Return the next letters to send; wait while all held letters wait for tokens, and renew their lease.

    Returns nothing if none is left, the run is over, all digests must wait, or an urgent letter is due.
    """
    while held.letters and not (run.is_over or held.standstill or is_urgent_due(run, held)):
        now, waits = run.clock(), held.waits
        if held.leased_until - now < transitions.LEASE / 2:
            renew(run, held, now)
            continue
        ready = [each for each in held.letters if each.id not in waits or waits[each.id].until <= now]
        if ready or not run.sleep:
            return ready[: run.window]
        seconds = (min(wait.until for wait in waits.values()) - now).total_seconds()
        run.sleep(min(max(seconds, MIN_SLEEP), MAX_SLEEP))
    return []


def is_urgent_due(run: DeliveryRun, held: HeldLetters) -> bool:
    """Return whether digests are being sent and an urgent letter is due.

    A fast server accepts all claimed letters before the first check, so only slow servers are affected.
    """
    now = run.clock()
    if run.lane or held.lane is Lane.PROMPT or now < held.checked_at + PRIORITY_CHECK_INTERVAL:
        return False
    held.checked_at = now
    is_due = delivery_listing.count_due(run.session, lane=Lane.PROMPT, now=now) > 0
    run.session.commit()
    return is_due


def renew(run: DeliveryRun, held: HeldLetters, now: datetime) -> None:
    """Renew the lease of the held letters, and forget those that another worker holds."""
    began, until = monotonic(), now + transitions.LEASE
    kept = transitions.renew(run.session, [each.id for each in held.letters], lease=held.lease, until=until)
    run.session.commit()
    held.letters = [each for each in held.letters if each.id in kept]
    held.leased_until, held.leased_at = until, began
