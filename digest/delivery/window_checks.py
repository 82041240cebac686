"""Check each letter of a window individually before it is sent.

A letter that must not be sent is settled here, one that must wait is queued again, and the others may be sent.
This runs for every window on SQLite, and on PostgreSQL for windows that the fast path cannot send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from digest import bounces
from digest.db.tables import DeliveryState
from digest.delivery import outbox
from digest.delivery.limits import Wait
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import ClaimedDelivery, Outbox
from digest.delivery.send_policy import SendPolicy
from digest.delivery.settlement import end_unsent, release
from digest.site_profile import Site


@dataclass(kw_only=True)
class WindowCheck:
    """The check of one window, and its results."""

    outbox: Outbox
    site: Site
    policy: SendPolicy
    lease: str
    now: datetime
    short: dict[int, Wait] = field(default_factory=dict)  #: letters we keep until their tokens are available
    tally: Counter[str] = field(default_factory=Counter)  #: deliveries by result

    def check(
        self, window: Sequence[tuple[ClaimedDelivery, RenderedDelivery | None]]
    ) -> dict[int, RenderedDelivery]:
        """End or queue again what may not go, and return the letters that may."""
        recipients = outbox.load_recipients(
            self.outbox.session, (delivery.subscriber_id for delivery, _ in window)
        )
        suppressed = self.suppressed([delivery for delivery, _ in window])
        sendable = {}
        for delivery, rendered in window:
            recipient = recipients.get(delivery.subscriber_id or 0)
            ending = outbox.refusal_reason(
                delivery, recipient, is_suppressed=delivery.id in suppressed, now=self.now
            ) or stuck_reason(delivery, rendered)
            if ending:
                self.tally[ending[0]] += end_unsent(
                    self.outbox, delivery, *ending, was=DeliveryState.CLAIMED, now=self.now
                )
            elif rendered and rendered.recipient != recipient:  # their settings have changed since
                self.requeue_to_rewrite(delivery)
            elif rendered:
                sendable[delivery.id] = rendered
        return self.reserve(sendable)

    def suppressed(self, window: Sequence[ClaimedDelivery]) -> set[int]:
        """Return the deliveries whose address is suppressed."""
        emails = {delivery.email for delivery in window if delivery.email}
        suppressed = bounces.find_suppressed(self.outbox.session, self.site, emails)
        found = [delivery for delivery in window if delivery.email in suppressed]
        confirmations = [delivery for delivery in found if outbox.may_reach_suppressed(delivery)]
        emails = {delivery.email for delivery in confirmations if delivery.email}
        permanent = bounces.find_suppressed(self.outbox.session, self.site, emails, permanently=True)
        return {each.id for each in found} - {
            each.id for each in confirmations if each.email not in permanent
        }

    def requeue_to_rewrite(self, delivery: ClaimedDelivery) -> None:
        """Queue one letter again, to be rendered with its recipient's new settings."""
        release(self.outbox, delivery, "", was=DeliveryState.CLAIMED, due_at=self.now, is_tried=False)

    def reserve(self, sendable: Mapping[int, RenderedDelivery]) -> dict[int, RenderedDelivery]:
        """Queue again the letters that must wait, and return those that may go, with tokens taken. Alarms
        never wait.
        """
        emails = {
            number: each.delivery.email or ""
            for number, each in sendable.items()
            if each.delivery.letter != "alarm"
        }
        tried = {number for number, each in sendable.items() if each.delivery.attempts}
        held = self.policy.reserve(emails, lease=self.lease, now=self.now, tried=tried)
        postpone(self.outbox, held.waits, lease=self.lease)
        self.tally["deferred"] += len(held.waits)
        self.short = held.short
        left = {
            number: each
            for number, each in sendable.items()
            if number not in held.waits and number not in held.short
        }
        assigned = {
            number: replace(left[number], message=replace(left[number].message, server=server))
            for number, server in held.servers.items()
        }
        return left | assigned


def postpone(box: Outbox, waits: Mapping[int, Wait], *, lease: str) -> None:
    """Queue letters again that must wait; no attempt is used up, and those with the same wait share one
    statement.
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


def stuck_reason(
    delivery: ClaimedDelivery, rendered: RenderedDelivery | None
) -> tuple[DeliveryState, str] | None:
    """Return why the operator must look at a letter before it goes out, or None."""
    if rendered is None:
        return DeliveryState.STUCK, "it cannot be rendered; the log of the worker says why"
    if delivery.in_doubt and delivery.content_hash != rendered.intent.content_hash:
        return DeliveryState.STUCK, "it is in doubt, and its bytes would differ from the first attempt"
    return None
