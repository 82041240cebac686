"""A run over the outbox: the story of delivery, window by window."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from time import monotonic

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from digest import bounces, db, failpoints, garbage, meanwhile, outbox, rates
from digest.delivery import gathering, insisting, ordinary, settling
from digest.delivery.gates import Gate
from digest.delivery.settling import Settlement, end, put_back
from digest.delivery.writing import Desk, Written, write
from digest.links import Site
from digest.model import DeliveryState, Lane
from digest.outbox import Claimed
from digest.rates import Rules, Wait
from digest.rendering import Templates
from digest.rendering.dkim import Signer
from digest.transport import Outcome, Transport

log = logging.getLogger(__name__)

WINDOWS_AT_ONCE = 10  #: claimed together, so that a window costs a tenth of a claim
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
    message. A database that is lost while a window is out is waited for. `limit` bounds how many are taken up;
    after `patience`, or when `is_stopping`, no further window is begun.
    """
    run = Run(
        session=session,
        site=site,
        templates=templates,
        transport=transport,
        clock=clock,
        signers=signers,
        gate=Gate(session=session, rules=limits),
        is_stopping=is_stopping,
    )
    if limits.brakes:
        run.gate.brake(clock())
    ends_at = None if patience is None else clock() + patience
    done = 0

    def is_over() -> bool:
        return run.is_cut_off or is_stopping() or (ends_at is not None and clock() >= ends_at)

    try:
        while True:
            with garbage.held_off():
                size = window * WINDOWS_AT_ONCE if limit is None else min(window, limit - done)
                if not run.claim(lane, size):
                    break
                desk = run.desk(run.left)
                while run.left and not (is_over() or run.gate.is_met):
                    done += run.send(desk, window)
                    progress(done)
            if run.left:
                run.give_back()
            if is_over():
                break
    finally:
        run.give_back()
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
    is_stopping: Callable[[], bool] = lambda: False
    tally: Counter[str] = field(default_factory=Counter)
    left: list[Claimed] = field(default_factory=list)  #: claimed, and not yet begun
    ahead: dict[int, Written | None] = field(default_factory=dict)  #: of those, what is written already
    versions: Mapping[int, str] = field(default_factory=dict)  #: of the readers that letters are written for
    untold: Settlement | None = None  #: to be told together with the next intent
    unsure: Settlement | None = None  #: committed, and perhaps not yet on the disk
    leased_at: float = 0.0  #: the monotonic moment at which our lease began
    is_cut_off: bool = False  #: no server answered: all the rest waits

    @property
    def is_ordinary(self) -> bool:
        """Return whether a window can be intended and told in one go, while another is written."""
        return self.gate.is_open and ordinary.is_on_postgresql(self.session)

    def report(self) -> Report:
        """Return what was counted."""
        return Report(**self.tally)

    def claim(self, lane: Lane | None, limit: int) -> bool:
        """Take what is due under one lease: of a lane, or of the first lane that has something."""
        for each in ([lane] if lane else [Lane.PROMPT, Lane.BULK]) if limit else []:
            now = self.clock()
            if self.gate.is_shut(each, now):
                continue
            self.take(each, now, limit)
            if self.left:
                failpoints.reach("claimed")
                self.let_first_ones_go(now)
                return True
        return False

    def take(self, lane: Lane, now: datetime, limit: int) -> None:
        """Do so; a database that is lost over it is waited for where it has yet to be told of a window."""

        def keep() -> None:
            began = monotonic()
            db.commit_unhurried(self.session)  # a claim that is lost leaves its letters queued
            self.left = outbox.claim(self.session, lane=lane, now=now, limit=limit)
            self.session.commit()
            self.leased_at = began

        self.ahead.clear()  # what was written under another lease, for readers as they were then
        if self.untold:
            self.insist(keep, what=self.untold.what)
        else:
            keep()

    def let_first_ones_go(self, now: datetime) -> None:
        """Queue again what waits for the first letters of its edition, and keep those."""
        late = self.gate.followers(self.left, now)
        if late:
            self.put_off(late, lease=self.left[0].lease)
            self.left = [delivery for delivery in self.left if delivery.id not in late]
            self.session.commit()

    def give_back(self) -> None:
        """Queue again what we hold and shall not send."""
        try:
            self.tell()
        finally:
            if self.left:
                self.insist(self.put_left_back, what=f"{len(self.left)} letters that are not begun")
            else:
                self.session.rollback()  # what an error left half done

    def put_left_back(self) -> None:
        """Queue it again: also where the reply to the commit of its intent was lost, for not a byte went out.

        That is looked for last: such a commit may still be on its way, and the first look waits for it.
        """
        self.session.rollback()
        if self.unsure:
            self.unsure.keep()
        reason, lease = "no server answered" if self.is_cut_off else "", self.left[0].lease
        back: set[int] = set()
        for was in (DeliveryState.CLAIMED, DeliveryState.SENDING):
            back |= outbox.put_back(
                self.session,
                [delivery.id for delivery in self.left],
                reason,
                was=was,
                lease=lease,
                due_at=self.clock() + (settling.PAUSE if self.is_cut_off else timedelta()),
                is_tried=False,
            )
        emails = [delivery.email or "" for delivery in self.left]
        rates.leave(self.session, self.gate.rules, emails, lease=lease)
        self.session.commit()
        self.left, self.unsure = [], None
        self.tally["deferred"] += len(back) if self.is_cut_off else 0

    def send(self, desk: Desk, size: int) -> int:
        """Take the next window from the decision to its outcome, and return how many it held.

        Until its intent is committed a window can be given back; from then on it is settled.
        """
        window = self.left[:size]
        letters = self.written(desk, window)
        failpoints.reach("written")
        going = self.intend(window, letters, lambda: self.write_ahead(desk, size))
        del self.left[:size]
        began_at, outcomes = self.clock(), list[Outcome]()
        try:
            for outcome in self.transport.send([each.message for each in going.values()]):
                outcomes.append(outcome)
                failpoints.reach("answered")
        finally:
            self.settle(window[0].lease, going, outcomes, began_at)
        return len(window)

    def written(self, desk: Desk, window: Sequence[Claimed]) -> list[Written | None]:
        """Return the letters of a window; most are written ahead."""
        return [self.ahead.pop(each.id) if each.id in self.ahead else written(desk, each) for each in window]

    def write_ahead(self, desk: Desk, size: int) -> None:
        """Write the window after this one."""
        self.ahead = {each.id: written(desk, each) for each in self.left[size : 2 * size]}

    # ── gather ──────────────────────────────────────────────────────────────────────────────────

    def desk(self, claimed: Sequence[Claimed]) -> Desk:
        """Lay out what is needed to write these letters."""
        digests = gathering.digests(claimed)
        seen = outbox.seen(self.session, (delivery.subscriber_id for delivery in claimed))
        self.versions = {number: version for number, (_, version) in seen.items()}
        desk = Desk(
            site=self.site,
            templates=self.templates,
            readers={number: reader for number, (reader, _) in seen.items()},
            digests=digests,
            filters=gathering.filters(self.session, digests.values()),
            presses=gathering.presses(self.session, claimed),
            signers=self.signers,
        )
        self.session.commit()
        return desk

    # ── intend ──────────────────────────────────────────────────────────────────────────────────

    def intend(
        self,
        window: Sequence[Claimed],
        written: Sequence[Written | None],
        write_ahead: Callable[[], None],
    ) -> dict[int, Written]:
        """Keep the intent to send what may be sent, and return that.

        An unsubscribe or a suppression that was committed before this is obeyed.
        """
        going: dict[int, Written] = {}
        if self.is_ordinary:
            going = self.intend_ordinary(window, written, write_ahead)
        self.tell()
        rest = [pair for pair in zip(window, written, strict=True) if pair[0].id not in going]
        return going | self.look_closely(rest) if rest and self.left else going

    def intend_ordinary(
        self,
        window: Sequence[Claimed],
        written: Sequence[Written | None],
        write_ahead: Callable[[], None],
    ) -> dict[int, Written]:
        """Tell of the last window, intend to send what nothing speaks against, and write ahead meanwhile.

        If the database is lost over it, the last window is told until it is heard, and this one given back.
        """
        now, lease, began = self.clock(), window[0].lease, monotonic()
        going = {
            delivery.id: each
            for delivery, each in zip(window, written, strict=True)
            if each and each.reader and delivery.letter != "alarm" and (delivery.email or "").isprintable()
            and not (outbox.refusal(delivery, each.reader, is_suppressed=False, now=now) or spoilt(delivery, each))
        }  # fmt: skip
        if not going:
            return {}
        until = outbox.renewed(window[0].leased_until, now)
        intending = ordinary.intending(self.site, going, self.versions, lease=lease, until=until, now=now)
        heard = self.hear(intending, write_ahead)
        if heard is None:
            self.give_back()
            return {}
        self.leased_at, self.unsure = began, None
        return {number: each for number, each in going.items() if number in heard}

    def hear(self, intending: ordinary.Question, write_ahead: Callable[[], None]) -> set[int] | None:
        """Return which letters are ours to send, or None if only the last window could be told."""
        settlement, self.untold = self.untold, None
        if settlement is None:
            return self.ask([intending], write_ahead)[1]
        ours: set[int] | None = None

        def keep() -> None:
            nonlocal ours
            if settlement.is_tried:
                settlement.keep()
                self.session.commit()
                return
            settlement.is_tried = True
            settlement.tally["sent"] = len(settlement.going)  # unless we hear otherwise
            asked = [*ordinary.settling(settlement), intending]
            settlement.tally["sent"], ours = self.ask(asked, write_ahead)

        try:
            self.insist(keep, what=settlement.what)
        except BaseException:
            self.untold = settlement  # it is told by itself, if it has not been
            raise
        self.count(settlement)
        return ours

    def ask(
        self, questions: Sequence[ordinary.Question], write_ahead: Callable[[], None]
    ) -> tuple[int, set[int]]:
        """Let the database keep it while the next window is written; return how many the first of it changed,
        and which letters are ours to send.
        """
        with meanwhile.asked(self.session, questions) as answers:
            failpoints.reach("settling")
            failpoints.reach("intending")
            write_ahead()
        self.session.commit()
        failpoints.reach("settled")
        failpoints.reach("intended")
        return answers[0].rowcount, {row[0] for row in answers[-1].fetchall()}

    def look_closely(self, rest: Sequence[tuple[Claimed, Written | None]]) -> dict[int, Written]:
        """Ask who of these may be written to, end or put back the others, and keep the intent."""
        window = [delivery for delivery, _ in rest]
        now, lease, self.leased_at = self.clock(), window[0].lease, monotonic()
        readers = outbox.readers(self.session, (delivery.subscriber_id for delivery in window))
        addresses = [delivery.email for delivery in window if delivery.email]
        suppressed = bounces.suppressed(self.session, self.site, addresses)
        going = {}
        for delivery, each in rest:
            reader = readers.get(delivery.subscriber_id or 0)
            ending = outbox.refusal(
                delivery, reader, is_suppressed=delivery.email in suppressed, now=now
            ) or spoilt(delivery, each)
            if ending:
                self.tally[ending[0]] += end(
                    self.session, delivery, *ending, was=DeliveryState.CLAIMED, now=now
                )
            elif each and each.reader != reader:  # what the letter says of them has changed meanwhile
                put_back(self.session, delivery, "", was=DeliveryState.CLAIMED, due_at=now, is_tried=False)
            elif each:
                going[delivery.id] = each
        self.hold(going, lease, now)
        until = outbox.renewed(window[0].leased_until, now)
        ours = outbox.intend(self.session, [each.intent for each in going.values()], lease=lease, until=until)
        failpoints.reach("intending")
        self.session.commit()
        self.unsure = None
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

    # ── settle ──────────────────────────────────────────────────────────────────────────────────

    def settle(
        self, lease: str, going: Mapping[int, Written], outcomes: Sequence[Outcome], began_at: datetime
    ) -> None:
        """Keep what became of a window, at the latest with the next intent or at the end of the run."""
        settlement = Settlement(
            session=self.session, site=self.site, gate=self.gate, lease=lease, going=going, outcomes=outcomes,
            began_at=began_at, now=self.clock(),
        )  # fmt: skip
        self.untold = settlement
        if not (self.is_ordinary and settlement.is_ordinary):
            self.tell()

    def tell(self) -> None:
        """Keep what is not yet told, however long the database is away while we hold the lease.

        Where a window follows, this commit need not wait for the disk: the next intent waits for both
        before its first byte. If the database crashes before that, we still know what to tell it.
        """
        settlement = self.untold
        if settlement is None:
            return

        def keep() -> None:
            self.session.rollback()  # what an error left half done, as of a claim
            if self.left:
                db.commit_unhurried(self.session)
            settlement.keep()
            failpoints.reach("settling")
            self.session.commit()

        self.untold = None  # an error here is raised to whoever runs us: nothing tells it again
        self.insist(keep, what=settlement.what)
        failpoints.reach("settled")
        self.unsure = settlement if self.left else None
        self.count(settlement)

    def count(self, settlement: Settlement) -> None:
        """Count what is told, and tell what was amiss."""
        self.is_cut_off = settlement.is_cut_off
        self.tally += settlement.tally
        if settlement.is_amiss:
            self.gate.brake_now_and_then(settlement.now)
        if settlement.is_silent:
            log.warning("No letter could be handed over; they wait. %s", settlement.outcomes[0].reply)
        if late := settlement.late:
            log.warning("%d letters were accepted after their lease was over", late)

    def insist(self, keep: Callable[[], None], *, what: str) -> None:
        """Do what a lost database must not undo, however long it takes, for three quarters of the lease."""
        until = self.leased_at + 0.75 * outbox.LEASE.total_seconds()  # before a task is ended for its length
        try:
            insisting.insist(self.session, keep, what=what, until=until, is_stopping=self.is_stopping)
        except DBAPIError:
            self.leased_at = -inf  # nothing else need wait for it
            raise


def written(desk: Desk, delivery: Claimed) -> Written | None:
    """Return a letter; an address that was erased gets none."""
    return write(desk, delivery) if delivery.email else None


def spoilt(delivery: Claimed, written: Written | None) -> tuple[DeliveryState, str] | None:
    """Return why a person must look at a letter before it goes out, or None."""
    if written is None:
        return DeliveryState.STUCK, "it cannot be written; the log of the worker says why"
    if delivery.in_doubt and delivery.content_hash != written.intent.content_hash:
        return DeliveryState.STUCK, "it is in doubt, and would no longer be the same bytes"
    return None
