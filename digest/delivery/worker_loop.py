"""Send letters from the outbox to the mail server, step by step.

 Claimed ──render──▶ Rendered ──intend──▶ Intended ──send──▶ Sent ──settle──▶ Settled ──▶ Claimed: the rest
    │  if nothing is left, claim more; if the run is over or an urgent letter is due, requeue the rest

If a worker dies, its deliveries become due again when their lease ends: in doubt if their intent was
committed and no outcome was recorded, else unchanged. Outcomes of a window may be recorded together with the
next intent. If the database becomes unavailable after a window was sent, the worker tries to record the
outcomes for up to five minutes, within three quarters of the lease, and continues if that succeeds. No
transaction is open while a worker renders a message or waits for a server.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf
from time import monotonic

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from digest import db, plurals
from digest.db.tables.deliveries import DeliveryState, Lane
from digest.delivery import database_retries, outbox, rendering_inputs, settlement, window_checks
from digest.delivery.limits import domain_pauses, shared_limits
from digest.delivery.limits.decisions import Wait
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.message_rendering import RenderContext, RenderedDelivery, render_delivery
from digest.delivery.outbox import ClaimedDelivery, NextWindow, Outbox
from digest.delivery.send_policy import SendPolicy
from digest.delivery.settlement import OutcomeRecorder, SentWindow
from digest.delivery.steps import Claimed, Intended, Letter, Rendered, Sent, Settled, Step, held_at
from digest.delivery.transports.transport import Outcome, Transport
from digest.process import failpoints
from digest.process.caches import Caches

log = logging.getLogger(__name__)

WINDOWS_PER_CLAIM = 10  #: number of windows claimed at once, because each claim has a fixed cost
PRIORITY_CHECK_INTERVAL = timedelta(seconds=2)  #: minimum time between two checks for urgent letters
MIN_SLEEP, MAX_SLEEP = 0.2, 0.5  #: minimum and maximum seconds between two checks for tokens or a stop
LONG_AGO = datetime.min.replace(tzinfo=UTC)
UNLIMITED = SendLimits()


@dataclass(frozen=True, kw_only=True)
class Worker:
    """The resources of a conversation with the mail server; the current step stores the progress."""

    outbox: Outbox
    context: RenderContext  #: the part of the context that is the same for all letters
    caches: Caches
    transport: Transport
    policy: SendPolicy
    clock: Callable[[], datetime]
    sleep: Callable[[float], None] | None = None  #: if None, letters without tokens are requeued
    is_stopping: Callable[[], bool] = lambda: False
    progress: Callable[[int], None] = lambda _done: None
    lane: Lane | None = None  #: the only lane to claim from; if None, all lanes, urgent letters first
    window: int = 50
    limit: int | None = None  #: maximum number of letters to claim
    ends_at: datetime | None = None  #: the time after which no further window begins
    tally: Counter[str] = field(default_factory=Counter)  #: number of deliveries by result

    @property
    def session(self) -> Session:
        """Return the session in which this worker records all results."""
        return self.outbox.session

    @cached_property
    def recorder(self) -> OutcomeRecorder:
        """Return the object that records the outcomes of windows."""
        return OutcomeRecorder(outbox=self.outbox, site=self.context.site, policy=self.policy)

    def is_over(self, held: Claimed) -> bool:
        """Return whether no further window may begin."""
        is_late = self.ends_at is not None and self.clock() >= self.ends_at
        return held.is_disconnected or self.is_stopping() or is_late

    def tries(
        self, held: Claimed, description: str, lost: DBAPIError | None = None
    ) -> Iterable[database_retries.Try]:
        """Retry a block whose commit must not be lost, for at most five minutes or three quarters of the lease."""
        deadline = held.leased_at + 0.75 * outbox.LEASE.total_seconds()  # earlier than the task's time limit
        return database_retries.tries(
            self.session, description=description, deadline=deadline, is_stopping=self.is_stopping, lost=lost
        )


def converse(worker: Worker) -> None:
    """Execute one step after another until nothing is due or the run is over.

    If the database becomes unavailable for less than five minutes, the outcome of the last window is recorded
    when the database is available again, and the run continues.
    """
    step: Step | None = Claimed(context=worker.context, checked_at=LONG_AGO)
    while step:
        reached = step
        try:
            step = next_step(worker, reached)
        except BaseException as error:
            step = give_back(worker, held_at(reached), error)
            if not (held_at(reached).unsettled and database_retries.retriable(error)):
                raise


def next_step(worker: Worker, step: Step) -> Step | None:
    """Return the step after this step, or None after the last step."""
    match step:
        case Claimed():
            return begin_window(worker, step)
        case Rendered():
            return intend(worker, step)
        case Intended():
            return send(worker, step)
        case Sent():
            return settle(worker, step)
        case Settled():
            worker.progress(step.rest.done)
            return step.rest


# ── Claimed ─────────────────────────────────────────────────────────────────────────────────────


def begin_window(worker: Worker, held: Claimed) -> Step | None:
    """Render the next window, or take the step that must come first."""
    if worker.is_over(held):
        give_back(worker, held)
        return None
    if not held.deliveries:
        return claim(worker, held)
    if not held.is_loaded:
        return load(worker, held)
    checked = None if worker.policy.met_standstill else check_for_urgent(worker, held)
    if checked is None:
        return give_back(worker, held)
    return wait_for_tokens(worker, checked) or render(worker, checked)


def claim(worker: Worker, before: Claimed) -> Claimed | None:
    """Claim letters of the first lane that has due letters, under one lease.

    Returns None if nothing is due, the digests must wait, or the run has reached its limit.
    """
    limit = worker.limit
    size = worker.window * WINDOWS_PER_CLAIM if limit is None else min(worker.window, limit - before.done)
    lanes = [worker.lane] if worker.lane else [Lane.PROMPT, Lane.BULK]
    fresh = replace(before, is_loaded=False, rendered={}, waits={})
    for lane in lanes if size > 0 else ():
        now = worker.clock()
        if not worker.policy.is_blocked(lane, now):
            claimed = claim_lane(worker, replace(fresh, checked_at=now), lane, size)
            if claimed.deliveries:
                failpoints.reach("claimed")
                return claimed
    give_back(worker, before)
    return None


def claim_lane(worker: Worker, before: Claimed, lane: Lane, size: int) -> Claimed:
    """Claim due letters of a lane."""
    claimed, began = before, monotonic()
    worker.policy.refill = None
    try:
        db.commit_asynchronously(worker.session)  # a lost claim leaves its letters queued
        found = worker.outbox.claim(lane=lane, now=before.checked_at, limit=size)
        claimed = replace(before, deliveries=found, leased_at=began)
        worker.session.commit()
    except BaseException:  # the reply to the commit may be lost, so we may hold the letters
        release(worker, claimed)
        raise
    return claimed


def load(worker: Worker, held: Claimed) -> Claimed:
    """Requeue the letters that wait for canary results, and load the data to render the others."""
    now = worker.clock()  # later than `checked_at` if the lease was renewed
    waits = worker.policy.waiting_for_canary(held.deliveries, now)
    if waits:
        window_checks.postpone(worker.outbox, waits, lease=held.deliveries[0].lease)
        worker.session.commit()
        worker.tally["deferred"] += len(waits)
    deliveries = [each for each in held.deliveries if each.id not in waits]
    context = rendering_inputs.load_context(
        worker.session, worker.context, deliveries, known_filters=held.context.filters, caches=worker.caches
    )
    worker.policy.troubled = shared_limits.load_troubled_domains(worker.session, now=now)
    worker.session.commit()
    return replace(held, deliveries=deliveries, context=context, is_loaded=True)


def check_for_urgent(worker: Worker, held: Claimed) -> Claimed | None:
    """Return the held letters, or None if digests are being sent and an urgent letter is due.

    A fast server accepts all claimed letters before the first check, so only slow servers are affected.
    """
    if worker.lane is not None:
        return held
    now = worker.clock()
    if worker.policy.lane is Lane.PROMPT or now < held.checked_at + PRIORITY_CHECK_INTERVAL:
        return held
    is_urgent = outbox.count_due(worker.session, lane=Lane.PROMPT, now=now) > 0
    worker.session.commit()
    return None if is_urgent else replace(held, checked_at=now)


def wait_for_tokens(worker: Worker, held: Claimed) -> Claimed | None:
    """If every held letter waits for a token, wait briefly and return the letters; otherwise return None.

    The lease is renewed when less than half of it is left.
    """
    if worker.sleep is None:
        return None
    now = worker.clock()
    if held.deliveries[0].leased_until - now < outbox.LEASE / 2:
        return renew(worker, held, now)
    seconds = seconds_to_wait(held, worker.policy.refill, now)
    if not seconds:
        return None
    worker.sleep(min(max(seconds, MIN_SLEEP), MAX_SLEEP))
    return held


def renew(worker: Worker, held: Claimed, now: datetime) -> Claimed:
    """Renew the lease of the held letters, and load the data for rendering them again."""
    began, until = monotonic(), now + outbox.LEASE
    ids = [each.id for each in held.deliveries]
    kept = worker.outbox.renew(ids, lease=held.deliveries[0].lease, until=until)
    worker.session.commit()
    deliveries = [each._replace(leased_until=until) for each in held.deliveries if each.id in kept]
    return replace(held, deliveries=deliveries, leased_at=began, is_loaded=False)


def seconds_to_wait(held: Claimed, refill: Wait | None, now: datetime) -> float:
    """Return the number of seconds until a held letter can get a token, or 0 if one can be sent now."""
    if refill and refill.until > now:
        return (refill.until - now).total_seconds()
    if ready(held, now):
        return 0.0
    return (min(wait.until for wait in held.waits.values()) - now).total_seconds()


def ready(held: Claimed, now: datetime) -> Sequence[ClaimedDelivery]:
    """Return the held letters that do not wait for a token."""
    waiting = {number for number, wait in held.waits.items() if wait.until > now}
    return [each for each in held.deliveries if each.id not in waiting] if waiting else held.deliveries


def render(worker: Worker, held: Claimed) -> Rendered:
    """Render those letters of the next window that are not rendered yet."""
    window = (ready(held, worker.clock()) if held.waits else held.deliveries)[: worker.window]
    letters = [(each, rendered_letter(held, each)) for each in window]
    failpoints.reach("written")
    return Rendered(claimed=held, window=letters)


def rendered_letter(held: Claimed, delivery: ClaimedDelivery) -> RenderedDelivery | None:
    """Return a rendered letter, or None if it cannot be rendered or its address was erased."""
    if delivery.id in held.rendered:
        return held.rendered[delivery.id]
    return render_delivery(held.context, delivery) if delivery.email else None


# ── Rendered ────────────────────────────────────────────────────────────────────────────────────


def intend(worker: Worker, step: Rendered) -> Rendered | Intended:
    """Commit the intent to send the letters that may be sent; each call commits at most once.

    A subscriber who unsubscribed or was suppressed before the commit gets no digest. Letters for which the
    first statement records no intent are checked individually.
    """
    if step.intended is None:
        return intend_unblocked(worker, step) if worker.policy.is_unrestricted else replace(step, intended={})
    if step.claimed.unsettled:
        return replace(step, claimed=flush(worker, step.claimed))
    left = [pair for pair in step.window if pair[0].id not in step.intended]
    return check_individually(worker, step, left) if left else begin_sending(step, step.intended)


def intend_unblocked(worker: Worker, step: Rendered) -> Rendered:
    """Settle the previous window, record intents for the unblocked letters, and render the next window.

    The next window is rendered while the database executes the statement.
    """
    held, now, began = step.claimed, worker.clock(), monotonic()
    letters = window_checks.unblocked(step.window, now)
    if not letters:
        return replace(step, intended={})
    first = step.window[0][0]
    following = NextWindow(
        intents=[each.intent for each in letters.values()],
        lease=first.lease,
        until=outbox.renewed_lease(first.leased_until, now),
        now=now,
        scopes=domain_pauses.blocking_scopes([each.delivery.email or "" for each in letters.values()]),
    )
    accepted = held.unsettled.accepted if held.unsettled else None
    with worker.outbox.settle_and_intend(accepted, following) as fetch:
        ahead = held.deliveries[worker.window : 2 * worker.window]
        rendered = {each.id: rendered_letter(held, each) for each in ahead}
    settled, ids = fetch()
    held = replace(held, leased_at=began, rendered=rendered)
    if held.unsettled:
        held = count(worker, held, held.unsettled, Counter(sent=settled))
    intended = {number: each for number, each in letters.items() if number in ids}
    return replace(step, claimed=held, intended=intended)


def check_individually(worker: Worker, step: Rendered, left: Sequence[Letter]) -> Intended:
    """Record intents for the letters that may be sent; settle or requeue the others."""
    now, first, began = worker.clock(), left[0][0], monotonic()
    check = window_checks.WindowCheck(
        outbox=worker.outbox, site=worker.context.site, policy=worker.policy, lease=first.lease, now=now
    )
    checked = check.check(left)
    until = outbox.renewed_lease(first.leased_until, now)
    intents = [each.intent for each in checked.sendable.values()]
    ids = worker.outbox.intend(intents, lease=first.lease, until=until)
    lost = [each for number, each in checked.sendable.items() if number not in ids]
    worker.policy.release([(each.delivery, each.message.server) for each in lost], now)
    # Another worker holds these letters, or they must be rendered again because the recipient changed.
    again = {each.delivery.id: Wait(now, "") for each in lost}
    window_checks.postpone(worker.outbox, again, lease=first.lease)
    failpoints.reach("intending")
    worker.session.commit()
    failpoints.reach("intended")
    worker.tally.update(checked.tally)
    held = replace(keep_short(step.claimed, left, checked.short), leased_at=began)
    intended = {number: each for number, each in checked.sendable.items() if number in ids}
    return begin_sending(replace(step, claimed=held), {**(step.intended or {}), **intended})


def keep_short(held: Claimed, left: Sequence[Letter], short: Mapping[int, Wait]) -> Claimed:
    """Return the held letters with this window's waits, keeping rendered letters that wait for tokens."""
    window = {each.id for each, _ in left}
    keep = {each.id: rendered for each, rendered in left if each.id in short}
    others = {number: wait for number, wait in held.waits.items() if number not in window}
    return replace(held, waits={**others, **short}, rendered={**held.rendered, **keep})


