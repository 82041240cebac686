"""Send letters from the outbox to the mail server.

A worker claims the letters of several windows at once, under one lease. It renders each window, commits the
intent to send it, sends it, and commits its outcome. It returns to the queue what it holds and will not send.

If a worker dies, its deliveries become due again when their lease ends: in doubt if their intent was committed
and no outcome was recorded, else unchanged. If the database becomes unavailable after a window was sent, the worker
tries to record the outcome for up to five minutes, within three quarters of the lease, and continues if that
succeeds. No transaction is open while a worker renders a message or waits for a server.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from time import monotonic

from msgspec.structs import replace

from digest import db, plurals
from digest.db.tables.deliveries import DeliveryState, Lane
from digest.delivery import database_retries, settlement
from digest.delivery.limits import emergency_stops, shared_limits
from digest.delivery.limits.decisions import Refill, Wait
from digest.delivery.limits.domain_pauses import domain_of
from digest.delivery.limits.limiter import Reservation, Window
from digest.delivery.message_rendering import RenderedDelivery, render_delivery
from digest.delivery.next_window import DeliveryRun, HeldLetters, load, next_window
from digest.delivery.outbox import backoff, transitions
from digest.delivery.settlement import SentWindow
from digest.delivery.transports.transport import Outcome, Verdict
from digest.delivery.window_checks import Letter, end_unsent, endings_of_blocked, reason_to_end, requeued
from digest.process import failpoints

log = logging.getLogger(__name__)

WINDOWS_PER_CLAIM = 10  #: number of windows claimed at once, because each claim has a fixed cost
LASTING_WAIT = timedelta(minutes=5)  #: if no digest may be sent for this long, all due digests are postponed
POSTPONE_BATCH = 5_000  #: number of letters postponed in one transaction
THRESHOLD_CHECK_INTERVAL = timedelta(seconds=2)  #: minimum time between two checks of the stop thresholds


# ── the loop ────────────────────────────────────────────────────────────────────────────────────


def deliver_due(run: DeliveryRun) -> None:
    """Claim, render, intend, send and settle letters until none is due or the run is over.

    What is claimed and not sent is given back, whatever happens.
    """
    while not run.is_over and (held := claim(run)):
        try:
            load(run, held)
            while window := next_window(run, held):
                letters = [(each, render_delivery(run.context, each)) for each in window]
                failpoints.reach("written")
                if going := check_and_intend(run, held, letters):
                    settle(run, held, send(run, held, going))
                run.progress(run.done)
        except BaseException as error:
            give_back(run, held, is_patient=not database_retries.is_given_up(error))
            raise
        give_back(run, held)


def claim(run: DeliveryRun) -> HeldLetters | None:
    """Claim letters of the first lane that has due letters; `load` commits the claim."""
    size = run.window * WINDOWS_PER_CLAIM if run.limit is None else min(run.window, run.limit - run.done)
    for lane in [run.lane] if run.lane else [Lane.PROMPT, Lane.BULK]:
        if size <= 0 or (lane is Lane.BULK and run.is_over_for_digests):
            continue
        now, began = run.clock(), monotonic()
        db.commit_asynchronously(run.session)  # a lost claim leaves its letters queued
        if letters := transitions.claim(run.session, lane=lane, now=now, limit=size):
            lease, until = letters[0].lease, letters[0].leased_until
            return HeldLetters(
                letters=letters, lane=lane, lease=lease, leased_until=until, leased_at=began, checked_at=now
            )
        run.session.commit()
    return None


def check_and_intend(
    run: DeliveryRun, held: HeldLetters, window: Sequence[Letter]
) -> dict[int, RenderedDelivery]:
    """Commit the intent to send those letters of a window that may be sent, and return them.

    The statement that records the intents checks that no recipient has changed or is suppressed. The other letters
    end, are requeued, or are held until they get tokens.
    """
    now, began = run.clock(), monotonic()
    reservation, allowed = reserve(run, held, window, now)
    intents, until = (
        [each.intent for each in allowed.values()],
        transitions.renewed_lease(held.leased_until, now),
    )
    intended = transitions.intend(run.session, intents, lease=held.lease, until=until)
    lost = [letter for number, letter in allowed.items() if number not in intended]
    ended = end_others(run, held, window, reservation, lost, now)
    failpoints.reach("intending")
    run.session.commit()
    failpoints.reach("intended")
    run.tally.update(ended)
    hold_rest(run, held, window, reservation, began)
    return {number: letter for number, letter in allowed.items() if number in intended}


def send(run: DeliveryRun, held: HeldLetters, going: Mapping[int, RenderedDelivery]) -> SentWindow:
    """Pass a window to the transport; an error that ends sending is raised after the outcome is recorded."""
    began_at, outcomes, error = run.clock(), list[Outcome](), None
    try:
        for outcome in run.transport.send([each.message for each in going.values()]):
            outcomes.append(outcome)
            failpoints.reach("answered")
    except BaseException as caught:  # noqa: BLE001 - raised by `settle`
        error = caught
    return SentWindow(
        letters=going, outcomes=outcomes, lease=held.lease, deferring=held.deferring, began_at=began_at,
        ended_at=run.clock(), error=error,
    )  # fmt: skip


def settle(run: DeliveryRun, held: HeldLetters, sent: SentWindow) -> None:
    """Commit the outcome of a window, and retry while the database is unavailable.

    After the last try, or an interrupt, the outcome is tried once more: nobody else knows it.
    """
    try:
        commit_outcome(run, held, sent)
    except BaseException as error:
        is_patient = not database_retries.is_given_up(error)
        commit_outcome(run, held, sent, may_be_recorded=True, is_patient=is_patient)
        raise
    if sent.error:
        raise sent.error


def give_back(run: DeliveryRun, held: HeldLetters, *, is_patient: bool = True) -> None:
    """Requeue the letters that we hold.

    Requeueing is safe even if the reply to the commit of their intent was lost, because no byte was sent.
    """
    session, letters = run.session, held.letters
    session.rollback()  # ends a transaction that an error left open
    what = f"the return of {plurals.count(len(letters), 'letter')} to the queue"
    for one in tries(run, held, what, is_patient=is_patient) if letters else ():
        with one:
            session.rollback()
            now = run.clock()
            wait = held.standstill or Wait(now, "")
            endings = [requeued(each.id, held.waits.get(each.id, wait)) for each in letters]
            # `sending` comes last: the commit of an intent may be in progress, and the first statement waits for
            # its end.
            given_back = end_unsent(session, endings, lease=held.lease, now=now)
            intended = transitions.settle(
                session, endings, was=DeliveryState.SENDING, lease=held.lease, now=now
            )
            unsent = [(each, "") for each in letters if each.id in intended]
            settlement.release_tokens(session, run.rules, unsent, now=now)
            emails = [each.email or "" for each in letters]
            shared_limits.end_conversations(session, run.rules, emails, lease=held.lease)
            session.commit()
            run.tally.update(given_back)
    if held.standstill:
        postpone_digests(run, held.standstill)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def reserve(
    run: DeliveryRun, held: HeldLetters, window: Sequence[Letter], now: datetime
) -> tuple[Reservation, dict[int, RenderedDelivery]]:
    """Take tokens for those letters of a window that nothing else blocks, as far as we know.

    Returns the decision, and the letters that may be sent, each with its server.
    """
    sound = {
        each.id: letter
        for each, letter in window
        if letter and not reason_to_end(each, letter, letter.recipient, is_suppressed=False, now=now)
    }
    if not sound:
        return Reservation(decisions={}), {}
    deliveries = [letter.delivery for letter in sound.values()]
    letters = Window(
        domains={each.id: domain_of(each.email or "") for each in deliveries},
        tried={each.id for each in deliveries if each.attempts},
        alarms={each.id for each in deliveries if each.letter == "alarm"},
        is_urgent=held.lane is Lane.PROMPT,
        lease=held.lease,
        can_wait=run.sleep is not None,
    )
    reservation = shared_limits.reserve(run.session, run.rules, letters, now=now)
    allowed = {number: through(name, sound[number]) for number, name in reservation.servers.items()}
    return reservation, allowed


def through(server: str, letter: RenderedDelivery) -> RenderedDelivery:
    """Return the letter as it is sent through the server that was chosen for it."""
    return replace(letter, message=replace(letter.message, server=server))


def end_others(
    run: DeliveryRun,
    held: HeldLetters,
    window: Sequence[Letter],
    reservation: Reservation,
    lost: Collection[RenderedDelivery],
    now: datetime,
) -> Counter[str]:
    """End or requeue the letters of a window that may not be sent; return their number by result.

    `lost` are those that got tokens but no intent.
    """
    unsent = [(each.delivery, each.message.server) for each in lost]
    settlement.release_tokens(run.session, run.rules, unsent, now=now)
    # letters that wait for a refill of tokens stay held: a `Refill` is a short `Wait`
    waiting = [requeued(number, wait) for number, wait in reservation.waits.items() if type(wait) is Wait]
    gone = {each.delivery.id for each in lost}
    blocked = [pair for pair in window if pair[0].id in gone or pair[0].id not in reservation.decisions]
    endings = endings_of_blocked(run.session, run.context.site, blocked, now=now)
    return end_unsent(run.session, [*waiting, *endings], lease=held.lease, now=now)


def hold_rest(
    run: DeliveryRun, held: HeldLetters, window: Sequence[Letter], reservation: Reservation, began: float
) -> None:
    """Keep of a window only the letters that wait for tokens, after its intents were committed at `began`."""
    short = {number: wait for number, wait in reservation.waits.items() if isinstance(wait, Refill)}
    gone = {each.id for each, _ in window} - short.keys()
    standstill = reservation.standstill if held.lane is Lane.BULK else None
    run.done += len(gone)
    held.letters = [each for each in held.letters if each.id not in gone]
    held.leased_at, held.deferring = began, reservation.limiter.deferring
    if isinstance(standstill, Refill):
        held.waits = dict.fromkeys([each.id for each in held.letters], standstill)
    else:
        held.waits = {number: wait for number, wait in held.waits.items() if number not in gone} | short
        held.standstill = standstill


def postpone_digests(run: DeliveryRun, wait: Wait) -> None:
    """End the digests of this run, or, during a lasting wait, postpone every due digest.

    Expired digests and digests of dead workers cannot be postponed, so the run must claim them.
    """
    now, postponed = run.clock(), POSTPONE_BATCH
    run.is_over_for_digests = wait.until - now < LASTING_WAIT
    while postponed == POSTPONE_BATCH and not run.is_over_for_digests:
        postponed = backoff.postpone(
            run.session, lane=Lane.BULK, until=wait.until, reason=wait.reason, now=now, limit=POSTPONE_BATCH
        )
        run.session.commit()


def check_thresholds(run: DeliveryRun) -> None:
    """Stop mail if a threshold is exceeded, and commit."""
    if not run.rules.stop_thresholds:
        return
    reading = emergency_stops.check_thresholds(run.session, run.rules.stop_thresholds, now=run.clock())
    run.session.commit()
    if reading:
        stopped = emergency_stops.STOPPED_MAIL[reading.scope]
        log.error("%s stopped: %s. To resume: digest deliveries resume", stopped, reading.message)


# ── recording ───────────────────────────────────────────────────────────────────────────────────


def commit_outcome(
    run: DeliveryRun,
    held: HeldLetters,
    sent: SentWindow,
    *,
    may_be_recorded: bool = False,
    is_patient: bool = True,
) -> None:
    """Commit the outcome of a window, count it, and log its problems."""
    letters, tally = plurals.count(len(sent.letters), "letter"), Counter[str]()
    for one in tries(run, held, f"the outcome of {letters}", is_patient=is_patient):
        with one:
            run.session.rollback()
            is_again = may_be_recorded or one.is_retry
            tally = settlement.record(
                run.session, run.context.site, run.rules, sent, may_be_recorded=is_again
            )
            failpoints.reach("settling")
            run.session.commit()
    failpoints.reach("settled")
    run.tally.update(tally)
    accepted = sum(each.verdict is Verdict.ACCEPTED for each in sent.outcomes)
    is_checked = sent.ended_at - run.thresholds_checked_at < THRESHOLD_CHECK_INTERVAL
    if accepted < len(sent.attempted) and not is_checked:
        run.thresholds_checked_at = sent.ended_at
        check_thresholds(run)
    if sent.had_no_reply:
        log.warning("No server accepted mail; letters wait. %s", sent.outcomes[0].reply)
    if late := accepted - tally["sent"]:
        log.warning("%d letters were accepted after their lease had ended", late)


def tries(
    run: DeliveryRun, held: HeldLetters, description: str, *, is_patient: bool
) -> Iterator[database_retries.Try]:
    """Retry a block whose commit must not be lost, for at most five minutes or three quarters of the lease."""
    deadline = held.leased_at + 0.75 * transitions.LEASE.total_seconds()  # earlier than the task's time limit
    return database_retries.tries(
        run.session,
        description=description,
        deadline=deadline if is_patient else -inf,
        is_stopping=run.is_stopping,
    )
