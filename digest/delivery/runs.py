"""A run over the outbox: the story of delivery, window by window."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import bounces, db, failpoints, garbage, outbox, presses, rates, showings
from digest.delivery.gates import Gate
from digest.delivery.writing import Desk, Written, write
from digest.errors import NotFound
from digest.links import Site
from digest.model import DeliveryState, FilterRow, Lane
from digest.outbox import Claimed, Tried
from digest.press import Press
from digest.rates import Rules, Wait
from digest.rendering import Templates
from digest.rendering.dkim import Signer
from digest.transport import Outcome, Transport, Verdict

log = logging.getLogger(__name__)

WINDOWS_AT_ONCE = 10  #: claimed together, so that a window costs a tenth of a claim
PAUSE = timedelta(seconds=60)  #: before a server that did not answer is asked again
UNLIMITED = Rules()


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


def deliver(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    transport: Transport,
    clock: Callable[[], datetime],
    signers: Sequence[Signer] = (),
    limits: Rules = UNLIMITED,
    lane: Lane | None = None,
    window: int = 50,
    limit: int | None = None,
    patience: timedelta | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Report:
    """Deliver what is due, prompt letters first, until nothing is left or no server answers.

    A crash leaves at most one window in doubt; window 1 is strict, and a commit or two dearer for each
    message. `limit` bounds how many are taken up; after `patience`, or when `is_stopping`, no further
    window is begun.
    """
    run = Run(
        session=session,
        site=site,
        templates=templates,
        transport=transport,
        clock=clock,
        signers=signers,
        gate=Gate(session=session, rules=limits),
    )
    if limits.brakes:
        run.gate.brake(clock())
    ends_at = None if patience is None else clock() + patience
    done = 0

    def is_over() -> bool:
        return run.is_cut_off or is_stopping() or (ends_at is not None and clock() >= ends_at)

    while run.claim(lane, window * WINDOWS_AT_ONCE if limit is None else min(window, limit - done)):
        try:
            with garbage.held_off():
                desk = run.desk(run.left)
                while run.left and not (is_over() or run.gate.is_met):
                    done += run.send(desk, window)
                    progress(done)
        finally:
            run.give_back()
        if is_over():
            break
    return run.report()


@dataclass(kw_only=True)
class Run:
    """What one run works with, and what it has counted."""

    session: Session
    site: Site
    templates: Templates
    transport: Transport
    clock: Callable[[], datetime]
    gate: Gate
    signers: Sequence[Signer] = ()
    tally: Counter[str] = field(default_factory=Counter)
    left: list[Claimed] = field(default_factory=list)  #: claimed, and not yet begun
    is_cut_off: bool = False  #: no server answered: all the rest waits

    def report(self) -> Report:
        """Return what was counted."""
        return Report(**self.tally)

    def claim(self, lane: Lane | None, limit: int) -> bool:
        """Take what is due under one lease: of a lane, or of the first lane that has something."""
        for each in ([lane] if lane else [Lane.PROMPT, Lane.BULK]) if limit else []:
            now = self.clock()
            if self.gate.is_shut(each, now):
                continue
            db.commit_unhurried(self.session)  # a claim that is lost leaves its letters queued
            self.left = outbox.claim(self.session, lane=each, now=now, limit=limit)
            self.session.commit()
            if self.left:
                failpoints.reach("claimed")
                self.let_first_ones_go(now)
                return True
        return False

    def let_first_ones_go(self, now: datetime) -> None:
        """Queue again what waits for the first letters of its edition, and keep those."""
        late = self.gate.followers(self.left, now)
        if late:
            self.put_off(late, lease=self.left[0].lease)
            self.left = [delivery for delivery in self.left if delivery.id not in late]
            self.session.commit()

    def give_back(self) -> None:
        """Queue again what we hold and shall not send."""
        self.session.rollback()  # what an error left half done
        left = self.left
        if not left:
            return
        reason = "no server answered" if self.is_cut_off else ""
        back = outbox.put_back(
            self.session,
            [delivery.id for delivery in left],
            reason,
            was=DeliveryState.CLAIMED,
            lease=left[0].lease,
            due_at=self.clock() + (PAUSE if self.is_cut_off else timedelta()),
            is_tried=False,
        )
        self.session.commit()
        self.tally["deferred"] += len(back) if self.is_cut_off else 0

    def send(self, desk: Desk, size: int) -> int:
        """Take the next window from the decision to its outcome, and return how many it held.

        Until its intent is committed a window can be given back; from then on it is settled.
        """
        window = self.left[:size]
        written = [write(desk, delivery) if delivery.email else None for delivery in window]
        failpoints.reach("written")
        going = self.intend(window, written)
        del self.left[:size]
        began_at, outcomes = self.clock(), list[Outcome]()
        try:
            for outcome in self.transport.send([each.message for each in going.values()]):
                outcomes.append(outcome)
                failpoints.reach("answered")
        finally:
            self.settle(window[0].lease, going, outcomes, began_at)
        return len(window)

    # ── gather ──────────────────────────────────────────────────────────────────────────────────

    def desk(self, claimed: Sequence[Claimed]) -> Desk:
        """Lay out what is needed to write these letters."""
        digests = [delivery for delivery in claimed if delivery.edition]
        desk = Desk(
            site=self.site,
            templates=self.templates,
            readers=outbox.readers(self.session, (delivery.subscriber_id for delivery in claimed)),
            filters=self.filters(digests),
            presses=self.presses(digests),
            signers=self.signers,
        )
        self.session.commit()
        return desk

    def filters(self, digests: Sequence[Claimed]) -> dict[int, str]:
        """Return the canonical filters that these digests name, by id."""
        wanted = {number for delivery in digests for number in filters_named(delivery)}
        if not wanted:
            return {}
        table = FilterRow.__table__.c
        query = select(table.id, table.canonical).where(db.among(table.id, wanted))
        return {row[0]: row[1] for row in self.session.connection().execute(query)}

    def presses(self, digests: Sequence[Claimed]) -> dict[str, Press]:
        """Return the presses of these digests by name; one that is gone is left out."""
        found = {}
        for name in {delivery.press for delivery in digests if delivery.press}:
            try:
                found[name] = presses.load(self.session, name)
            except NotFound as error:
                log.warning("%s", error)
        return found

    # ── intend ──────────────────────────────────────────────────────────────────────────────────

    def intend(self, window: Sequence[Claimed], written: Sequence[Written | None]) -> dict[int, Written]:
        """Ask once more who may be written to, keep the intent to do so, and return what is to be sent.

        An unsubscribe or a suppression that was committed before this is obeyed.
        """
        now, lease = self.clock(), window[0].lease
        readers = outbox.readers(self.session, (delivery.subscriber_id for delivery in window))
        addresses = [delivery.email for delivery in window if delivery.email]
        suppressed = bounces.suppressed(self.session, self.site, addresses)
        going = {}
        for delivery, each in zip(window, written, strict=True):
            reader = readers.get(delivery.subscriber_id or 0)
            ending = outbox.refusal(
                delivery, reader, is_suppressed=delivery.email in suppressed, now=now
            ) or spoilt(delivery, each)
            if ending:
                self.end(delivery, *ending, was=DeliveryState.CLAIMED, now=now)
            elif each and each.reader != reader:  # what the letter says of them has changed meanwhile
                self.put_back(delivery, "", was=DeliveryState.CLAIMED, due_at=now, is_tried=False)
            elif each:
                going[delivery.id] = each
        self.hold(going, lease, now)
        ours = outbox.intend(self.session, [each.intent for each in going.values()], lease=lease, now=now)
        failpoints.reach("intending")
        self.session.commit()
        failpoints.reach("intended")
        return {number: each for number, each in going.items() if number in ours}

    def hold(self, going: dict[int, Written], lease: str, now: datetime) -> None:
        """Queue again those that may not go yet, and leave the others, paid for. An alarm waits for nothing."""
        emails = {
            number: each.delivery.email or ""
            for number, each in going.items()
            if each.delivery.letter != "alarm"
        }
        held = self.gate.held(emails, lease=lease, now=now)
        self.put_off(held.late, lease=lease)
        for number in held.late:
            del going[number]
        for number, server in held.servers.items():
            going[number] = replace(going[number], message=replace(going[number].message, server=server))

    def put_off(self, late: Mapping[int, Wait], *, lease: str) -> None:
        """Queue again what must wait; no attempt is burnt, and what waits for the same goes together."""
        together: dict[Wait, list[int]] = {}
        for number, wait in late.items():
            together.setdefault(wait, []).append(number)
        for wait, numbers in together.items():
            outbox.put_back(
                self.session,
                numbers,
                wait.reason,
                was=DeliveryState.CLAIMED,
                lease=lease,
                due_at=wait.until,
                is_tried=False,
            )
        self.tally["deferred"] += len(late)

    def end(
        self, delivery: Claimed, state: DeliveryState, reason: str, *, was: DeliveryState, now: datetime
    ) -> None:
        """Bring a delivery to its end unsent, and release its papers if certainly nobody saw them."""
        ids = outbox.end(self.session, [delivery.id], state, reason, was=was, lease=delivery.lease, now=now)
        if state is not DeliveryState.STUCK:
            showings.release(self.session, ids)
        self.tally[state] += len(ids)

    def put_back(
        self, delivery: Claimed, reason: str, *, was: DeliveryState, due_at: datetime, is_tried: bool
    ) -> None:
        """Queue one delivery again."""
        outbox.put_back(
            self.session,
            [delivery.id],
            reason,
            was=was,
            lease=delivery.lease,
            due_at=due_at,
            is_tried=is_tried,
        )

    # ── settle ──────────────────────────────────────────────────────────────────────────────────

    def settle(
        self, lease: str, going: Mapping[int, Written], outcomes: Sequence[Outcome], began_at: datetime
    ) -> None:
        """Keep what became of a window; what is in doubt stays as it is until its lease is over.

        Where a window follows, this commit need not wait for the disk: the next intent waits for both
        before its first byte, so that still no more than one window can be in doubt.
        """
        now = self.clock()
        if self.left:
            db.commit_unhurried(self.session)
        is_silent = bool(outcomes) and all(each.verdict is Verdict.UNTRIED for each in outcomes)
        self.is_cut_off = is_silent and not self.gate.deals_out  # or those that were asked get a rest
        accepted = [each.delivery_id for each in outcomes if each.verdict is Verdict.ACCEPTED]
        sent = outbox.end(
            self.session, accepted, DeliveryState.SENT, was=DeliveryState.SENDING, lease=lease, now=now
        )
        names = {each.delivery_id: each.provider_id for each in outcomes if each.provider_id}
        outbox.keep_names(self.session, {number: name for number, name in names.items() if number in sent})
        self.tally["sent"] += len(sent)
        for outcome in outcomes:
            if outcome.verdict is not Verdict.ACCEPTED:
                self.settle_unsent(going[outcome.delivery_id], outcome, now)
        tried = [evidence(each, began_at) for each in outcomes if each.verdict is not Verdict.UNTRIED]
        outbox.keep_attempts(self.session, tried, lease=lease, now=now)
        if self.is_cut_off:
            self.gate.servers[""] = now + PAUSE  # nor need the others try meanwhile
        self.gate.leave(going, outcomes, lease=lease, now=now)
        failpoints.reach("settling")
        self.session.commit()
        failpoints.reach("settled")
        if len(tried) > len(accepted):
            self.gate.brake_now_and_then(now)
        if is_silent:
            log.warning("No letter could be handed over; they wait. %s", outcomes[0].reply)
        if len(sent) < len(accepted):
            log.warning("%d letters were accepted after their lease was over", len(accepted) - len(sent))

    def settle_unsent(self, written: Written, outcome: Outcome, now: datetime) -> None:
        """Keep what became of one letter that was not accepted."""
        delivery, reason, was = written.delivery, in_words(outcome), DeliveryState.SENDING
        match outcome.verdict:
            case Verdict.REFUSED:
                self.end(delivery, DeliveryState.FAILED, reason, was=was, now=now)
                self.count_refusal(written, outcome, now)
            case Verdict.DEFERRED if pause := rates.throttled_for(outcome.reply):
                self.gate.servers[written.message.server] = now + pause
                self.put_back(delivery, reason, was=was, due_at=now + pause, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.DEFERRED:
                due_at = outbox.next_try(delivery.id, delivery.attempts + 1, now)
                self.put_back(delivery, reason, was=was, due_at=due_at, is_tried=True)
                self.tally["deferred"] += 1
                if delivery.email and rates.is_slow_down(outcome.code, outcome.reply, outcome.phase):
                    self.gate.domains[rates.domain_of(delivery.email)] = delivery.email
            case Verdict.UNTRIED if self.is_cut_off:
                self.put_back(delivery, reason, was=was, due_at=now + PAUSE, is_tried=False)
                self.tally["deferred"] += 1
            case Verdict.UNTRIED:  # the server answers, but not all of the window got its turn
                self.put_back(delivery, reason, was=was, due_at=now, is_tried=False)
            case Verdict.IN_DOUBT:
                outbox.remark(self.session, delivery.id, f"in doubt: {reason}", lease=delivery.lease)
                self.tally["in_doubt"] += 1

    def count_refusal(self, written: Written, outcome: Outcome, now: datetime) -> None:
        """Hold a refusal for good against the address, as if the mail had come back."""
        delivery, reader = written.delivery, written.reader
        if delivery.email is None or delivery.letter == "alarm":
            return
        bounces.record(
            self.session,
            self.site,
            delivery.email,
            bounces.refused(outcome.code, outcome.reply, phase=outcome.phase),
            now=now,
            delivery_id=delivery.id,
            cadence=reader.schedule.cadence if reader else "daily",
        )


def filters_named(delivery: Claimed) -> list[int]:
    """Return the filters of a decision; none of one that cannot be read, which is told when it is written."""
    try:
        chosen_by = (section[1] for section in json.loads(delivery.decision)["sections"])
        return [number for number in chosen_by if number is not None]
    except (ValueError, LookupError, TypeError):
        return []


def spoilt(delivery: Claimed, written: Written | None) -> tuple[DeliveryState, str] | None:
    """Return why a person must look at a letter before it goes out, or None."""
    if written is None:
        return DeliveryState.STUCK, "it cannot be written; the log of the worker says why"
    if delivery.in_doubt and delivery.content_hash != written.intent.content_hash:
        return DeliveryState.STUCK, "it is in doubt, and would no longer be the same bytes"
    return None


def evidence(outcome: Outcome, began_at: datetime) -> Tried:
    """Return what is kept of an attempt."""
    return Tried(outcome.delivery_id, began_at, outcome.verdict, outcome.phase, outcome.code, outcome.reply)


def in_words(outcome: Outcome) -> str:
    """Return `550 5.1.1 no such user (rcpt)`."""
    said = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
    return f"{said} ({outcome.phase})" if outcome.phase else said
