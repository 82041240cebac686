"""Send letters about problems to the operator, at most one a day for each cause.

Several processes may queue the same letter at once; the letter's unique key prevents duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables import Delivery
from digest.delivery import outbox
from digest.monitoring.check_results import Problem
from digest.monitoring.figures import DAY
from digest.site_profile import Site


def queue_alarm_letters(
    session: Session, found: Iterable[Problem], *, site: Site, operator: str, now: datetime
) -> int:
    """Queue at most one letter per problem per day, commit, and return the number queued.

    After midnight, a lasting problem is reported again only when its last letter is a day old.
    """
    queued = 0
    for problem in found if operator else ():
        if problem.is_warning or was_reported(session, problem.cause, now):
            continue
        decision = {
            "message": problem.message,
            "fix": problem.fix,
            "since": f"{problem.since:%Y-%m-%d %H:%M} UTC" if problem.since else "",
            "facts": list(problem.facts),
        }
        number = outbox.queue_letter(
            session, letter="alarm", subscriber_id=None, email=operator, decision=decision,
            dedupe_key=alarm_key(problem.cause, now), site=site, now=now, expires_at=now + DAY,
        )  # fmt: skip
        queued += number is not None
    session.commit()
    return queued


def was_reported(session: Session, cause: str, now: datetime) -> bool:
    """Return whether a letter about this cause is less than a day old."""
    keys = [alarm_key(cause, moment) for moment in (now - DAY, now)]
    letters = select(Delivery.id).where(Delivery.dedupe_key.in_(keys), Delivery.dated_at > now - DAY)
    return session.scalar(letters.limit(1)) is not None


def alarm_key(cause: str, now: datetime) -> str:
    """Return the dedupe key of the day's letter about a cause."""
    return f"alarm-{cause}-{now.date()}"
