"""The operator gets one report a week, about the week that ended on Sunday."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.monitoring import operator_letters
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows

MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def queue_at(session: Session, site: Site, moment: datetime, *, timezone: str = "UTC") -> bool:
    """Do what the scheduler does at that moment; return whether a letter was queued."""
    return operator_letters.queue_weekly_report(
        session, site=site, operator="op@example.org", timezone=timezone, now=moment
    )


def test_one_report_is_queued_each_week(session: Session, site: Site) -> None:
    moments = [MONDAY, MONDAY + HOUR, MONDAY + timedelta(days=7) - HOUR, MONDAY + timedelta(days=7)]

    assert [queue_at(session, site, moment) for moment in moments] == [True, False, False, True]
    letters = session.execute(select(Delivery.letter, Delivery.email).distinct()).all()
    assert [tuple(row) for row in letters] == [("weekly_report", "op@example.org")]


@pytest.mark.parametrize("late", [timedelta(0), timedelta(days=3)])
def test_a_late_report_has_the_figures_of_the_same_week(
    session: Session, site: Site, late: timedelta
) -> None:
    for day in (15, 16, 18, 22, 23):  # the Sunday before, three days of the week, the Monday after
        moment = datetime(2026, 11, day, 12, 0, tzinfo=UTC)
        subscriber_rows.add(session, f"reader{day}@example.org", now=moment)
    session.commit()

    queue_at(session, site, MONDAY + late)

    values = json.loads(session.scalars(select(Delivery.decision)).one())
    (row,) = [row for row in values["rows"] if row["name"] == "sign-ups"]
    assert values["period"] == "7 days, 2026-11-16 to 2026-11-22"
    assert (row["total"], row["before"], row["chart"]) == ("3", "1 (+200%)", "█·█···█")


def test_the_report_is_due_on_monday_morning_in_the_services_time_zone() -> None:
    def monday(hour: int, timezone: str) -> int:
        return operator_letters.last_monday(MONDAY.replace(hour=hour), timezone).day

    assert [monday(hour, "UTC") for hour in (7, 8)] == [16, 23]
    assert [monday(hour, "Europe/Oslo") for hour in (6, 7)] == [16, 23]
    assert [monday(hour, "America/New_York") for hour in (12, 13)] == [16, 23]
