"""Run over the outbox: claim, render, intend, send and settle one window after another."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from time import monotonic

from sqlalchemy.exc import DBAPIError

from digest import db, failpoints, plurals
from digest.db.tables import DeliveryState, Lane
from digest.delivery import database_retries, decision_inputs, limits, outbox, settlement, window_checks
from digest.delivery.limits import SendLimits, Wait
from digest.delivery.message_rendering import RenderContext, RenderedDelivery, render_delivery
from digest.delivery.outbox import ClaimedDelivery, Outbox
from digest.delivery.outbox.transitions import FetchReply
from digest.delivery.send_policy import SendPolicy
from digest.delivery.settlement import Settlement
from digest.delivery.transports import Outcome, Transport
from digest.delivery.window_checks import WindowCheck
from digest.letters import Templates
from digest.letters.dkim_signing import Signer
from digest.site_profile import Site

log = logging.getLogger(__name__)

WINDOWS_PER_CLAIM = 10  #: windows claimed together: each costs a tenth of a claim
PRIORITY_CHECK_INTERVAL = timedelta(seconds=2)  #: how often a slow run checks for urgent letters
MIN_SLEEP, MAX_SLEEP = 0.2, 0.5  #: seconds between two checks for tokens or a stop
UNLIMITED = SendLimits()


@dataclass(kw_only=True)
class DeliveryRun:
    """The state of one run: what it works with and what it has counted."""

    outbox: Outbox
    site: Site
    templates: Templates
    transport: Transport
    clock: Callable[[], datetime]
    policy: SendPolicy
    signers: Sequence[Signer] = ()
    is_stopping: Callable[[], bool] = lambda: False
    tally: Counter[str] = field(default_factory=Counter)
    remaining: list[ClaimedDelivery] = field(default_factory=list)  #: claimed and not begun
    #: Those of `remaining` that are rendered already.
    rendered_ahead: dict[int, RenderedDelivery | None] = field(default_factory=dict)
    filters: Mapping[int, str] = field(default_factory=dict)  #: filters that letters of this run name
    short: dict[int, Wait] = field(default_factory=dict)  #: those of `remaining` that wait for tokens
    pending_settlement: Settlement | None = None  #: to be committed together with the next intent
    unflushed_settlement: Settlement | None = None  #: committed, perhaps not yet on disk
    leased_at: float = 0.0  #: monotonic start of our lease
    priority_checked_at: datetime = field(init=False)  #: when we last checked for urgent letters
    is_disconnected: bool = False  #: no server answered, so the rest waits

    def claim(self, lane: Lane | None, limit: int) -> bool:
        """Claim what is due under one lease: of a lane, or of the first lane that has something."""
        for each in ([lane] if lane else [Lane.PROMPT, Lane.BULK]) if limit else []:
            now = self.clock()
            if self.policy.is_blocked(each, now):
                continue
            self.claim_lane(each, now, limit)
            self.priority_checked_at = now
            if self.remaining:
                failpoints.reach("claimed")
                self.hold_back_after_canary(now)
                return True
        return False

    def is_preempted(self) -> bool:
        """Return whether an urgent letter is due now, while digests go out slowly.

        A fast server is done with all that was claimed together before this check is made.
        """
        now = self.clock()
        if self.policy.lane is Lane.PROMPT or now < self.priority_checked_at + PRIORITY_CHECK_INTERVAL:
            return False
        self.priority_checked_at = now
        found = outbox.count_due(self.outbox.session, lane=Lane.PROMPT, now=now)
        self.outbox.session.commit()
        return found > 0

    def claim_lane(self, lane: Lane, now: datetime, limit: int) -> None:
        """Claim what is due in a lane; retry if the database is lost while a settlement is pending."""

        def claim() -> None:
            if self.remaining:  # the reply to a commit was lost, so we may hold them
                self.requeue_claimed()
            began = monotonic()
            db.commit_asynchronously(self.outbox.session)  # a lost claim leaves its letters queued
            self.remaining = self.outbox.claim(lane=lane, now=now, limit=limit)
            self.short, self.policy.refill = {}, None
            self.outbox.session.commit()
            self.leased_at = began

        self.rendered_ahead.clear()  # rendered under another lease, for recipients as they were then
        if self.pending_settlement:
            self.retry(claim, description=self.pending_settlement.description)
        else:
            claim()

    def hold_back_after_canary(self, now: datetime) -> None:
        """Queue again what waits for the canary of its edition, and keep the rest."""
        waits = self.policy.waiting_for_canary(self.remaining, now)
        if waits:
            window_checks.postpone(self.outbox, waits, lease=self.remaining[0].lease)
            self.tally["deferred"] += len(waits)
            self.remaining = [delivery for delivery in self.remaining if delivery.id not in waits]
            self.outbox.session.commit()

    def requeue_remaining(self) -> None:
        """Queue again what we hold and will not send."""
        try:
            self.flush_settlement()
        finally:
            if self.remaining:
                self.retry(
                    self.requeue_claimed,
                    description=f"the return of {plurals.count(len(self.remaining), 'letter')} to the queue",
                )
            else:
                self.outbox.session.rollback()  # what an error left unfinished

    def requeue_claimed(self) -> None:
        """Queue what we hold again, also where the reply to the commit of its intent was lost: no byte of
        it went out.

        Deliveries in state `sending` come last: that commit may still be in progress, and the first
        statement waits for it.
        """
        self.outbox.session.rollback()
        if self.unflushed_settlement:
            self.unflushed_settlement.save()
        refill_reason = self.policy.refill.reason if self.policy.refill else ""
        reason = "no server answered" if self.is_disconnected else refill_reason
        lease = self.remaining[0].lease
        requeued: dict[DeliveryState, set[int]] = {}
        for state in (DeliveryState.CLAIMED, DeliveryState.SENDING):
            requeued[state] = self.outbox.release(
                [delivery.id for delivery in self.remaining],
                reason,
                from_state=state,
                lease=lease,
                due_at=self.clock()
                + (settlement.SILENT_SERVER_PAUSE if self.is_disconnected else timedelta()),
                counts_as_attempt=False,
            )
        intended = [each for each in self.remaining if each.id in requeued[DeliveryState.SENDING]]
        self.policy.release([(each, "") for each in intended], self.clock())
        emails = [delivery.email or "" for delivery in self.remaining]
        limits.end_conversations(self.outbox.session, self.policy.rules, emails, lease=lease)
        self.outbox.session.commit()
        self.remaining, self.unflushed_settlement = [], None
        self.tally["deferred"] += sum(map(len, requeued.values())) if self.is_disconnected else 0

    def send_window(self, context: RenderContext, size: int) -> int:
        """Take the next window from the decision to its outcome, and return how many letters it held.

        Until its intent is committed a window can be given back; after that it is settled.
        """
        window = self.ready()[:size]
        rendered = self.render_window(context, window)
        failpoints.reach("written")
        to_send = self.intend(window, rendered, lambda: self.render_ahead(context, size))
        done = self.drop_from_remaining(window)
        if self.short and not to_send:
            return done
        began_at, outcomes = self.clock(), list[Outcome]()
        try:
            for outcome in self.transport.send([each.message for each in to_send.values()]):
                outcomes.append(outcome)
                failpoints.reach("answered")
        finally:
            self.settle(window[0].lease, to_send, outcomes, began_at)
        return done

    def drop_from_remaining(self, window: Sequence[ClaimedDelivery]) -> int:
        """Remove a window from what remains, except letters that wait for a token; return how many were
        removed.
        """
        dropped = {delivery.id for delivery in window} - self.short.keys()
        self.remaining = [delivery for delivery in self.remaining if delivery.id not in dropped]
        return len(dropped)

    def ready(self) -> list[ClaimedDelivery]:
        """Return what remains and does not wait for a token."""
        if not self.short:
            return self.remaining
        now = self.clock()
        waiting = {number for number, wait in self.short.items() if wait.until > now}
        return [delivery for delivery in self.remaining if delivery.id not in waiting]

    def seconds_to_wait(self) -> float:
        """Return for how many seconds nothing that remains may go, for lack of tokens."""
        now = self.clock()
        if self.policy.refill and self.policy.refill.until > now:
            return (self.policy.refill.until - now).total_seconds()
        if self.ready():
            return 0.0
        return (min(wait.until for wait in self.short.values()) - now).total_seconds()

    def is_lease_old(self) -> bool:
        """Return whether what remains should be claimed again before another worker does."""
        return self.remaining[0].leased_until - self.clock() < outbox.LEASE / 2

    def render_window(
        self, context: RenderContext, window: Sequence[ClaimedDelivery]
    ) -> list[RenderedDelivery | None]:
        """Return the letters of a window; most are rendered already."""
        return [
            self.rendered_ahead.pop(each.id)
            if each.id in self.rendered_ahead
            else render_if_addressed(context, each)
            for each in window
        ]

    def render_ahead(self, context: RenderContext, size: int) -> None:
        """Render the window after this one."""
        self.rendered_ahead = {
            each.id: render_if_addressed(context, each) for each in self.remaining[size : 2 * size]
        }

    # ── gather ──────────────────────────────────────────────────────────────────────────────────

    def render_context(self, claimed: Sequence[ClaimedDelivery]) -> RenderContext:
        """Load what is needed to render these letters."""
        digests = decision_inputs.load_digests(claimed)
        recipients = outbox.load_recipients_with_versions(
            self.outbox.session, (delivery.subscriber_id for delivery in claimed)
        )
        self.filters = decision_inputs.load_filters(self.outbox.session, digests.values(), self.filters)
        context = RenderContext(
            site=self.site,
            templates=self.templates,
            recipients={number: recipient for number, (recipient, _) in recipients.items()},
            versions={number: version for number, (_, version) in recipients.items()},
            digests=digests,
            filters=self.filters,
            presses=decision_inputs.load_presses(self.outbox.session, claimed),
            signers=self.signers,
        )
        self.policy.troubled = limits.load_troubled_domains(self.outbox.session, now=self.priority_checked_at)
        self.outbox.session.commit()
        return context

    # ── intend ──────────────────────────────────────────────────────────────────────────────────

    def intend(
        self,
        window: Sequence[ClaimedDelivery],
        rendered: Sequence[RenderedDelivery | None],
        render_ahead: Callable[[], None],
    ) -> dict[int, RenderedDelivery]:
        """Commit the intent to send what may be sent, and return it.

        An unsubscribe or a suppression that was committed before this is respected.
        """
        to_send: dict[int, RenderedDelivery] = {}
        if self.policy.is_unrestricted:
            to_send = self.intend_fast(window, rendered, render_ahead)
        self.flush_settlement()
        rest = [pair for pair in zip(window, rendered, strict=True) if pair[0].id not in to_send]
        return to_send | self.check_individually(rest) if rest and self.remaining else to_send

    def intend_fast(
        self,
        window: Sequence[ClaimedDelivery],
        rendered: Sequence[RenderedDelivery | None],
        render_ahead: Callable[[], None],
    ) -> dict[int, RenderedDelivery]:
        """Settle the last window, intend what nothing blocks, and render the next window while the database works.

        If the database is lost, settling the last window is retried, and this window is given back.
        """
        now, lease, began = self.clock(), window[0].lease, monotonic()
        to_send = {
            delivery.id: each
            for delivery, each in zip(window, rendered, strict=True)
            if each and each.recipient and delivery.letter != "alarm" and (delivery.email or "").isprintable()
            and not (outbox.refusal_reason(delivery, each.recipient, is_suppressed=False, now=now) or window_checks.stuck_reason(delivery, each))
        }  # fmt: skip
        if not to_send:
            return {}
        intending = partial(
            self.outbox.settle_and_intend,
            intents=[each.intent for each in to_send.values()],
            lease=lease,
            until=outbox.renewed_lease(window[0].leased_until, now),
            now=now,
            paused=limits.pause_scopes([each.delivery.email or "" for each in to_send.values()]),
        )
        held = self.fetch_intended(intending, render_ahead)
        if held is None:
            self.requeue_remaining()
            return {}
        self.leased_at, self.unflushed_settlement = began, None
        return {number: each for number, each in to_send.items() if number in held}

    def fetch_intended(
        self, intending: Callable[..., AbstractContextManager[FetchReply]], render_ahead: Callable[[], None]
    ) -> set[int] | None:
        """Return the ids of the letters we may send, or None if only the last window could be settled."""
        settlement, self.pending_settlement = self.pending_settlement, None
        if settlement is None:
            with intending(None) as fetch:
                render_ahead()
            return fetch()[1]
        held: set[int] | None = None

        def save() -> None:
            nonlocal held
            if settlement.was_tried:
                settlement.save()
                self.outbox.session.commit()
                return
            settlement.was_tried = True
            settlement.tally["sent"] = len(settlement.rendered)  # unless the reply differs
            with intending(settlement.accepted) as fetch:
                render_ahead()
            settlement.tally["sent"], held = fetch()

        try:
            self.retry(save, description=settlement.description)
        except BaseException:
            self.pending_settlement = settlement  # committed by itself, if it has not been
            raise
        self.count_settlement(settlement)
        return held

    def check_individually(
        self, rest: Sequence[tuple[ClaimedDelivery, RenderedDelivery | None]]
    ) -> dict[int, RenderedDelivery]:
        """Intend what may go, after the other letters have ended or wait."""
        now, first, self.leased_at = self.clock(), rest[0][0], monotonic()
        check = WindowCheck(
            outbox=self.outbox, site=self.site, policy=self.policy, lease=first.lease, now=now
        )
        to_send = check.check(rest)
        self.keep_short(rest, check.short)
        intents = [each.intent for each in to_send.values()]
        until = outbox.renewed_lease(first.leased_until, now)
        held = self.outbox.intend(intents, lease=first.lease, until=until)
        lost = [each for number, each in to_send.items() if number not in held]  # another worker has them
        self.policy.release([(each.delivery, each.message.server) for each in lost], now)
        failpoints.reach("intending")
        self.outbox.session.commit()
        self.tally += check.tally
        self.unflushed_settlement = None
        failpoints.reach("intended")
        return {number: each for number, each in to_send.items() if number in held}

    def keep_short(
        self, rest: Sequence[tuple[ClaimedDelivery, RenderedDelivery | None]], short: Mapping[int, Wait]
    ) -> None:
        """Keep rendered letters that wait for a token; the others of this window no longer wait."""
        for delivery, rendered in rest:
            self.short.pop(delivery.id, None)
            if delivery.id in short:
                self.short[delivery.id], self.rendered_ahead[delivery.id] = short[delivery.id], rendered

    # ── settle ──────────────────────────────────────────────────────────────────────────────────

    def settle(
        self,
        lease: str,
        rendered: Mapping[int, RenderedDelivery],
        outcomes: Sequence[Outcome],
        began_at: datetime,
    ) -> None:
        """Record the outcome of a window, at the latest with the next intent or at the end of the run."""
        settlement = Settlement(
            outbox=self.outbox, site=self.site, policy=self.policy, lease=lease, rendered=rendered, outcomes=outcomes,
            began_at=began_at, now=self.clock(),
        )  # fmt: skip
        self.pending_settlement = settlement
        if not (self.policy.is_unrestricted and settlement.fits_fast_path):
            self.flush_settlement()

    def flush_settlement(self) -> None:
        """Commit the pending settlement; retry for as long as we hold the lease if the database is away.

        If another window follows, this commit need not wait for the disk: the next intent waits for both
        before its first byte. If the database crashes before that, the worker still has the settlement and
        writes it again.
        """
        settlement = self.pending_settlement
        if settlement is None:
            return

        def save() -> None:
            self.outbox.session.rollback()  # what an error left unfinished, such as a claim
            if self.remaining:
                db.commit_asynchronously(self.outbox.session)
            settlement.save()
            failpoints.reach("settling")
            self.outbox.session.commit()

        self.pending_settlement = None  # an error here ends the run: nothing records it again
        self.retry(save, description=settlement.description)
        failpoints.reach("settled")
        self.unflushed_settlement = settlement if self.remaining else None
        self.count_settlement(settlement)

    def count_settlement(self, settlement: Settlement) -> None:
        """Count a committed settlement, and log its problems."""
        self.is_disconnected = settlement.is_disconnected
        self.tally += settlement.tally
        if settlement.has_failures:
            self.policy.check_thresholds_periodically(settlement.now)
        if settlement.had_no_reply:
            log.warning("No server accepted mail; letters wait. %s", settlement.outcomes[0].reply)
        if late := settlement.accepted_after_lease:
            log.warning("%d letters were accepted after their lease had ended", late)

    def retry(self, action: Callable[[], None], *, description: str) -> None:
        """Retry what a lost database must not undo, for up to three quarters of the lease."""
        deadline = self.leased_at + 0.75 * outbox.LEASE.total_seconds()  # before the task's time limit
        try:
            database_retries.retry_until(
                self.outbox.session,
                action,
                description=description,
                deadline=deadline,
                is_stopping=self.is_stopping,
            )
        except DBAPIError:
            self.leased_at = -inf  # nothing else waits for it
            raise


def render_if_addressed(context: RenderContext, delivery: ClaimedDelivery) -> RenderedDelivery | None:
    """Return the rendered letter, or None if its address was erased."""
    return render_delivery(context, delivery) if delivery.email else None
