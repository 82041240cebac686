"""Settling: what became of a window is kept in one transaction, and counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy.orm import Session

from digest import bounces, outbox, rates, showings
from digest.delivery.gates import Gate
from digest.delivery.writing import Written
from digest.links import Site
from digest.model import DeliveryState
from digest.outbox import Claimed, Tried
from digest.transport import Outcome, Verdict

PAUSE = timedelta(seconds=60)  #: before a server that did not answer is asked again


@dataclass(kw_only=True)
class Settlement:
    """What became of a window; what is in doubt stays as it is until its lease is over."""

    session: Session
    site: Site
    gate: Gate
    lease: str
    going: Mapping[int, Written]
    outcomes: Sequence[Outcome]
    began_at: datetime
    now: datetime
    tally: Counter[str] = field(default_factory=Counter)  #: what it comes to
    is_tried: bool = False  #: it may have been committed

    @property
    def is_silent(self) -> bool:
        """Return whether no server said anything."""
        return bool(self.outcomes) and all(each.verdict is Verdict.UNTRIED for each in self.outcomes)

    @property
    def is_cut_off(self) -> bool:
        """Return whether there is nobody to hand letters to; where they are dealt out, the silent get a rest."""
        return self.is_silent and not self.gate.deals_out

    @cached_property
    def accepted(self) -> list[int]:
        """Return the letters that a server took."""
        return [each.delivery_id for each in self.outcomes if each.verdict is Verdict.ACCEPTED]

    @property
    def is_amiss(self) -> bool:
        """Return whether a server did not take a letter that it was to take."""
        return len(self.heard) > len(self.accepted)

    @property
    def is_ordinary(self) -> bool:
        """Return whether every letter was accepted, in words that differ in nothing but the reply."""
        alike = {(each.verdict, each.phase, each.code, each.provider_id) for each in self.outcomes}
        return (
            len(alike) == 1
            and len(self.accepted) == len(self.going)
            and not self.outcomes[0].provider_id
            and all(each.reply.isprintable() for each in self.outcomes)
        )

    @property
    def what(self) -> str:
        """Return what it tells, in words for a log."""
        return f"the fate of {len(self.going)} letters"

    @property
    def late(self) -> int:
        """Return how many letters were accepted when they were no longer ours."""
        return len(self.accepted) - self.tally["sent"]

    @cached_property
    def heard(self) -> list[Outcome]:
        """Return what a server had a say in, or should have."""
        return [each for each in self.outcomes if each.verdict is not Verdict.UNTRIED]

    def keep(self) -> None:
        """Write it, for the caller to commit; a second time only if the first was not committed after all."""
        heard = self.heard
        if self.is_tried and outbox.are_kept(
            self.session, [each.delivery_id for each in heard], lease=self.lease, at=self.now
        ):
            return
        self.is_tried = True
        self.tally.clear()
        self.keep_sent()
        for outcome in self.outcomes:
            if outcome.verdict is not Verdict.ACCEPTED:
                self.keep_unsent(self.going[outcome.delivery_id], outcome)
        tried = [evidence(each, self.began_at) for each in heard]
        outbox.keep_attempts(self.session, tried, lease=self.lease, now=self.now)
        if self.is_cut_off:
            self.gate.servers[""] = self.now + PAUSE  # nor need the others try meanwhile
        self.gate.leave(self.going, self.outcomes, lease=self.lease, now=self.now)

    def keep_sent(self) -> None:
        """Keep that letters were accepted, and what their provider calls them."""
        sent = outbox.end(
            self.session,
            self.accepted,
            DeliveryState.SENT,
            was=DeliveryState.SENDING,
            lease=self.lease,
            now=self.now,
        )
        names = {each.delivery_id: each.provider_id for each in self.outcomes if each.provider_id}
        outbox.keep_names(self.session, {number: name for number, name in names.items() if number in sent})
        self.tally["sent"] += len(sent)

    def keep_unsent(self, written: Written, outcome: Outcome) -> None:
        """Keep what became of one letter that was not accepted."""
        delivery, reason, now = written.delivery, in_words(outcome), self.now
        match outcome.verdict:
            case Verdict.REFUSED:
                state, was = DeliveryState.FAILED, DeliveryState.SENDING
                self.tally[state] += end(self.session, delivery, state, reason, was=was, now=now)
                self.count_refusal(written, outcome)
            case Verdict.DEFERRED if pause := rates.throttled_for(outcome.reply):
                self.gate.servers[written.message.server] = now + pause
                self.put_back(delivery, reason, due_at=now + pause, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.DEFERRED:
                due_at = outbox.next_try(delivery.id, delivery.attempts + 1, now)
                self.put_back(delivery, reason, due_at=due_at, is_tried=True)
                self.tally["deferred"] += 1
                if delivery.email and rates.is_slow_down(outcome.code, outcome.reply, outcome.phase):
                    self.gate.domains[rates.domain_of(delivery.email)] = delivery.email
            case Verdict.UNTRIED if self.is_silent and not written.message.server:
                self.put_back(delivery, reason, due_at=now + PAUSE, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.UNTRIED:  # the server answers, but not all of the window got its turn
                self.put_back(delivery, reason, due_at=now, is_tried=False)
            case Verdict.IN_DOUBT:
                outbox.remark(self.session, delivery.id, f"in doubt: {reason}", lease=delivery.lease)
                self.tally["in_doubt"] += 1

    def put_back(self, delivery: Claimed, reason: str, *, due_at: datetime, is_tried: bool) -> None:
        """Queue one letter again."""
        put_back(self.session, delivery, reason, was=DeliveryState.SENDING, due_at=due_at, is_tried=is_tried)

    def count_refusal(self, written: Written, outcome: Outcome) -> None:
        """Hold a refusal for good against the address, as if the mail had come back."""
        delivery, reader = written.delivery, written.reader
        if delivery.email is None or delivery.letter == "alarm":
            return
        bounces.record(
            self.session,
            self.site,
            delivery.email,
            bounces.refused(outcome.code, outcome.reply, phase=outcome.phase),
            now=self.now,
            delivery_id=delivery.id,
            cadence=reader.schedule.cadence if reader else "daily",
        )


def end(
    session: Session,
    delivery: Claimed,
    state: DeliveryState,
    reason: str,
    *,
    was: DeliveryState,
    now: datetime,
) -> int:
    """Bring a delivery to its end unsent, and release its papers if certainly nobody saw them; return 1 if it was ours."""
    ids = outbox.end(session, [delivery.id], state, reason, was=was, lease=delivery.lease, now=now)
    if state is not DeliveryState.STUCK:
        showings.release(session, ids)
    return len(ids)


def put_back(
    session: Session,
    delivery: Claimed,
    reason: str,
    *,
    was: DeliveryState,
    due_at: datetime,
    is_tried: bool,
) -> None:
    """Queue one delivery again."""
    outbox.put_back(
        session, [delivery.id], reason, was=was, lease=delivery.lease, due_at=due_at, is_tried=is_tried
    )


def evidence(outcome: Outcome, began_at: datetime) -> Tried:
    """Return what is kept of an attempt."""
    return Tried(outcome.delivery_id, began_at, outcome.verdict, outcome.phase, outcome.code, outcome.reply)


def in_words(outcome: Outcome) -> str:
    """Return `550 5.1.1 no such user (rcpt)`."""
    said = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
    return f"{said} ({outcome.phase})" if outcome.phase else said
