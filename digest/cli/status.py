"""`digest status`: show counts, processes, servers, disks and problems, or the activity of the last days."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from digest import plurals
from digest.cli import command_context
from digest.cli.frame import command
from digest.cli.options import CLOCK, Now, current_time, option
from digest.cli.results import CommandResult, Facts, Table, Text, show_text

if TYPE_CHECKING:
    from digest.monitoring.activity import Activity
    from digest.monitoring.check_results import Problem
    from digest.monitoring.figures import ActiveStop, Figures
    from digest.monitoring.probes import Disk
    from digest.monitoring.report import Report
    from digest.process.heartbeats import ProcessRecord
    from digest.settings import Settings

WATCH_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"  #: the escape sequence that moves the cursor to the top left and clears the screen
FACTS = 3  #: maximum number of facts shown for each problem; the alarm letter has all facts
PERIOD = re.compile(r"(?P<number>[1-9]\d{0,2})(?P<unit>[dw])")
MAX_DAYS = 366


def period(text: str) -> timedelta:
    """Parse a period such as `7d` or `4w`."""
    found = PERIOD.fullmatch(text.strip())
    days = int(found["number"]) * {"d": 1, "w": 7}[found["unit"]] if found else 0
    if not 1 <= days <= MAX_DAYS:
        raise typer.BadParameter(f"{text!r} is not a period; write days or weeks, such as 7d or 4w.")
    return timedelta(days=days)


@command()
def status(
    since: Annotated[
        timedelta | None,
        option("--since PERIOD", "Show the activity of days or weeks: 7d, 4w.", parser=period),
    ] = None,
    watch: Annotated[bool, option("--watch", "Show the status again every 2 seconds, until Ctrl-C.")] = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Show service status: subscribers, papers, mail, processes, servers, disks.

    Exits with 1 if a component does not work, mail is stopped, letters are overdue, a dump is unread, a disk or
    the inbox is full, or unconfirmed sign-ups slow down confirmations.

    With --since, show dumps, papers, digests, bounces and subscribers of a period, compared with the period before.

    Examples:
        digest status
        digest status --watch
        digest status --since 4w
    """
    from digest.monitoring import report

    if since is not None:
        return recent_activity(since.days, now)
    settings = command_context.read_settings()
    if watch:
        watch_status(settings)
    made = report.report_from_settings(settings, now)
    return CommandResult(
        as_json_report(made, settings), status_text(made, settings), code=int(not made.is_well)
    )


def watch_status(settings: Settings) -> NoReturn:
    """Show the status repeatedly, each time on a cleared screen."""
    from digest.monitoring import report

    while True:
        made = report.report_from_settings(settings, current_time(None))
        print(CLEAR * sys.stdout.isatty(), end="")
        when = f"{made.now:%Y-%m-%d %H:%M:%S} UTC, every {WATCH_SECONDS:g} seconds; stop with Ctrl-C."
        show_text((when, "", status_text(made, settings)))
        sys.stdout.flush()
        time.sleep(WATCH_SECONDS)


def as_json_report(report: Report, settings: Settings) -> dict[str, Any]:
    """Return the report for JSON; without the database it has no figures."""
    return {
        "now": report.now,
        "is_well": report.is_well,
        **(figures_report(report.figures, report.now) if report.figures else {}),
        "problems": [problem.to_json() for problem in report.problems],
        "disks": [disk_report(disk) for disk in report.disks],
        "settings": settings.shown(),
    }


def figures_report(figures: Figures, now: datetime) -> dict[str, Any]:
    """Return the figures for JSON."""
    return {
        "subscribers": figures.subscribers,
        "catalog": {
            "papers": figures.papers,
            "dumps": figures.dumps,
            "last_seen_at": figures.last_paper_at,
        },
        "dumps": [asdict(dump) for dump in figures.latest_dumps],
        "late": [asdict(one) | {"message": str(one)} for one in figures.late_lists],
        "outbox": figures.deliveries,
        "in_doubt": figures.in_doubt,
        "stops": [{"scope": one.scope, "since": one.since, "reason": one.reason} for one in figures.stops],
        "unprocessed_mail": figures.mail_in["shunted"],
        "paused": figures.pauses,
        "next_due_at": figures.next_due_at,
        "due_now": figures.due_now,
        "last_run_at": figures.last_run_at,
        "heartbeats": [heartbeat_report(process, now) for process in figures.processes],
    }


def heartbeat_report(process: ProcessRecord, now: datetime) -> dict[str, Any]:
    """Return the last heartbeat of a process for JSON."""
    return {
        "role": process.role,
        "host": process.host,
        "pid": process.pid,
        "at": process.at,
        "seconds_ago": seconds_since(now, process.at),
        "is_alive": not process.is_dead(now),
    }


def disk_report(disk: Disk) -> dict[str, Any]:
    """Return the free space of a disk for JSON."""
    return {
        "folder": str(disk.folder),
        "free": disk.free,
        "size": disk.size,
        "is_low": disk.is_low,
        "message": str(disk),
    }


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def status_text(report: Report, settings: Settings) -> Iterator[Text]:
    """Yield a report; without the database, only the lines that do not depend on the database."""
    figures, shown = report.figures, settings.shown()
    yield Facts(
        [
            *(counts(figures) if figures else []),
            *problem_lines(report.problems),
            *(work(figures) if figures else []),
            *[("Disk", str(disk)) for disk in report.disks],
            ("Web", shown["base_url"]),
            ("Database", shown["database_url"]),
            ("Broker", shown["broker_url"]),
            ("Mail", shown["mail_url"]),
            ("Dumps", shown["dumps_dir"]),
        ]
    )
    if figures:
        yield from (part for table in tables(figures, report.now) for part in ("", table))