def begin_sending(step: Rendered, letters: Mapping[int, RenderedDelivery]) -> Intended:
    """Return the letters to send, and remove this window from the held letters.

    Letters of the window that wait for a token remain held.
    """
    held = step.claimed
    waits = {number: wait for number, wait in held.waits.items() if number not in letters}
    gone = {each.id for each, _ in step.window} - waits.keys()
    rest = replace(
        held,
        deliveries=[each for each in held.deliveries if each.id not in gone],
        rendered={number: each for number, each in held.rendered.items() if number not in gone},
        waits=waits,
        done=held.done + len(gone),
    )
    return Intended(letters=letters, rest=rest)


# ── Intended ────────────────────────────────────────────────────────────────────────────────────


def send(worker: Worker, step: Intended) -> Sent | Settled:
    """Pass a window to the transport.

    An error that ends sending is raised after the outcomes are recorded.
    """
    if not step.letters:
        return Settled(rest=step.rest)
    began_at, outcomes, error = worker.clock(), list[Outcome](), None
    try:
        for outcome in worker.transport.send([each.message for each in step.letters.values()]):
            outcomes.append(outcome)
            failpoints.reach("answered")
    except BaseException as caught:  # noqa: BLE001 - raised by `settle`
        error = caught
    window = SentWindow(letters=step.letters, outcomes=outcomes, began_at=began_at, ended_at=worker.clock())
    return Sent(window=window, error=error, rest=step.rest)


