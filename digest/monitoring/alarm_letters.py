"""Send letters about problems to the operator, at most one a day for each cause.

Several processes may queue the same letter at once; the letter's unique key prevents duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.delivery import outbox
from digest.delivery.outbox import planned_letters
from digest.monitoring.check_results import Problem
from digest.monitoring.figures import DAY
from digest.site.site_profile import Site


def queue_alarm_letters(
    session: Session, found: Iterable[Problem], *, site: Site, operator: str, now: datetime
) -> int:
    """Queue at most one letter per problem per day, and return the number queued.

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
        letter = planned_letters.AlarmLetter(cause=problem.cause, day=now.date(), contents=decision)
        number = outbox.queue_letter(
            session,
            letter=letter,
            subscriber_id=None,
            email=operator,
            site=site,
            now=now,
            expires_at=now + DAY,
        )
        queued += number is not None
    return queued


def was_reported(session: Session, cause: str, now: datetime) -> bool:
    """Return whether a letter about this cause is less than a day old."""
    days = (now - DAY, now)
    keys = [planned_letters.AlarmLetter(cause=cause, day=moment.date()).key for moment in days]
    letters = select(Delivery.id).where(Delivery.dedupe_key.in_(keys), Delivery.dated_at > now - DAY)
    return session.scalar(letters.limit(1)) is not None
