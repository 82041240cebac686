"""A run over the outbox: window after window is claimed, written, intended, sent and settled."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from time import monotonic

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from digest import db, failpoints, meanwhile, outbox, rates
from digest.delivery import gathering, insisting, looking, ordinary, settling
from digest.delivery.gates import Gate
from digest.delivery.looking import Look
from digest.delivery.settling import Settlement
from digest.delivery.writing import Desk, Written, write
from digest.links import Site
from digest.model import DeliveryState, Lane
from digest.outbox import Claimed
from digest.rates import Rules
from digest.rendering import Templates
from digest.rendering.dkim import Signer
from digest.transport import Outcome, Transport

log = logging.getLogger(__name__)

WINDOWS_AT_ONCE = 10  #: claimed together, so that a window costs a tenth of a claim
ATTENTIVE = timedelta(seconds=2)  #: then it is time to look whether somebody waits for a letter
UNLIMITED = Rules()


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
    filters: Mapping[int, str] = field(default_factory=dict)  #: that letters of this run have named
    untold: Settlement | None = None  #: to be told together with the next intent
    unsure: Settlement | None = None  #: committed, and perhaps not yet on the disk
    leased_at: float = 0.0  #: the monotonic moment at which our lease began
    looked_at: datetime = field(init=False)  #: when we saw last that nobody waits for a letter
    is_cut_off: bool = False  #: no server answered: all the rest waits

    @property
    def is_ordinary(self) -> bool:
        """Return whether a window can be intended and told in one go, while another is written."""
        return self.gate.is_open and ordinary.is_on_postgresql(self.session)

    def claim(self, lane: Lane | None, limit: int) -> bool:
        """Take what is due under one lease: of a lane, or of the first lane that has something."""
        for each in ([lane] if lane else [Lane.PROMPT, Lane.BULK]) if limit else []:
            now = self.clock()
            if self.gate.is_shut(each, now):
                continue
            self.take(each, now, limit)
            self.looked_at = now
            if self.left:
                failpoints.reach("claimed")
                self.let_first_ones_go(now)
                return True
        return False

    def is_called_away(self) -> bool:
        """Return whether somebody waits for a letter by now, while digests go out slowly.

        Where the server is quick, all that was claimed together is gone before that is looked for.
        """
        now = self.clock()
        if self.gate.lane is Lane.PROMPT or now < self.looked_at + ATTENTIVE:
            return False
        self.looked_at = now
        found = outbox.waiting(self.session, lane=Lane.PROMPT, now=now)
        self.session.commit()
        return found > 0

    def take(self, lane: Lane, now: datetime, limit: int) -> None:
        """Do so; a database that is lost over it is waited for where it has yet to be told of a window."""

        def keep() -> None:
            if self.left:  # the reply to a commit was lost, and perhaps they are ours
                self.put_left_back()
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
            looking.put_off(self.session, late, lease=self.left[0].lease)
            self.tally["deferred"] += len(late)
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
        self.filters = gathering.filters(self.session, digests.values(), self.filters)
        desk = Desk(
            site=self.site,
            templates=self.templates,
            readers={number: reader for number, (reader, _) in seen.items()},
            digests=digests,
            filters=self.filters,
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
            and not (outbox.refusal(delivery, each.reader, is_suppressed=False, now=now) or looking.spoilt(delivery, each))
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
            return self.ask(intending, write_ahead)[1]
        ours: set[int] | None = None

        def keep() -> None:
            nonlocal ours
            if settlement.is_tried:
                settlement.keep()
                self.session.commit()
                return
            settlement.is_tried = True
            settlement.tally["sent"] = len(settlement.going)  # unless we hear otherwise
            settlement.tally["sent"], ours = self.ask(ordinary.telling(settlement, intending), write_ahead)

        try:
            self.insist(keep, what=settlement.what)
        except BaseException:
            self.untold = settlement  # it is told by itself, if it has not been
            raise
        self.count(settlement)
        return ours

    def ask(self, question: ordinary.Question, write_ahead: Callable[[], None]) -> tuple[int, set[int]]:
        """Let the database keep it while the next window is written; return how many of the last window were
        still ours, and which letters are ours to send.

        The session is left with its connection, in which nothing is open: one taken anew for each window
        costs as much as the question.
        """
        with meanwhile.asked(self.session, *question) as answer:
            failpoints.reach("settling")
            failpoints.reach("intending")
            write_ahead()
        failpoints.reach("settled")
        failpoints.reach("intended")
        ended, ours = answer.fetchone()
        return ended, set(ours)

    def look_closely(self, rest: Sequence[tuple[Claimed, Written | None]]) -> dict[int, Written]:
        """Intend to send what may go, once the others have ended or wait."""
        now, first, self.leased_at = self.clock(), rest[0][0], monotonic()
        look = Look(session=self.session, site=self.site, gate=self.gate, lease=first.lease, now=now)
        going = look.at(rest)
        intents = [each.intent for each in going.values()]
        until = outbox.renewed(first.leased_until, now)
        ours = outbox.intend(self.session, intents, lease=first.lease, until=until)
        failpoints.reach("intending")
        self.session.commit()
        self.tally += look.tally
        self.unsure = None
        failpoints.reach("intended")
        return {number: each for number, each in going.items() if number in ours}

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
