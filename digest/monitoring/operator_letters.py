"""Send letters to the operator: about problems, at most one a day for each cause, and a report every week.

Several processes may queue the same letter at once; the letter's unique key prevents duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.delivery.outbox import enqueue, planned_letters
from digest.editions.time_zones import zone_of
from digest.monitoring.activity import Activity, activity
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
        number = enqueue.queue_letter(
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


# ── the weekly report ──


WEEK = timedelta(days=7)
SENT_FROM = timedelta(hours=8)  #: time on Monday from which the letter is sent, in the service's time zone


def queue_weekly_report(session: Session, *, site: Site, operator: str, timezone: str, now: datetime) -> bool:
    """Queue the letter about the last week; return False if it was queued already.

    If no scheduler runs on Monday morning, the letter is queued later in the week, with the same figures.
    """
    monday = last_monday(now, timezone)
    key = planned_letters.WeeklyReportLetter(monday=monday).key
    if session.scalar(select(Delivery.id).where(Delivery.dedupe_key == key)) is not None:
        return False
    end = datetime.combine(monday, time(), UTC) - timedelta(microseconds=1)
    values = letter_values(activity(session, days=WEEK.days, now=end))
    letter = planned_letters.WeeklyReportLetter(monday=monday, contents=values)
    number = enqueue.queue_letter(
        session, letter=letter, subscriber_id=None, email=operator, site=site, now=now, expires_at=now + WEEK
    )
    return number is not None


def last_monday(now: datetime, timezone: str) -> date:
    """Return the latest Monday whose letter is due."""
    day = (now.astimezone(zone_of(timezone)).replace(tzinfo=None) - SENT_FROM).date()
    return day - timedelta(days=day.weekday())


def letter_values(found: Activity) -> dict[str, Any]:
    """Return the values of the letter: the texts of `digest status --since`."""
    rows = [
        {
            "name": one.name,
            "total": f"{one.total:,}",
            "before": one.change,
            "chart": one.chart,
            "most": one.most,
        }
        for one in found.rows
    ]
    return {"period": found.period, "rows": rows, "summary": found.summary}
