"""Decide whether a letter may still be sent, given the current state of its recipient."""

from __future__ import annotations

import json
from datetime import datetime

from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import SubscriberState
from digest.delivery.outbox.recipients import RecipientState
from digest.delivery.outbox.stuck_deliveries import MAX_IN_DOUBT
from digest.delivery.outbox.transitions import ClaimedDelivery

#: Key in the decision of a confirmation that may go to an address suppressed by bounces or a complaint.
LIFTS_SUPPRESSION = "lifts_suppression"
#: The letters to addresses that anybody may have entered. What happens to them must not affect other letters.
UNCONFIRMED_LETTERS = frozenset({"confirm", "reminder"})


def refusal_reason(  # noqa: PLR0911  (one return for each reason)
    delivery: ClaimedDelivery, recipient: RecipientState | None, *, is_suppressed: bool, now: datetime
) -> tuple[DeliveryState, str] | None:
    """Return the terminal state and the reason if this delivery must not be sent, else None."""
    if delivery.in_doubt >= MAX_IN_DOUBT:
        return DeliveryState.STUCK, f"in doubt {delivery.in_doubt} times: it may or may not have arrived"
    if delivery.email is None:
        return DeliveryState.SUPPRESSED, "the address was erased"
    if is_suppressed:
        return DeliveryState.SUPPRESSED, "the address is suppressed"
    if not is_eligible(delivery, recipient):
        return DeliveryState.SUPPRESSED, f"the subscriber is {recipient.state if recipient else 'removed'}"
    if delivery.expires_at <= now:
        waited = f"; it had waited: {delivery.reason}" if delivery.reason else ""
        return (
            DeliveryState.EXPIRED,
            f"too late: it expired at {delivery.expires_at:%Y-%m-%d %H:%M} UTC{waited}",
        )
    return None


def may_reach_suppressed(delivery: ClaimedDelivery) -> bool:
    """Return whether this is a confirmation that lets the owner of an address lift its suppression."""
    return delivery.letter == "confirm" and bool(json.loads(delivery.decision).get(LIFTS_SUPPRESSION))


def is_eligible(delivery: ClaimedDelivery, recipient: RecipientState | None) -> bool:  # noqa: PLR0911  (one return for each condition)
    """Return whether the recipient's current state allows this letter."""
    if delivery.letter == "invite":
        return recipient is not None and recipient.state is SubscriberState.PENDING
    match recipient.state if recipient else None:
        case None:  # a sender who is not a subscriber gets a reply; an erased subscriber gets no digest
            return delivery.edition is None
        case SubscriberState.ACTIVE:
            return True
        case SubscriberState.PAUSED:
            return delivery.edition is None and delivery.letter not in {"nothing_today", "still_reading"}
        case SubscriberState.PENDING:
            return delivery.letter in UNCONFIRMED_LETTERS
        case SubscriberState.UNSUBSCRIBED:
            return delivery.letter not in {"digest", "welcome", "nothing_today", "changed", "still_reading"}
