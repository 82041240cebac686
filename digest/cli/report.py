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
    from collections.abc import Sequence

    from digest.monitoring.activity import Activity, Series

BARS = "▁▂▃▄▅▆▇█"
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
    """Show recent activity: dumps, papers, digests, bounces, subscribers, compared with the period before."""
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
    span = plurals.count(len(found.days), "day")
    terminal.print_line(f"{span}, {found.days[0]} to {found.days[-1]} (UTC, so far)")
    terminal.print_line()
    terminal.print_table(
        ("", "total#", f"{span} before#", "per day", "most#"),
        (
            (one.name, one.total, change_text(one), chart(one.per_day), max(one.per_day))
            for one in found.series
            if one.total or one.before
        ),
        empty="Nothing happened in this period.",
    )
    terminal.print_line()
    doubts = plurals.count(found.doubts, "letter")
    active = plurals.count(found.active, "active subscriber")
    terminal.print_line(f"{active} now. {doubts} in doubt: sent, but without a reply at least once.")


def change_text(one: Series) -> str:
    """Return the total of the preceding period, and the change in percent."""
    if not one.before:
        return "0"
    change = round(100 * (one.total - one.before) / one.before)
    return f"{one.before:,} ({change:+d} %)" if change else f"{one.before:,}"


def chart(counts: Sequence[int], *, width: int = 31) -> str:
    """Return a bar for each count, relative to the highest.

    If there are many days, each bar is the sum of several days.
    """
    size = -(-len(counts) // width)
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    highest = max(sums)
    if not highest:
        return "·" * len(sums)
    return "".join("·" if not one else BARS[(one * (len(BARS) - 1)) // highest] for one in sums)
