"""Decide which letters a delivery run may not send yet.

`limits` defines the limits, pauses and stops; this module applies them to one run. Reserving tokens for a
window also shows whether all digests must wait, so this check needs no query of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Lane
from digest.delivery import outbox
from digest.delivery.limits import domain_pauses, emergency_stops, shared_limits
from digest.delivery.limits.decisions import Refill, Wait
from digest.delivery.limits.domain_pauses import NO_REPLY_PAUSE, LetterReply, TroubledDomains
from digest.delivery.limits.emergency_stops import STOPPED_MAIL
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.limiter import Reservation
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery
from digest.delivery.outbox.letter_eligibility import UNCONFIRMED_LETTERS
from digest.delivery.transports.transport import Outcome, Verdict

log = logging.getLogger(__name__)

LASTING_WAIT = timedelta(minutes=5)  #: if no digest may be sent for this long, all due digests are postponed
POSTPONE_BATCH = 5_000  #: number of letters postponed in one transaction
THRESHOLD_CHECK_INTERVAL = timedelta(seconds=2)  #: minimum time between two checks of the stop thresholds


@dataclass(kw_only=True)
class SendPolicy:
    """The limits on one delivery run, and their state as last read by the run."""

    session: Session
    rules: SendLimits
    lane: Lane = Lane.PROMPT  #: the lane of the current claim
    standstill: Wait | None = None  #: the wait of all digests, if none may be sent now
    can_wait: bool = False  #: whether the run itself waits for tokens if they will be available soon
    refill: Wait | None = None  #: how long the run itself waits, because no claimed digest has a token
    met_standstill: bool = False  #: whether the last window was not sent because all digests must wait
    canary_waits: dict[str, Wait] = field(default_factory=dict)  #: waits for canaries, keyed by edition
    #: the domains with stored deferrals or pauses, as of the last claim
    troubled: TroubledDomains = field(default_factory=TroubledDomains)
    #: the servers to pause, each with the end of its pause
    paused_servers: dict[str, datetime] = field(default_factory=dict)
    thresholds_checked_at: datetime | None = None

    @property
    def is_unrestricted(self) -> bool:
        """Return whether letters need no check, because no limit counts letters and no wait is known."""
        return not (self.rules.are_counted or self.paused_servers or self.standstill)

    # ── before a claim ──────────────────────────────────────────────────────────────────────────

    def is_blocked(self, lane: Lane, now: datetime) -> bool:
        """Return whether all due letters of a lane must wait now.

        If digests must wait for `LASTING_WAIT` or longer, postpone every due digest and return False: expired
        digests and digests of dead workers cannot be postponed, so the run must claim them.
        """
        self.lane, self.met_standstill = lane, False
        if lane is not Lane.BULK:
            return False
        hours = self.rules.hours
        if hours and (opens_at := hours.opens_at(now)):
            self.standstill = Wait(opens_at, f"digests are sent from {hours.opens:%H:%M} on")
        if self.standstill is None:
            return False
        if self.standstill.until - now < LASTING_WAIT:
            return True
        self.postpone(self.standstill, now)
        return False

    def postpone(self, wait: Wait, now: datetime) -> None:
        """Postpone every due digest until the given wait ends, and commit each batch."""
        postponed = POSTPONE_BATCH
        while postponed == POSTPONE_BATCH:
            postponed = outbox.postpone(
                self.session,
                lane=Lane.BULK,
                until=wait.until,
                reason=wait.reason,
                now=now,
                limit=POSTPONE_BATCH,
            )
            self.session.commit()

    # ── after a claim ───────────────────────────────────────────────────────────────────────────

    def waiting_for_canary(self, claimed: Sequence[ClaimedDelivery], now: datetime) -> dict[int, Wait]:
        """Return the waits of the letters that must wait for the results of their edition's canary."""
        canary = self.rules.canary
        if canary is None or self.lane is not Lane.BULK:
            return {}
        self.begin_canary_waits(
            {delivery.edition for delivery in claimed if delivery.edition}, len(claimed), now
        )
        return {
            delivery.id: wait
            for delivery in claimed
            if (wait := self.canary_waits.get(delivery.edition or ""))
            and wait.until > now
            and not delivery.attempts
            and not canary.is_first(delivery.id)
        }

    def begin_canary_waits(self, editions: Collection[str], claimed: int, now: datetime) -> None:
        """Load the canary waits of these editions; begin the waits of new editions."""
        if new := sorted(set(editions) - self.canary_waits.keys()):
            due = claimed + outbox.count_due(
                self.session, lane=Lane.BULK, now=now, limit=100 * POSTPONE_BATCH
            )
            self.canary_waits |= shared_limits.canary_waits(self.session, self.rules, new, due=due, now=now)
            self.session.commit()

    # ── before an intent ────────────────────────────────────────────────────────────────────────

    def reserve(
        self, emails: Mapping[int, str], *, lease: str, now: datetime, tried: Collection[int] = ()
    ) -> Reservation:
        """Reserve tokens for a window, and return the decision about each of its letters."""
        if self.standstill and self.lane is Lane.BULK:
            return Reservation(decisions=dict.fromkeys(emails, self.standstill))
        is_urgent = self.lane is Lane.PROMPT
        found = shared_limits.reserve(
            self.session, self.rules, emails,
            now=now, is_urgent=is_urgent, lease=lease, tried=tried, can_wait=self.can_wait,
        )  # fmt: skip
        is_kept = isinstance(found.standstill, Refill)
        if found.short:
            self.refill = found.standstill if is_kept else None
        if found.standstill and not (is_kept or is_urgent):
            self.standstill, self.met_standstill = found.standstill, True
        return found

    # ── with a settlement ───────────────────────────────────────────────────────────────────────

    def finish_window(
        self, going: Mapping[int, RenderedDelivery], outcomes: Sequence[Outcome], *, lease: str, now: datetime
    ) -> None:
        """Release unused tokens, end this worker's conversations, and pause domains and servers.

        A domain is paused if it deferred letters to several recipients in a row, and a server if it did not
        respond or asked us to slow down. Rows are written in the order of domain and server names, so that
        two workers cannot deadlock.
        """
        untried = [going[each.delivery_id] for each in outcomes if each.verdict is Verdict.UNTRIED]
        self.release([(each.delivery, each.message.server) for each in untried], now)
        emails = (
            [each.delivery.email or "" for each in going.values()] if self.rules.conversation_limits else []
        )
        shared_limits.end_conversations(self.session, self.rules, emails, lease=lease)
        if self.rules.servers:
            server_of = {number: each.message.server for number, each in going.items()}
            silent = {server_of[each.delivery_id] for each in outcomes if each.verdict is Verdict.UNTRIED}
            answering = {
                server_of[each.delivery_id] for each in outcomes if each.verdict is not Verdict.UNTRIED
            }
            self.paused_servers |= dict.fromkeys(silent - answering, now + NO_REPLY_PAUSE)
        self.record_replies(self.replies(going, outcomes), now)
        for server, until in sorted(self.paused_servers.items()):
            shared_limits.pause_server(self.session, server, until)
        self.paused_servers.clear()

    def replies(
        self, going: Mapping[int, RenderedDelivery], outcomes: Sequence[Outcome]
    ) -> dict[str, list[LetterReply]]:
        """Return the replies of the domains that deferred a letter now or earlier, keyed by domain."""
        found: dict[str, list[LetterReply]] = {}
        for each in outcomes:
            delivery = going[each.delivery_id].delivery
            if reply := reply_of(delivery, each):
                found.setdefault(domain_pauses.domain_of(delivery.email or ""), []).append(reply)
        known = self.troubled.strikes | self.troubled.greylisters
        return {
            domain: replies
            for domain, replies in found.items()
            if domain in known or not all(reply.is_taken for reply in replies)
        }

    def record_replies(self, replies: Mapping[str, Sequence[LetterReply]], now: datetime) -> None:
        """Store the replies of domains that defer letters."""
        shared_limits.record_replies(self.session, replies, now=now)
        strikes = self.troubled.strikes | replies.keys()
        self.troubled = self.troubled._replace(strikes=strikes)

    def learns_from(self, going: Mapping[int, RenderedDelivery]) -> bool:
        """Return whether the acceptance of these letters changes the stored record of a domain."""
        return any(self.troubled) and any(
            self.troubled.learn_from(
                domain_pauses.domain_of(each.delivery.email or ""), is_first_try=not each.delivery.attempts
            )
            for each in going.values()
        )

    def release(self, letters: Iterable[tuple[ClaimedDelivery, str]], now: datetime) -> None:
        """Release the tokens of letters that no server received; alarm letters use no tokens.

        `letters` pairs each letter with its assigned server.
        """
        unsent = [
            (delivery.email or "", server) for delivery, server in letters if delivery.letter != "alarm"
        ]
        if unsent and self.rules.are_counted:
            shared_limits.release(self.session, self.rules, unsent, now=now)

    def check_thresholds_periodically(self, now: datetime) -> None:
        """Check the stop thresholds at most every two seconds, since the check reads many rows."""
        if self.thresholds_checked_at is None or now - self.thresholds_checked_at >= THRESHOLD_CHECK_INTERVAL:
            self.thresholds_checked_at = now
            self.check_thresholds(now)

    def check_thresholds(self, now: datetime) -> None:
        """Stop mail if a threshold is exceeded, and commit."""
        if not self.rules.stop_thresholds:
            return
        reading = emergency_stops.check_thresholds(self.session, self.rules.stop_thresholds, now=now)
        self.session.commit()
        if reading:
            stopped = STOPPED_MAIL[reading.scope]
            log.error("%s stopped: %s. To resume: digest deliveries resume", stopped, reading.message)


def reply_of(delivery: ClaimedDelivery, outcome: Outcome) -> LetterReply | None:
    """Return the reply of a letter's domain, or None if the outcome says nothing about the domain.

    A deferred letter to an unconfirmed address says nothing, because a stranger may have invented the address.
    """
    is_taken = outcome.verdict is Verdict.ACCEPTED
    is_slow_down = outcome.verdict is Verdict.DEFERRED and domain_pauses.is_slow_down(
        outcome.code, outcome.reply, outcome.phase
    )
    if not (is_taken or is_slow_down) or domain_pauses.throttle_pause(outcome.reply):
        return None
    if not is_taken and delivery.letter in UNCONFIRMED_LETTERS:
        return None
    return LetterReply(
        recipient=str(delivery.subscriber_id or f"letter-{delivery.id}"),
        is_taken=is_taken,
        is_first_try=not delivery.attempts,
        may_be_greylisting=domain_pauses.may_be_greylisting(outcome.code, outcome.phase),
    )
