"""Record the outcome of a window in one transaction, and never count the outcome twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from sqlalchemy.orm import Session

from digest.bounces import bounce_score, report_parser
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import shown
from digest.delivery.limits import domain_pauses, shared_limits
from digest.delivery.limits.domain_pauses import LetterReply
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import backoff, silent_server, transitions
from digest.delivery.outbox.attempts import AttemptRecord, is_recorded, record_attempts
from digest.delivery.outbox.letter_eligibility import UNCONFIRMED_LETTERS
from digest.delivery.outbox.transitions import ClaimedDelivery, Ending
from digest.delivery.transports.transport import Outcome, Verdict
from digest.site.site_profile import Site

RESULTS = {
    Verdict.ACCEPTED: "sent",
    Verdict.DEFERRED: "deferred",
    Verdict.REFUSED: "failed",
    Verdict.IN_DOUBT: "in_doubt",
    Verdict.UNTRIED: "untried",
}


@dataclass(frozen=True, kw_only=True)
class SentWindow:
    """Letters that were sent to a server under one lease, and their outcomes."""

    letters: Mapping[int, RenderedDelivery]
    outcomes: Sequence[Outcome]
    lease: str
    deferring: Collection[str]  #: the domains with deferrals or pauses, which an accepted letter cancels
    began_at: datetime
    ended_at: datetime
    error: BaseException | None = None  #: what ended sending, if not the last letter

    @cached_property
    def attempted(self) -> list[Outcome]:
        """Return the outcomes of the letters that were attempted."""
        return [each for each in self.outcomes if each.verdict is not Verdict.UNTRIED]

    @property
    def had_no_reply(self) -> bool:
        """Return whether no server replied at all."""
        return bool(self.outcomes) and not self.attempted

    def delivery(self, outcome: Outcome) -> ClaimedDelivery:
        """Return the delivery of an outcome."""
        return self.letters[outcome.delivery_id].delivery

    def server(self, outcome: Outcome) -> str:
        """Return the server that was chosen for the letter of an outcome."""
        return self.letters[outcome.delivery_id].message.server


def record(
    session: Session, site: Site, rules: SendLimits, window: SentWindow, *, may_be_recorded: bool
) -> Counter[str]:
    """Write the outcomes unless they are already recorded; return the number of letters with each result.

    The caller commits.
    """
    lease, now = window.lease, window.ended_at
    attempted = [each.delivery_id for each in window.attempted]
    if may_be_recorded and is_recorded(session, window.letters, attempted, lease=lease, at=now):
        return Counter(RESULTS[each.verdict] for each in window.outcomes)
    endings = [ending(window, each) for each in window.outcomes]
    held = transitions.settle(session, endings, was=DeliveryState.SENDING, lease=lease, now=now)
    attempts = [
        AttemptRecord(each.delivery_id, window.began_at, each.verdict, each.phase, each.code, each.reply)
        for each in window.attempted
    ]
    record_attempts(session, attempts, lease=lease, now=now)
    if refused := [each for each in window.attempted if each.verdict is Verdict.REFUSED]:
        shown.release(session, held & {each.delivery_id for each in refused})
    for each in refused:
        count_bounce(session, site, window, each)
    if window.had_no_reply:
        silent_server.note_silence(session, outcome_text(window.outcomes[0]), now=now)
    update_limits(session, rules, window)
    return Counter(RESULTS[each.verdict] for each in window.outcomes if each.delivery_id in held)


def ending(window: SentWindow, outcome: Outcome) -> Ending:
    """Return what becomes of a letter after an attempt."""
    if outcome.verdict is Verdict.ACCEPTED:
        sent = DeliveryState.SENT
        return Ending(id=outcome.delivery_id, state=sent, provider_id=outcome.provider_id or None)
    delivery, now, reason = window.delivery(outcome), window.ended_at, outcome_text(outcome)
    state, due_at, was_tried = DeliveryState.QUEUED, now, False
    match outcome.verdict:
        case Verdict.REFUSED:
            state, was_tried = DeliveryState.FAILED, True
        case Verdict.IN_DOUBT:
            state, was_tried, reason = DeliveryState.SENDING, True, f"in doubt: {reason}"
        case Verdict.DEFERRED if pause := domain_pauses.throttle_pause(outcome.reply):
            due_at = now + pause
        case Verdict.DEFERRED:
            due_at, was_tried = backoff.next_attempt_at(delivery.id, delivery.attempts + 1, now), True
    return Ending(id=delivery.id, state=state, reason=reason, due_at=due_at, was_tried=was_tried)


def count_bounce(session: Session, site: Site, window: SentWindow, outcome: Outcome) -> None:
    """Count a permanent refusal against the address, like a bounce."""
    delivery, reader = window.delivery(outcome), window.letters[outcome.delivery_id].recipient
    if delivery.email is None or delivery.letter == "alarm":
        return
    bounce_score.record_failure(
        session,
        site,
        delivery.email,
        report_parser.failure_of_reply(outcome.code, outcome.reply, phase=outcome.phase),
        now=window.ended_at,
        delivery_id=delivery.id,
        cadence=reader.schedule.cadence if reader else "daily",
    )


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as text, such as `550 5.1.1 no such user (rcpt)`."""
    text = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
    return f"{text} ({outcome.phase})" if outcome.phase else text


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def update_limits(session: Session, rules: SendLimits, window: SentWindow) -> None:
    """Release unused tokens, end this worker's conversations, and pause domains and servers.

    Rows are written in the order of domain and server names, so that two workers cannot deadlock.
    """
    untried = [each for each in window.outcomes if each.verdict is Verdict.UNTRIED]
    letters = [(window.delivery(each), window.server(each)) for each in untried]
    release_tokens(session, rules, letters, now=window.ended_at)
    emails = [each.delivery.email or "" for each in window.letters.values()]
    shared_limits.end_conversations(session, rules, emails, lease=window.lease)
    shared_limits.record_replies(session, replies(window), now=window.ended_at)
    for server, until in sorted(server_pauses(window).items()):
        shared_limits.pause_server(session, server, until)


