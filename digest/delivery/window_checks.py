"""Decide what becomes of the letters of a window that are not sent: each ends, or is requeued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.db.tables.deliveries import DeliveryState
from digest.delivery import shown
from digest.delivery.limits.decisions import Wait
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.outbox import letter_eligibility, transitions
from digest.delivery.outbox.recipients import RecipientState, load_recipients_with_versions
from digest.delivery.outbox.transitions import ClaimedDelivery, Ending
from digest.site.site_profile import Site

#: A delivery and its rendered letter; None if the letter cannot be rendered or has no address.
Letter = tuple[ClaimedDelivery, RenderedDelivery | None]


def end_unsent(session: Session, endings: Sequence[Ending], *, lease: str, now: datetime) -> Counter[str]:
    """End or requeue letters that were not sent; return the number of letters that we held with each result.

    Unless a letter is stuck, its papers may be sent again, because the reader cannot have seen them.
    """
    if not endings:
        return Counter()
    held = transitions.settle(session, endings, was=DeliveryState.CLAIMED, lease=lease, now=now)
    done = [each for each in endings if each.id in held]
    waiting = [each for each in done if each.due_at and each.due_at > now]
    ended = [each for each in done if each.state is not DeliveryState.QUEUED]
    if unseen := [each.id for each in ended if each.state is not DeliveryState.STUCK]:
        shown.release(session, unseen)
    return Counter(deferred=len(waiting)) + Counter(str(each.state) for each in ended)


def requeued(number: int, wait: Wait) -> Ending:
    """Return that a letter waits in the queue, without using up an attempt."""
    return Ending(
        id=number, state=DeliveryState.QUEUED, reason=wait.reason, due_at=wait.until, was_tried=False
    )


def endings_of_blocked(
    session: Session, site: Site, letters: Sequence[Letter], *, now: datetime
) -> Iterator[Ending]:
    """Yield what becomes of letters that may not be sent.

    A letter ends, or is queued to be rendered again, because its recipient's settings have changed.
    """
    if not letters:
        return
    deliveries = [delivery for delivery, _ in letters]
    recipients = load_recipients_with_versions(session, (each.subscriber_id for each in deliveries))
    suppressed = suppressed_ids(session, site, deliveries)
    for delivery, rendered in letters:
        recipient, _ = recipients.get(delivery.subscriber_id or 0, (None, ""))
        is_suppressed = delivery.id in suppressed
        if end := reason_to_end(delivery, rendered, recipient, is_suppressed=is_suppressed, now=now):
            yield Ending(id=delivery.id, state=end[0], reason=end[1])
        else:
            yield requeued(delivery.id, Wait(now, ""))


def suppressed_ids(session: Session, site: Site, deliveries: Sequence[ClaimedDelivery]) -> set[int]:
    """Return the ids of the letters to suppressed addresses.

    A confirmation that lets the owner of an address lift its suppression counts only if the owner cannot lift it.
    """
    ids = set[int]()
    for lifts in (False, True):
        emails = {
            each.id: each.email
            for each in deliveries
            if letter_eligibility.may_reach_suppressed(each) is lifts
        }
        known = {email for email in emails.values() if email}
        suppressed = suppressions.find_suppressed(session, site, known, permanently=lifts)
        ids |= {number for number, email in emails.items() if email in suppressed}
    return ids


def reason_to_end(
    delivery: ClaimedDelivery,
    rendered: RenderedDelivery | None,
    recipient: RecipientState | None,
    *,
    is_suppressed: bool,
    now: datetime,
) -> tuple[DeliveryState, str] | None:
    """Return the terminal state and reason of a letter that must not be sent, or None if it may be sent."""
    refusal = letter_eligibility.refusal_reason(delivery, recipient, is_suppressed=is_suppressed, now=now)
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
