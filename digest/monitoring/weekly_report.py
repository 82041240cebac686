"""Queue a weekly letter to the operator: the figures of `digest status --since` for the week that ended on Sunday."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.delivery import outbox
from digest.delivery.outbox import planned_letters
from digest.editions.time_zones import zone_of
from digest.monitoring.activity import Activity, activity
from digest.site.site_profile import Site

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
    number = outbox.queue_letter(
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