def release_tokens(
    session: Session, rules: SendLimits, letters: Iterable[tuple[ClaimedDelivery, str]], *, now: datetime
) -> None:
    """Release the tokens of letters that no server received, each with its server; alarms use no tokens."""
    unsent = [(each.email or "", server) for each, server in letters if each.letter != "alarm"]
    shared_limits.release(session, rules, unsent, now=now)


def server_pauses(window: SentWindow) -> dict[str, datetime]:
    """Return the end of the pause of each server that did not respond, or asked us to slow down."""
    silent = {
        window.server(each) for each in window.outcomes if each.verdict is Verdict.UNTRIED and each.phase
    }
    answering = {window.server(each) for each in window.attempted}
    pauses = dict.fromkeys(silent - answering, window.ended_at + domain_pauses.NO_REPLY_PAUSE)
    for each in window.attempted:
        pause = each.verdict is Verdict.DEFERRED and domain_pauses.throttle_pause(each.reply)
        if pause:
            pauses[window.server(each)] = window.ended_at + pause
    return pauses


def replies(window: SentWindow) -> dict[str, list[LetterReply]]:
    """Return the replies of the domains that deferred a letter now or earlier, keyed by domain."""
    found: dict[str, list[LetterReply]] = {}
    is_calm = not window.deferring and not any(each.verdict is Verdict.DEFERRED for each in window.outcomes)
    for each in () if is_calm else window.outcomes:
        delivery = window.delivery(each)
        if reply := reply_of(delivery, each):
            found.setdefault(domain_pauses.domain_of(delivery.email or ""), []).append(reply)
    return {
        domain: replies
        for domain, replies in found.items()
        if domain in window.deferring or not all(reply.is_taken for reply in replies)
    }


def reply_of(delivery: ClaimedDelivery, outcome: Outcome) -> LetterReply | None:
    """Return the reply of a letter's domain, or None if the outcome says nothing about the domain.

    A deferred letter to an unconfirmed address says nothing, because a stranger may have invented the address. The
    first deferral of a recipient says nothing, because the domain may be greylisting.
    """
    recipient = str(delivery.subscriber_id or f"letter-{delivery.id}")
    if outcome.verdict is Verdict.ACCEPTED:
        return LetterReply(recipient, is_taken=True)
    code, reply, phase = outcome.code, outcome.reply, outcome.phase
    is_counted = (
        outcome.verdict is Verdict.DEFERRED
        and domain_pauses.is_slow_down(code, reply, phase)
        and not domain_pauses.throttle_pause(reply)
        and delivery.letter not in UNCONFIRMED_LETTERS
        and (delivery.attempts > 0 or not domain_pauses.may_be_greylisting(code, phase))
    )
    return LetterReply(recipient, is_taken=False) if is_counted else None
