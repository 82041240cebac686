"""`digest report`: show the events of the last days with small charts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.common_options import AsJson, Now, current_time

if TYPE_CHECKING:
    from digest.monitoring.activity import Activity

PERIOD = re.compile(r"(?P<number>[1-9]\d{0,2})(?P<unit>[dw])")
MAX_DAYS = 366


def period(text: str) -> timedelta:
    """Parse a period such as `7d` or `4w`."""
    found = PERIOD.fullmatch(text.strip())
    days = int(found["number"]) * {"d": 1, "w": 7}[found["unit"]] if found else 0
    if not 1 <= days <= MAX_DAYS:
        raise typer.BadParameter(f"{text!r} is not a period; write days or weeks, such as 7d or 4w.")
    return timedelta(days=days)


def report(
    since: Annotated[
        timedelta, typer.Option("--since", parser=period, metavar="PERIOD", help="Days or weeks: 7d, 4w.")
    ] = "7d",  # type: ignore[assignment]  # typer parses the default
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Show recent activity: dumps, papers, digests, bounces, subscribers, compared with the period before.

    Examples:
        digest report
        digest report --since 4w
        digest report --since 30d --json
    """
    from digest.monitoring.activity import activity

    with command_context.open_context() as context, context.read_session() as session:
        found = activity(session, days=since.days, now=current_time(now))
    if as_json:
        terminal.print_json(as_document(found))
    else:
        show(found)


def as_document(found: Activity) -> dict[str, Any]:
    """Return the activity for JSON."""
    return {
        "days": found.days,
        "active": found.active,
        "in_doubt": found.doubts,
        **{
            one.name.replace(" ", "_").replace("-", "_"): {
                "total": one.total,
                "before": one.before,
                "per_day": one.per_day,
            }
            for one in found.series
        },
    }


def show(found: Activity) -> None:
    """Print a line for each kind of event."""
    from digest.monitoring import activity_table

    before = f"{plurals.count(len(found.days), 'day')} before#"
    terminal.print_line(f"{activity_table.period(found)} (UTC, so far)")
    terminal.print_line()
    terminal.print_table(
        ("", "total#", before, "per day", "most#"),
        ((row.name, row.total, row.before, row.chart, row.most) for row in activity_table.rows(found)),
        empty=activity_table.NOTHING,
    )
    terminal.print_line()
    terminal.print_line(activity_table.summary(found))