# ── Sent ────────────────────────────────────────────────────────────────────────────────────────


def settle(worker: Worker, step: Sent) -> Settled:
    """Record the outcome of a window, at the latest with the next intent or at the end of the run."""
    if step.error:
        raise step.error
    held = replace(step.rest, unsettled=step.window)
    if not (worker.policy.is_unrestricted and worker.recorder.fits_fast_path(step.window)):
        held = flush(worker, held)
    return Settled(rest=held)


def flush(worker: Worker, held: Claimed, error: BaseException | None = None) -> Claimed:
    """Commit the outcome of the previous window, and retry while the database is unavailable.

    Retries end after five minutes, or earlier when three quarters of the lease have passed.

    After an `error`, the outcome may already be committed. The commit waits for the disk, because the worker
    discards the outcome afterwards and may not notice a crash of the database: the pool replaces dead
    connections.
    """
    window, tally = held.unsettled, Counter[str]()
    if window is None:
        return held
    lost = None if worker.is_stopping() else database_retries.retriable(error)
    letters = plurals.count(len(window.letters), "letter")
    for one in worker.tries(held, f"the outcome of {letters}", lost):
        with one:
            worker.session.rollback()  # ends a transaction that an error left open, such as a claim
            may_be_recorded = one.is_retry or error is not None
            tally = worker.recorder.record(window, may_be_recorded=may_be_recorded)
            failpoints.reach("settling")
            worker.session.commit()
    failpoints.reach("settled")
    return count(worker, held, window, tally)


