"""Stop and resume mail, decide about stuck letters, and requeue what dead processes held."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import DeliveryState
from digest.delivery.limits import emergency_stops, shared_limits
from digest.delivery.limits.limiter import STOPPED_PREFIX
from digest.delivery.outbox import backoff, delivery_listing, transitions
from digest.errors import BadField
from digest.process import heartbeats


def stop_mail(session: Session, reason: str, *, scope: str, now: datetime) -> bool:
    """Stop all mail or only digests; return whether this added a new stop."""
    return emergency_stops.emergency_stop(session, reason, scope=scope, now=now)


def resume_mail(
    session: Session, *, now: datetime, with_deferred: bool = False, is_dry_run: bool = False
) -> tuple[int, int]:
    """Lift every stop; return the number of stops, and the number of waiting letters that are now due.

    `with_deferred` also ends the pauses of domains and servers, and the wait of every deferred letter. Rates
    and the other limits still apply. A dry run only counts the stops and letters.
    """
    lifted, due = emergency_stops.lift_stops(session, now=now), 0
    if with_deferred:
        shared_limits.end_pauses(session, now=now)
    if lifted or with_deferred:
        due = backoff.make_due(session, reason="" if with_deferred else STOPPED_PREFIX, now=now)
    if is_dry_run:
        session.rollback()
    return lifted, due


def requeue_dead_claims(session: Session, *, now: datetime) -> int:
    """Requeue the letters that dead processes had claimed, and return their number."""
    return transitions.release_dead_claims(session, dead_machines=heartbeats.dead_machines(session, now))


def change_stuck_letters(
    session: Session,
    ids: Collection[int],
    change: Callable[..., set[int]],
    *,
    now: datetime,
    is_dry_run: bool,
) -> set[int]:
    """Change stuck letters with `outbox.retry_stuck` or `outbox.give_up_stuck`, and return their ids.

    Raises BadField for a letter that is not stuck, and NotFound for a letter that does not exist.
    """
    for number in ids:
        state = delivery_listing.find_delivery(session, str(number)).state
        if state != DeliveryState.STUCK:
            raise BadField(
                "ID", f"letter {number} is {state}, not stuck. See: digest deliveries show {number}"
            )
    changed = change(session, ids, now=now)
    if is_dry_run:
        session.rollback()
    return changed
