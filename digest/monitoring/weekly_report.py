"""Queue a weekly letter to the operator: the figures of `digest status --since` for the week that ended on Sunday."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.delivery import outbox
from digest.delivery.outbox import planned_letters
from digest.editions.time_zones import zone_of
from digest.monitoring import activity_table
from digest.monitoring.activity import Activity, activity
from digest.site.site_profile import Site

WEEK = timedelta(days=7)
SENT_FROM = timedelta(hours=8)  #: time on Monday from which the letter is sent, in the service's time zone


@dataclass(frozen=True, kw_only=True, slots=True)
class WeeklyReport:
    """The activity of the seven days before a Monday."""

    monday: date
    activity: Activity


def due_report(session: Session, *, timezone: str, now: datetime) -> WeeklyReport | None:
    """Return the report on the last week, or None if its letter was queued already.

    If no scheduler runs on Monday morning, the report is due later in the week, with the same figures.
    """
    monday = last_monday(now, timezone)
    key = planned_letters.WeeklyReportLetter(monday=monday).key
    if session.scalar(select(Delivery.id).where(Delivery.dedupe_key == key)) is not None:
        return None
    end = datetime.combine(monday, time(), UTC) - timedelta(microseconds=1)
    return WeeklyReport(monday=monday, activity=activity(session, days=WEEK.days, now=end))


def last_monday(now: datetime, timezone: str) -> date:
    """Return the latest Monday whose letter is due."""
    day = (now.astimezone(zone_of(timezone)).replace(tzinfo=None) - SENT_FROM).date()
    return day - timedelta(days=day.weekday())


def queue_weekly_report(
    session: Session, report: WeeklyReport, *, site: Site, operator: str, now: datetime
) -> bool:
    """Queue the letter with this report; return False if it was queued already."""
    letter = planned_letters.WeeklyReportLetter(monday=report.monday, contents=letter_values(report.activity))
    number = outbox.queue_letter(
        session, letter=letter, subscriber_id=None, email=operator, site=site, now=now, expires_at=now + WEEK
    )
    return number is not None


def letter_values(found: Activity) -> dict[str, Any]:
    """Return the values of the letter: the texts of `digest status --since`."""
    return {
        "period": activity_table.period(found),
        "rows": [asdict(row) | {"total": f"{row.total:,}"} for row in activity_table.rows(found)],
        "summary": activity_table.summary(found),
    }
