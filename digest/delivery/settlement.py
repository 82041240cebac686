"""Record the outcome of a window in one transaction, and never count the outcome twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from digest.bounces import bounce_score, report_parser
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import outbox, shown
from digest.delivery.limits import domain_pauses
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import AcceptedWindow, AttemptRecord, ClaimedDelivery, Outbox
from digest.delivery.send_policy import SendPolicy
from digest.delivery.transports.transport import Outcome, Verdict
from digest.site.site_profile import Site

SILENT_SERVER_PAUSE = timedelta(seconds=60)  #: how long a server that did not respond is not tried
RESULTS = {
    Verdict.ACCEPTED: "sent",
    Verdict.DEFERRED: "deferred",
    Verdict.REFUSED: "failed",
    Verdict.IN_DOUBT: "in_doubt",
}


@dataclass(frozen=True, kw_only=True)
class SentWindow:
    """Letters that were sent to a server under one lease, and their outcomes."""

    letters: Mapping[int, RenderedDelivery]
    outcomes: Sequence[Outcome]
    began_at: datetime
    ended_at: datetime

    @cached_property
    def accepted_ids(self) -> list[int]:
        """Return the ids of the letters that a server accepted."""
        return [each.delivery_id for each in self.outcomes if each.verdict is Verdict.ACCEPTED]

    @cached_property
    def attempted(self) -> list[Outcome]:
        """Return the outcomes of the letters that were attempted."""
        return [each for each in self.outcomes if each.verdict is not Verdict.UNTRIED]

    @property
    def lease(self) -> str:
        """Return the lease under which the letters were held."""
        return next(iter(self.letters.values())).delivery.lease

    @property
    def had_no_reply(self) -> bool:
        """Return whether no server replied at all."""
        return bool(self.outcomes) and not self.attempted

    @property
    def has_failures(self) -> bool:
        """Return whether any letter was attempted but not accepted."""
        return len(self.attempted) > len(self.accepted_ids)

    @property
    def is_uniform(self) -> bool:
        """Return whether every letter was accepted with printable replies that differ only in their text.

        A window whose replies contain a provider's ids is not uniform, because each letter has its own id.
        """
        kinds = {(each.verdict, each.phase, each.code, each.provider_id) for each in self.outcomes}
        return (
            len(kinds) == 1
            and len(self.accepted_ids) == len(self.letters)
            and not self.outcomes[0].provider_id
            and all(each.reply.isprintable() for each in self.outcomes)
        )

    @property
    def accepted(self) -> AcceptedWindow:
        """Return the values with which the outbox settles a uniform window as it records the next intents."""
        return AcceptedWindow(attempts=self.attempts, lease=self.lease, ended_at=self.ended_at)

    @property
    def attempts(self) -> list[AttemptRecord]:
        """Return the records of the attempts."""
        return [
            AttemptRecord(each.delivery_id, self.began_at, each.verdict, each.phase, each.code, each.reply)
            for each in self.attempted
        ]


@dataclass(frozen=True, kw_only=True)
class OutcomeRecorder:
    """Records the outcomes of windows in the database.

    A delivery in doubt remains unchanged until its lease ends.
    """

    outbox: Outbox
    site: Site
    policy: SendPolicy

    def is_disconnected(self, window: SentWindow) -> bool:
        """Return whether no server replied.

        If letters are assigned to servers, return False: each server that did not reply is paused instead.
        """
        return window.had_no_reply and not self.policy.rules.servers

    def fits_fast_path(self, window: SentWindow) -> bool:
        """Return whether a window can be settled in the same statement as the next intents.

        All letters must have been accepted in the same way, and the record of no domain may change.
        """
        return window.is_uniform and not self.policy.learns_from(window.letters)

    def record(self, window: SentWindow, *, may_be_recorded: bool) -> Counter[str]:
        """Write the outcomes unless they are already recorded; return the number of letters with each result.

        The caller commits.
        """
        session, lease, now = self.outbox.session, window.lease, window.ended_at
        attempted = [each.delivery_id for each in window.attempted]
        if may_be_recorded and outbox.is_recorded(session, window.letters, attempted, lease=lease, at=now):
            results = [RESULTS[each.verdict] for each in window.attempted]
            return Counter(results or ["deferred"] * len(window.outcomes))
        tally = Counter(sent=self.record_sent(window))
        for outcome in window.outcomes:
            if outcome.verdict is not Verdict.ACCEPTED:
                tally.update(self.record_unsent(window, outcome))
        outbox.record_attempts(session, window.attempts, lease=lease, now=now)
        if window.had_no_reply:
            outbox.note_silence(session, outcome_text(window.outcomes[0]), now=now)
        if self.is_disconnected(window):  # other workers do not try the servers during the pause
            self.policy.paused_servers[""] = now + SILENT_SERVER_PAUSE
        self.policy.finish_window(window.letters, window.outcomes, lease=lease, now=now)
        return tally

    def record_sent(self, window: SentWindow) -> int:
        """Record the accepted letters and their provider ids; return how many letters we still held."""
        sent = self.outbox.settle(
            window.accepted_ids,
            DeliveryState.SENT,
            from_state=DeliveryState.SENDING,
            lease=window.lease,
            now=window.ended_at,
        )
        named = {
            each.delivery_id: each.provider_id
            for each in window.outcomes
            if each.provider_id and each.delivery_id in sent
        }
        outbox.record_provider_ids(self.outbox.session, named)
        return len(sent)

    def record_unsent(self, window: SentWindow, outcome: Outcome) -> dict[str, int]:
        """Record one letter that was not accepted; return its result as a count, such as {"deferred": 1}."""
        letter, now, reason = window.letters[outcome.delivery_id], window.ended_at, outcome_text(outcome)
        delivery, due_at, is_tried = letter.delivery, now, False
        match outcome.verdict:
            case Verdict.REFUSED:
                state, was = DeliveryState.FAILED, DeliveryState.SENDING
                ended = end_unsent(self.outbox, delivery, state, reason, was=was, now=now)
                self.count_bounce(letter, outcome, now)
                return {state: ended}
            case Verdict.IN_DOUBT:
                noted = f"in doubt: {reason}"
                outbox.note_reason(self.outbox.session, delivery.id, noted, lease=delivery.lease)
                return {"in_doubt": 1}
            case Verdict.DEFERRED if pause := domain_pauses.throttle_pause(outcome.reply):
                due_at = self.policy.paused_servers[letter.message.server] = now + pause
            case Verdict.DEFERRED:
                due_at, is_tried = outbox.next_attempt_at(delivery.id, delivery.attempts + 1, now), True
            case Verdict.UNTRIED if window.had_no_reply and not letter.message.server:
                due_at = now + SILENT_SERVER_PAUSE
            # Otherwise the server responded, but the time was too short for the whole window.
        was, lease = DeliveryState.SENDING, window.lease
        self.outbox.release(
            [delivery.id], reason, from_state=was, lease=lease, due_at=due_at, counts_as_attempt=is_tried
        )
        return {"deferred": 1} if due_at > now else {}

    def count_bounce(self, letter: RenderedDelivery, outcome: Outcome, now: datetime) -> None:
        """Count a permanent refusal against the address, like a bounce."""
        delivery, reader = letter.delivery, letter.recipient
        if delivery.email is None or delivery.letter == "alarm":
            return
        bounce_score.record_failure(
            self.outbox.session,
            self.site,
            delivery.email,
            report_parser.failure_of_reply(outcome.code, outcome.reply, phase=outcome.phase),
            now=now,
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
    """Settle a delivery as unsent; return 1 if we held it, else 0.

    Unless the delivery is stuck, its papers may be sent again, because the reader cannot have seen them.
    """
    ids = box.settle([delivery.id], state, reason, from_state=was, lease=delivery.lease, now=now)
    if state is not DeliveryState.STUCK:
        shown.release(box.session, ids)
    return len(ids)


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as text, such as `550 5.1.1 no such user (rcpt)`."""
    text = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
    return f"{text} ({outcome.phase})" if outcome.phase else text
