"""Stop and resume mail at the operator's request; each function commits."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from digest.delivery import limits, outbox


def stop_mail(session: Session, reason: str, *, scope: str, now: datetime) -> bool:
    """Stop all mail or the digests; return whether it was not stopped before."""
    is_new = limits.emergency_stop(session, reason, scope=scope, now=now)
    session.commit()
    return is_new


def resume_mail(session: Session, *, now: datetime) -> tuple[int, int]:
    """Lift every stop; return the number of stops, and the number of waiting letters that are now due."""
    lifted = limits.lift_stops(session, now=now)
    due = outbox.make_due(session, reason=limits.STOPPED_PREFIX, now=now) if lifted else 0
    session.commit()
    return lifted, due
