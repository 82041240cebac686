"""The gate: what may not go out yet, whatever the mail server would say to it.

Limits, pauses and stops are kept by `rates`; here is what a run makes of them. A standstill is found by
the window that meets it, and costs no window anything that meets none.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest import outbox, rates
from digest.delivery.writing import Written
from digest.model import Lane
from digest.outbox import Claimed
from digest.rates import Held, Rules, Wait
from digest.transport import Outcome, Verdict

log = logging.getLogger(__name__)

LASTING = timedelta(minutes=5)  #: a standstill so long is written to every letter that waits for it
AT_ONCE = 5_000  #: letters that are put off in one transaction
BRAKING = timedelta(seconds=2)  #: between two looks at what goes wrong
WORTH_IT = 10  #: letters that a canary has at least: fewer would say nothing


@dataclass(kw_only=True)
class Gate:
    """What one run knows of what may go."""

    session: Session
    rules: Rules
    lane: Lane = Lane.PROMPT  #: of what is claimed
    standstill: Wait | None = None  #: no digest may go before that
    is_met: bool = False  #: by the window that has just been held
    begun: dict[str, Wait] = field(default_factory=dict)  #: editions, until their rest follows
    domains: dict[str, str] = field(default_factory=dict)  #: that asked us to wait, with an address there
    servers: dict[str, datetime] = field(default_factory=dict)  #: that shall rest, until when
    braked_at: datetime | None = None

    @property
    def deals_out(self) -> bool:
        """Return whether letters are dealt out to servers beforehand."""
        return bool(self.rules.servers)

    @property
    def is_open(self) -> bool:
        """Return whether nothing need be counted, and nothing that we know of waits."""
        return not (self.rules.are_counted or self.domains or self.servers or self.standstill)

    # ── before a claim ──────────────────────────────────────────────────────────────────────────

    def is_shut(self, lane: Lane, now: datetime) -> bool:
        """Return whether there is no use in claiming what is due in a lane.

        A standstill that lasts is written to all letters that are due; what may still be claimed then
        is what ends here: too late, or left behind by who died.
        """
        self.lane, self.is_met = lane, False
        if lane is not Lane.BULK:
            return False
        hours = self.rules.hours
        if hours and (opens_at := hours.opens_at(now)):
            self.standstill = Wait(opens_at, f"digests go out from {hours.opens:%H:%M} on")
        if self.standstill is None:
            return False
        if self.standstill.until - now < LASTING:
            return True
        self.put_off(self.standstill, now)
        return False

    def put_off(self, wait: Wait, now: datetime) -> None:
        """Let every digest that is due wait."""
        put_off = AT_ONCE
        while put_off == AT_ONCE:
            put_off = outbox.postpone(
                self.session, lane=Lane.BULK, until=wait.until, reason=wait.reason, now=now, limit=AT_ONCE
            )
            self.session.commit()

    # ── after a claim ───────────────────────────────────────────────────────────────────────────

    def followers(self, claimed: Sequence[Claimed], now: datetime) -> dict[int, Wait]:
        """Return which of these wait for what comes of the first letters of their edition."""
        canary = self.rules.canary
        if canary is None or self.lane is not Lane.BULK:
            return {}
        self.begin({delivery.edition for delivery in claimed if delivery.edition}, len(claimed), now)
        return {
            delivery.id: wait
            for delivery in claimed
            if (wait := self.begun.get(delivery.edition or ""))
            and wait.until > now
            and not delivery.attempts
            and not canary.is_first(delivery.id)
        }

    def begin(self, editions: Collection[str], claimed: int, now: datetime) -> None:
        """Look up until when the rest of these editions waits, or let its waiting begin."""
        if new := sorted(set(editions) - self.begun.keys()):
            due = claimed + outbox.waiting(self.session, lane=Lane.BULK, now=now, at_most=100 * AT_ONCE)
            self.begun |= rates.waiting_editions(
                self.session, self.rules, new, due=due, least=WORTH_IT, now=now
            )
            self.session.commit()

    # ── before an intent ────────────────────────────────────────────────────────────────────────

    def held(self, emails: Mapping[int, str], *, lease: str, now: datetime) -> Held:
        """Return what becomes of a window."""
        if self.standstill and self.lane is Lane.BULK:
            return Held(late=dict.fromkeys(emails, self.standstill))
        is_urgent = self.lane is Lane.PROMPT
        found = rates.held(self.session, self.rules, emails, now=now, is_urgent=is_urgent, lease=lease)
        if found.standstill and not is_urgent:
            self.standstill, self.is_met = found.standstill, True
        return found

    # ── with a settlement ───────────────────────────────────────────────────────────────────────

    def leave(
        self, going: Mapping[int, Written], outcomes: Sequence[Outcome], *, lease: str, now: datetime
    ) -> None:
        """Give back what was paid for what nobody began, make room for others at the domains we spoke with, and
        let wait who asked for it or did not answer.

        In the order of their names, or two workers could wait for each other.
        """
        self.give_back(going, outcomes, now)
        emails = [each.delivery.email or "" for each in going.values()] if self.rules.at_once else []
        rates.leave(self.session, self.rules, emails, lease=lease)
        if self.deals_out:
            asked = {number: each.message.server for number, each in going.items()}
            silent = {asked[each.delivery_id] for each in outcomes if each.verdict is Verdict.UNTRIED}
            heard = {asked[each.delivery_id] for each in outcomes if each.verdict is not Verdict.UNTRIED}
            self.servers |= dict.fromkeys(silent - heard, now + rates.AWAY_PAUSE)
        for _, email in sorted(self.domains.items()):
            rates.pause(self.session, email, now=now)
        for server, until in sorted(self.servers.items()):
            rates.pause_server(self.session, server, until)
        self.domains.clear()
        self.servers.clear()

    def give_back(self, going: Mapping[int, Written], outcomes: Sequence[Outcome], now: datetime) -> None:
        """Give back what was paid for letters that no server began; an alarm has paid nothing."""
        unbegun = [going[each.delivery_id] for each in outcomes if each.verdict is Verdict.UNTRIED]
        unspent = [
            (each.delivery.email or "", each.message.server)
            for each in unbegun
            if each.delivery.letter != "alarm"
        ]
        if unspent and self.rules.are_counted:
            rates.refund(self.session, self.rules, unspent, now=now)

    def brake_now_and_then(self, now: datetime) -> None:
        """Do so, but not after each of the windows that went wrong: what is looked at is long."""
        if self.braked_at is None or now - self.braked_at >= BRAKING:
            self.braked_at = now
            self.brake(now)

    def brake(self, now: datetime) -> None:
        """Stop the mail if too much of it goes wrong; commits."""
        if not self.rules.brakes:
            return
        surge = rates.brake(self.session, self.rules.brakes, now=now)
        self.session.commit()
        if surge:
            log.error("Mail is stopped: %s. Go on with: digest deliveries resume", surge.said)