def tables(figures: Figures, now: datetime) -> Iterator[Table]:
    """Yield the tables of the processes, dead ones marked, and of the latest dumps, as far as there are any."""
    from digest.process import heartbeats

    if processes := heartbeats.without_replaced(figures.processes, now):
        columns: dict[str, Any] = {
            "process": "role", "pid": lambda one: str(one.pid), "host": "host",
            "last seen": lambda one: f"{format_age(seconds_since(now, one.at))} ago",
            "state": lambda one: "DEAD" if one.is_dead(now) else "alive",
        }  # fmt: skip
        yield Table(rows=processes, columns=columns, shrinks="host")
    if figures.latest_dumps:
        columns = {
            "dump#": "id", "read": "read_at", "file": lambda dump: Path(dump.path).name, "state": "state",
            "papers#": "papers", "new#": "new", "rejected#": "rejected",
        }  # fmt: skip
        yield Table(rows=figures.latest_dumps, columns=columns, shrinks="file")


def counts(figures: Figures) -> list[tuple[str, Any]]:
    """Return the lines about subscribers, papers and mail."""
    papers, dumps = plurals.count(figures.papers, "paper"), plurals.count(figures.dumps, "dump")
    late = [str(one) for one in figures.late_lists]
    return [
        ("Subscribers", counts_in_words(figures.subscribers)),
        ("Catalog", f"{papers} from {dumps}"),
        *([("Late", late)] if late else []),
        ("Outbox", counts_in_words(figures.deliveries)),
        *([("In doubt", doubts_in_words(figures.in_doubt))] if figures.in_doubt else []),
        *[("Stopped", stop_in_words(stop)) for stop in figures.stops],
    ]


def work(figures: Figures) -> list[tuple[str, Any]]:
    """Return the lines about paused domains and servers, the inbox, due subscribers and the last run."""
    return [
        *[("Paused", f"{name} until {until:%Y-%m-%d %H:%M} UTC") for name, until in figures.pauses.items()],
        *inbox_line(figures.mail_in["shunted"]),
        ("Due now", plurals.count(figures.due_now, "subscriber")),
        ("Next due", figures.next_due_at),
        *([] if figures.processes else [("Processes", "none is running")]),
        *([("Last run", figures.last_run_at)] if figures.done_by_runs else []),
    ]


def counts_in_words(figures: Mapping[str, int]) -> str:
    """Return counts as text, such as `3 active, 1 pending`."""
    return ", ".join(f"{number:,} {name}" for name, number in figures.items() if number) or "none"


def inbox_line(number: int) -> list[tuple[str, str]]:
    """Return a line about incoming mail that could not be processed, if there is any."""
    messages = plurals.count(number, "message was", "messages were")
    return [("Inbox", f"{messages} not recognised; see digest inbox list")] if number else []


def doubts_in_words(number: int) -> str:
    """Describe the letters in doubt: how many there are, and what may have happened to them."""
    letters = plurals.count(number, "letter was", "letters were")
    return f"{letters} sent without a reply at least once, and may have arrived twice or not at all"


def stop_in_words(stop: ActiveStop) -> str:
    """Describe a stop: its scope, start and reason, and how to resume."""
    what = "all mail" if stop.scope == "all" else "digests"
    return f"{what} since {stop.since:%Y-%m-%d %H:%M} UTC: {stop.reason}; to resume: digest deliveries resume"


def problem_lines(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    """Return a line for each problem, and if there is any, a last line that refers to `digest doctor`.

    Stops and late lists are left out, because they have their own lines.
    """
    shown = [one for one in problems if not one.cause.startswith(("stop-", "late-lists"))]
    lines = [("Warning" if one.is_warning else "Problem", problem_in_words(one)) for one in shown]
    return [*lines, ("", "To fix: run digest doctor")] if lines else []


def problem_in_words(problem: Problem) -> str:
    """Return a problem's message, its start and its first facts."""
    since = f" since {problem.since:%Y-%m-%d %H:%M} UTC" if problem.since else ""
    facts = "; ".join(problem.facts[:FACTS])
    return f"{problem.message}{since}" + (f" ({facts})" if facts else "")


def seconds_since(now: datetime, moment: datetime) -> int:
    """Return the seconds from `moment` to `now`, at least 0."""
    return max(0, round((now - moment).total_seconds()))


def format_age(seconds: int) -> str:
    """Return a time span in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


# ── activity ────────────────────────────────────────────────────────────────────────────────────


def recent_activity(days: int, now: datetime) -> CommandResult:
    """Return the counts of events in the last days."""
    from digest.monitoring.activity import activity

    with command_context.open_context() as context, context.read_session() as session:
        found = activity(session, days=days, now=now)
    return CommandResult(activity_report(found), activity_text(found))


def activity_report(found: Activity) -> dict[str, Any]:
    """Return the activity for JSON."""
    series = {
        one.name.replace(" ", "_").replace("-", "_"): {
            "total": one.total, "before": one.before, "per_day": one.per_day,
        }
        for one in found.series
    }  # fmt: skip
    return {"days": found.days, "active": found.active, "in_doubt": found.doubts, **series}


def activity_text(found: Activity) -> Iterator[Text]:
    """Yield a line for each kind of event."""
    from digest.monitoring import activity_table

    before = f"{plurals.count(len(found.days), 'day')} before#"
    yield f"{activity_table.period(found)} (UTC, so far)"
    yield ""
    yield Table(
        rows=activity_table.rows(found),
        columns={"": "name", "total#": "total", before: "before", "per day": "chart", "most#": "most"},
        empty=activity_table.NOTHING,
    )
    yield ""
    yield activity_table.summary(found)
