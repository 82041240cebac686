"""Record the outcome of a window in one transaction, and count it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from digest import bounces, plurals
from digest.db.tables import DeliveryState
from digest.delivery import limits, outbox
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import AcceptedWindow, AttemptRecord, ClaimedDelivery, Outbox
from digest.delivery.send_policy import SendPolicy
from digest.delivery.transports import Outcome, Verdict
from digest.editions import shown
from digest.site_profile import Site

SILENT_SERVER_PAUSE = timedelta(seconds=60)  #: until a server that did not answer is tried again


@dataclass(kw_only=True)
class Settlement:
    """The outcome of a window. A delivery in doubt stays as it is until its lease ends."""

    outbox: Outbox
    site: Site
    policy: SendPolicy
    lease: str
    rendered: Mapping[int, RenderedDelivery]
    outcomes: Sequence[Outcome]
    began_at: datetime
    now: datetime
    tally: Counter[str] = field(default_factory=Counter)  #: deliveries by result
    was_tried: bool = False  #: a save may have been committed

    @property
    def had_no_reply(self) -> bool:
        """Return whether no server replied at all."""
        return bool(self.outcomes) and all(each.verdict is Verdict.UNTRIED for each in self.outcomes)

    @property
    def is_disconnected(self) -> bool:
        """Return whether no server is available; where letters are assigned to servers, silent servers are
        paused instead.
        """
        return self.had_no_reply and not self.policy.assigns_servers

    @cached_property
    def accepted_ids(self) -> list[int]:
        """Return the ids of the letters that a server accepted."""
        return [each.delivery_id for each in self.outcomes if each.verdict is Verdict.ACCEPTED]

    @property
    def has_failures(self) -> bool:
        """Return whether a letter that was tried was not accepted."""
        return len(self.attempted) > len(self.accepted_ids)

    @property
    def fits_fast_path(self) -> bool:
        """Return whether every letter was accepted, the replies differ only in their text, and no domain's
        record changes.
        """
        kinds = {(each.verdict, each.phase, each.code, each.provider_id) for each in self.outcomes}
        return (
            len(kinds) == 1
            and len(self.accepted_ids) == len(self.rendered)
            and not self.outcomes[0].provider_id
            and all(each.reply.isprintable() for each in self.outcomes)
            and not self.policy.learns_from(self.rendered)
        )

    @property
    def accepted(self) -> AcceptedWindow:
        """Return what the outbox needs to settle this on the fast path."""
        attempts = [attempt_record(each, self.began_at) for each in self.outcomes]
        return AcceptedWindow(attempts=attempts, lease=self.lease, ended_at=self.now)

    @property
    def description(self) -> str:
        """Return what this settles, for the log."""
        return f"the outcome of {plurals.count(len(self.rendered), 'letter')}"

    @property
    def accepted_after_lease(self) -> int:
        """Return how many letters were accepted after our lease had ended."""
        return len(self.accepted_ids) - self.tally["sent"]

    @cached_property
    def attempted(self) -> list[Outcome]:
        """Return the outcomes of letters that were tried."""
        return [each for each in self.outcomes if each.verdict is not Verdict.UNTRIED]

    def save(self) -> None:
        """Write the outcomes, for the caller to commit; a second time only if the first was not committed."""
        if self.was_tried and outbox.are_recorded(
            self.outbox.session, [each.delivery_id for each in self.attempted], lease=self.lease, at=self.now
        ):
            return
        self.was_tried = True
        self.tally.clear()
        self.save_sent()
        for outcome in self.outcomes:
            if outcome.verdict is not Verdict.ACCEPTED:
                self.save_unsent(self.rendered[outcome.delivery_id], outcome)
        attempts = [attempt_record(each, self.began_at) for each in self.attempted]
        outbox.record_attempts(self.outbox.session, attempts, lease=self.lease, now=self.now)
        if self.is_disconnected:
            self.policy.paused_servers[""] = (
                self.now + SILENT_SERVER_PAUSE
            )  # other workers need not try in the meantime
        self.policy.finish_window(self.rendered, self.outcomes, lease=self.lease, now=self.now)

    def save_sent(self) -> None:
        """Record the accepted letters, and the ids that their provider gave them."""
        sent = self.outbox.settle(
            self.accepted_ids,
            DeliveryState.SENT,
            from_state=DeliveryState.SENDING,
            lease=self.lease,
            now=self.now,
        )
        names = {each.delivery_id: each.provider_id for each in self.outcomes if each.provider_id}
        outbox.record_provider_ids(
            self.outbox.session, {number: name for number, name in names.items() if number in sent}
        )
        self.tally["sent"] += len(sent)

    def save_unsent(self, written: RenderedDelivery, outcome: Outcome) -> None:
        """Record one letter that was not accepted."""
        delivery, reason, now = written.delivery, outcome_text(outcome), self.now
        match outcome.verdict:
            case Verdict.REFUSED:
                state, was = DeliveryState.FAILED, DeliveryState.SENDING
                self.tally[state] += end_unsent(self.outbox, delivery, state, reason, was=was, now=now)
                self.count_bounce(written, outcome)
            case Verdict.DEFERRED if pause := limits.throttle_pause(outcome.reply):
                self.policy.paused_servers[written.message.server] = now + pause
                self.requeue(delivery, reason, due_at=now + pause, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.DEFERRED:
                due_at = outbox.next_attempt_at(delivery.id, delivery.attempts + 1, now)
                self.requeue(delivery, reason, due_at=due_at, is_tried=True)
                self.tally["deferred"] += 1
            case Verdict.UNTRIED if self.had_no_reply and not written.message.server:
                self.requeue(delivery, reason, due_at=now + SILENT_SERVER_PAUSE, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.UNTRIED:  # the server answers, but had no time for the whole window
                self.requeue(delivery, reason, due_at=now, is_tried=False)
            case Verdict.IN_DOUBT:
                outbox.note_reason(
                    self.outbox.session, delivery.id, f"in doubt: {reason}", lease=delivery.lease
                )
                self.tally["in_doubt"] += 1

    def requeue(self, delivery: ClaimedDelivery, reason: str, *, due_at: datetime, is_tried: bool) -> None:
        """Queue one letter again."""
        release(self.outbox, delivery, reason, was=DeliveryState.SENDING, due_at=due_at, is_tried=is_tried)

    def count_bounce(self, written: RenderedDelivery, outcome: Outcome) -> None:
        """Count a permanent refusal against the address, as if the mail had bounced."""
        delivery, reader = written.delivery, written.recipient
        if delivery.email is None or delivery.letter == "alarm":
            return
        bounces.record_failure(
            self.outbox.session,
            self.site,
            delivery.email,
            bounces.failure_of_reply(outcome.code, outcome.reply, phase=outcome.phase),
            now=self.now,
            delivery_id=delivery.id,
            cadence=reader.schedule.cadence if reader else "daily",
        )


def end_unsent(
    box: Outbox,
    delivery: ClaimedDelivery,
    state: DeliveryState,
    reason: str,
    *,
    was: DeliveryState,
    now: datetime,
) -> int:
    """Settle a delivery as unsent, and release its papers if certainly nobody saw them; return 1 if we held
    it, else 0.
    """
    ids = box.settle([delivery.id], state, reason, from_state=was, lease=delivery.lease, now=now)
    if state is not DeliveryState.STUCK:
        shown.release(box.session, ids)
    return len(ids)


def release(
    box: Outbox,
    delivery: ClaimedDelivery,
    reason: str,
    *,
    was: DeliveryState,
    due_at: datetime,
    is_tried: bool,
) -> None:
    """Queue one delivery again."""
    box.release(
        [delivery.id],
        reason,
        from_state=was,
        lease=delivery.lease,
        due_at=due_at,
        counts_as_attempt=is_tried,
    )


def attempt_record(outcome: Outcome, began_at: datetime) -> AttemptRecord:
    """Return the stored form of an attempt."""
    return AttemptRecord(
        outcome.delivery_id, began_at, outcome.verdict, outcome.phase, outcome.code, outcome.reply
    )


def outcome_text(outcome: Outcome) -> str:
    """Return the outcome as `550 5.1.1 no such user (rcpt)`."""
    text = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
    return f"{text} ({outcome.phase})" if outcome.phase else text