def count(worker: Worker, held: Claimed, window: SentWindow, tally: Counter[str]) -> Claimed:
    """Count the recorded outcome of a window, and log its problems."""
    worker.tally.update(tally)
    if window.has_failures:
        worker.policy.check_thresholds_periodically(window.ended_at)
    if window.had_no_reply:
        log.warning("No server accepted mail; letters wait. %s", window.outcomes[0].reply)
    if late := len(window.accepted_ids) - tally["sent"]:
        log.warning("%d letters were accepted after their lease had ended", late)
    return replace(held, unsettled=None, is_disconnected=worker.recorder.is_disconnected(window))


# ── returning letters to the queue ──────────────────────────────────────────────────────────────


def give_back(worker: Worker, held: Claimed, error: BaseException | None = None) -> Claimed:
    """Record the outcome of the previous window, and requeue the letters that we hold and will not send."""
    if database_retries.is_given_up(error):
        held = replace(held, leased_at=-inf)  # the run does not wait for the database again
    try:
        held = flush(worker, held, error)
    except BaseException:
        release(worker, replace(held, leased_at=-inf))
        raise
    return release(worker, held)


def release(worker: Worker, held: Claimed) -> Claimed:
    """Requeue the letters that we hold.

    Requeueing is safe even if the reply to the commit of their intent was lost, because no byte was sent.
    """
    if not held.deliveries:
        worker.session.rollback()  # ends a transaction that an error left open
    else:
        released = 0
        for one in worker.tries(
            held, f"the return of {plurals.count(len(held.deliveries), 'letter')} to the queue"
        ):
            with one:
                released = release_once(worker, held)
        worker.tally["deferred"] += released if held.is_disconnected else 0
    return replace(held, deliveries=(), rendered={}, waits={})


def release_once(worker: Worker, held: Claimed) -> int:
    """Requeue the letters that we hold; return the number that were still under our lease."""
    worker.session.rollback()
    refill, lease, now = worker.policy.refill, held.deliveries[0].lease, worker.clock()
    released: dict[DeliveryState, set[int]] = {}
    # `sending` comes last: the commit of an intent may be in progress, and the first statement waits for its
    # end.
    for state in (DeliveryState.CLAIMED, DeliveryState.SENDING):
        released[state] = worker.outbox.release(
            [delivery.id for delivery in held.deliveries],
            "no server responded" if held.is_disconnected else refill.reason if refill else "",
            from_state=state,
            lease=lease,
            due_at=now + (settlement.SILENT_SERVER_PAUSE if held.is_disconnected else timedelta()),
            counts_as_attempt=False,
        )
    intended = [each for each in held.deliveries if each.id in released[DeliveryState.SENDING]]
    worker.policy.release([(each, "") for each in intended], now)
    emails = [delivery.email or "" for delivery in held.deliveries]
    shared_limits.end_conversations(worker.session, worker.policy.rules, emails, lease=lease)
    worker.session.commit()
    return sum(map(len, released.values()))
