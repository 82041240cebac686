"""Check each letter of a window individually before it is sent.

Letters that must not be sent are settled, and letters that must wait are requeued; the others may be sent.
Only letters that the fast path does not handle are checked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from digest.bounces import suppressions
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import outbox
from digest.delivery.limits.decisions import Wait
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery, Outbox, RecipientState
from digest.delivery.send_policy import SendPolicy
from digest.delivery.settlement import end_unsent
from digest.delivery.steps import Letter
from digest.site.site_profile import Site


@dataclass(frozen=True, kw_only=True)
class CheckedWindow:
    """The letters of a window that may be sent, and the results of the others."""

    sendable: Mapping[int, RenderedDelivery]
    short: Mapping[int, Wait]  #: waits of letters that we hold until they get tokens, by delivery id
    tally: Counter[str]  #: number of settled and requeued deliveries by result


@dataclass(frozen=True, kw_only=True)
class WindowCheck:
    """Checks the letters of one window individually."""

    outbox: Outbox
    site: Site
    policy: SendPolicy
    lease: str
    now: datetime

    def check(self, window: Sequence[Letter]) -> CheckedWindow:
        """Settle or requeue the letters that may not be sent now, and reserve tokens for the others."""
        session = self.outbox.session
        known = outbox.load_recipients_with_versions(session, (each.subscriber_id for each, _ in window))
        listed, suppressed = self.suppressed([delivery for delivery, _ in window])
        sendable, again, tally = dict[int, RenderedDelivery](), dict[int, Wait](), Counter[str]()
        for delivery, rendered in window:
            recipient, version = known.get(delivery.subscriber_id or 0, (None, ""))
            is_suppressed = delivery.id in suppressed
            ending = reason_to_end(delivery, rendered, recipient, is_suppressed=is_suppressed, now=self.now)
            if ending:
                was = DeliveryState.CLAIMED
                tally[ending[0]] += end_unsent(self.outbox, delivery, *ending, was=was, now=self.now)
            elif rendered and rendered.recipient == recipient:
                sendable[delivery.id] = as_checked(rendered, version, may_be_suppressed=delivery.id in listed)
            else:  # the recipient's settings have changed, so the letter is rendered again
                again[delivery.id] = Wait(self.now, "")
        postpone(self.outbox, again, lease=self.lease)
        return self.reserve(sendable, tally)

    def suppressed(self, window: Sequence[ClaimedDelivery]) -> tuple[set[int], set[int]]:
        """Return the ids of deliveries to suppressed addresses, and the ids of those that must not be sent.

        A confirmation that lets the owner lift the suppression may be sent.
        """
        emails = {delivery.email for delivery in window if delivery.email}
        suppressed = suppressions.find_suppressed(self.outbox.session, self.site, emails)
        found = [delivery for delivery in window if delivery.email in suppressed]
        confirmations = [delivery for delivery in found if outbox.may_reach_suppressed(delivery)]
        emails = {delivery.email for delivery in confirmations if delivery.email}
        permanent = suppressions.find_suppressed(self.outbox.session, self.site, emails, permanently=True)
        listed = {each.id for each in found}
        return listed, listed - {each.id for each in confirmations if each.email not in permanent}

    def reserve(self, sendable: Mapping[int, RenderedDelivery], tally: Counter[str]) -> CheckedWindow:
        """Requeue the letters that must wait, and take tokens for the others; return the result of the check.

        Alarm letters never wait.
        """
        emails = {
            number: each.delivery.email or ""
            for number, each in sendable.items()
            if each.delivery.letter != "alarm"
        }
        tried = {number for number, each in sendable.items() if each.delivery.attempts}
        held = self.policy.reserve(emails, lease=self.lease, now=self.now, tried=tried)
        waits, short, servers = held.waits, held.short, held.servers
        postpone(self.outbox, waits, lease=self.lease)
        left = {
            number: through_server(each, servers.get(number))
            for number, each in sendable.items()
            if number not in waits and number not in short
        }
        return CheckedWindow(sendable=left, short=short, tally=tally + Counter(deferred=len(waits)))


def as_checked(letter: RenderedDelivery, version: str, *, may_be_suppressed: bool) -> RenderedDelivery:
    """Return the letter with an intent that is blocked if the recipient changes after this check."""
    address = "" if may_be_suppressed else letter.intent.address_hash
    return replace(letter, intent=replace(letter.intent, recipient_version=version, address_hash=address))


def through_server(letter: RenderedDelivery, server: str | None) -> RenderedDelivery:
    """Return the letter assigned to the server whose tokens were reserved for it."""
    return letter if server is None else replace(letter, message=replace(letter.message, server=server))


def unblocked(window: Sequence[Letter], now: datetime) -> dict[int, RenderedDelivery]:
    """Return the letters whose own data does not block them; the outbox checks the other conditions."""
    return {
        delivery.id: rendered
        for delivery, rendered in window
        if rendered
        and rendered.recipient
        and delivery.letter != "alarm"
        and (delivery.email or "").isprintable()
        and not reason_to_end(delivery, rendered, rendered.recipient, is_suppressed=False, now=now)
    }


def postpone(box: Outbox, waits: Mapping[int, Wait], *, lease: str) -> None:
    """Requeue the letters that must wait, without using up an attempt.

    Letters with the same wait are requeued in one statement.
    """
    ids_by_wait: dict[Wait, list[int]] = {}
    for number, wait in waits.items():
        ids_by_wait.setdefault(wait, []).append(number)
    for wait, numbers in ids_by_wait.items():
        box.release(
            numbers,
            wait.reason,
            from_state=DeliveryState.CLAIMED,
            lease=lease,
            due_at=wait.until,
            counts_as_attempt=False,
        )


def reason_to_end(
    delivery: ClaimedDelivery,
    rendered: RenderedDelivery | None,
    recipient: RecipientState | None,
    *,
    is_suppressed: bool,
    now: datetime,
) -> tuple[DeliveryState, str] | None:
    """Return the terminal state and reason of a letter that must not be sent, or None if it may be sent."""
    refusal = outbox.refusal_reason(delivery, recipient, is_suppressed=is_suppressed, now=now)
    if refusal or (rendered and not delivery.in_doubt):
        return refusal
    if rendered is None:
        return DeliveryState.STUCK, "the letter cannot be rendered; see the log of the worker"
    if delivery.content_hash not in {
        None,
        rendered.intent.content_hash,
    }:  # None: the operator has retried the letter
        return (
            DeliveryState.STUCK,
            "the letter is in doubt, and its bytes would differ from those sent before",
        )
    return None
