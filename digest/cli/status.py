"""`digest status`, `doctor` and `config`: counts, processes, disks and problems; recent activity; fixes; settings."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from digest import plurals
from digest.cli import command_context
from digest.cli.frame import command
from digest.cli.options import CLOCK, Now, current_time, option
from digest.cli.results import (
    CommandResult,
    Text,
    facts,
    fields_of,
    lines,
    listing,
    paragraph,
    show_text,
    table,
)
from digest.errors import DigestError
from digest.mail.dns_records import DnsUnavailable

if TYPE_CHECKING:
    from digest.monitoring.check_results import Check, Problem
    from digest.monitoring.figures import Figures
    from digest.monitoring.report import Report
    from digest.settings import Settings


WATCH_SECONDS = 2.0
CLEAR = "\x1b[H\x1b[2J"  #: the escape sequence that moves the cursor to the top left and clears the screen
FACTS = 3  #: maximum number of facts shown for each problem; the alarm letter has all facts
PERIOD = re.compile(r"(?P<number>[1-9]\d{0,2})(?P<unit>[dw])")
MAX_DAYS = 366
DUMP_FIELDS = "id path date state reason papers new rejected read_at"


def period(text: str) -> timedelta:
    """Parse a period such as `7d` or `4w`."""
    found = PERIOD.fullmatch(text.strip())
    days = int(found["number"]) * {"d": 1, "w": 7}[found["unit"]] if found else 0
    if not 1 <= days <= MAX_DAYS:
        raise typer.BadParameter(f"{text!r} is not a period; write days or weeks, such as 7d or 4w.")
    return timedelta(days=days)


@command()
def status(
    since: timedelta | None = option(
        "--since PERIOD", "Show the activity of days or weeks: 7d, 4w.", parser=period
    ),
    watch: bool = option("--watch", "Show the status again every 2 seconds, until Ctrl-C."),
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
        made = report.report_from_settings(settings, current_time())
        print(CLEAR * sys.stdout.isatty(), end="")
        when = f"{made.now:%Y-%m-%d %H:%M:%S} UTC, every {WATCH_SECONDS:g} seconds; stop with Ctrl-C."
        show_text((when, "", status_text(made, settings)))
        sys.stdout.flush()
        time.sleep(WATCH_SECONDS)


def as_json_report(report: Report, settings: Settings) -> dict[str, Any]:
    """Return the report for JSON; without the database it has no figures."""
    disks = [
        {"folder": str(disk.folder), **fields_of(disk, "free size is_low"), "message": str(disk)}
        for disk in report.disks
    ]
    return {
        "now": report.now,
        "is_well": report.is_well,
        **(figures_report(report.figures, report.now) if report.figures else {}),
        "problems": [problem.to_json() for problem in report.problems],
        "disks": disks,
        "settings": settings.shown(),
    }


def figures_report(figures: Figures, now: datetime) -> dict[str, Any]:
    """Return the figures for JSON."""
    return {
        "subscribers": figures.subscribers,
        "catalog": fields_of(figures, "papers dumps") | {"last_seen_at": figures.last_paper_at},
        "dumps": [fields_of(dump, DUMP_FIELDS) for dump in figures.latest_dumps],
        "late": [asdict(one) | {"message": str(one)} for one in figures.late_lists],
        "outbox": figures.deliveries,
        "in_doubt": figures.in_doubt,
        "stops": [fields_of(one, "scope since reason") for one in figures.stops],
        "unprocessed_mail": figures.mail_in["shunted"],
        "paused": figures.pauses,
        **fields_of(figures, "next_due_at due_now last_run_at"),
        "heartbeats": [
            fields_of(process, "role host pid at")
            | {"seconds_ago": seconds_since(now, process.at), "is_alive": not process.is_dead(now)}
            for process in figures.processes
        ],
    }


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def status_text(report: Report, settings: Settings) -> Iterator[Text]:
    """Yield a report; without the database, only the lines that do not depend on the database."""
    shown, names = settings.shown(), ("base_url", "database_url", "broker_url", "mail_url", "dumps_dir")
    places = zip(("Web", "Database", "Broker", "Mail", "Dumps"), (shown[name] for name in names), strict=True)
    problems = problem_lines(report.problems)
    lines = [*figure_lines(report.figures, problems)] if report.figures else problems
    yield facts([*lines, *[("Disk", str(disk)) for disk in report.disks], *places])
    if report.figures:
        yield from tables(report.figures, report.now)


def figure_lines(figures: Figures, problems: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    """Yield the lines about subscribers, papers, mail and work, with the problems between them."""
    yield "Subscribers", counts_in_words(figures.subscribers)
    yield (
        "Catalog",
        f"{plurals.count(figures.papers, 'paper')} from {plurals.count(figures.dumps, 'dump')}",
    )
    if figures.late_lists:
        yield "Late", [str(one) for one in figures.late_lists]
    yield "Outbox", counts_in_words(figures.deliveries)
    if figures.in_doubt:
        letters = plurals.count(figures.in_doubt, "letter was", "letters were")
        yield (
            "In doubt",
            f"{letters} sent without a reply at least once, and may have arrived twice or not at all",
        )
    for stop in figures.stops:
        what = "all mail" if stop.scope == "all" else "digests"
        since = f"{stop.since:%Y-%m-%d %H:%M} UTC"
        yield "Stopped", f"{what} since {since}: {stop.reason}; to resume: digest deliveries resume"
    yield from problems
    for name, until in figures.pauses.items():
        yield "Paused", f"{name} until {until:%Y-%m-%d %H:%M} UTC"
    if number := figures.mail_in["shunted"]:
        messages = plurals.count(number, "message was", "messages were")
        yield "Inbox", f"{messages} not recognised; see digest inbox list"
    yield "Due now", plurals.count(figures.due_now, "subscriber")
    yield "Next due", figures.next_due_at
    if not figures.processes:
        yield "Processes", "none is running"
    if figures.done_by_runs:
        yield "Last run", figures.last_run_at


def tables(figures: Figures, now: datetime) -> Iterator[Text]:
    """Yield the tables of the processes, dead ones marked, and of the latest dumps, as far as there are any."""
    from digest.process import heartbeats

    if processes := heartbeats.without_replaced(figures.processes, now):
        columns: dict[str, Any] = {
            "process": "role", "pid": lambda one: str(one.pid), "host": "host",
            "last seen": lambda one: f"{format_age(seconds_since(now, one.at))} ago",
            "state": lambda one: "DEAD" if one.is_dead(now) else "alive",
        }  # fmt: skip
        yield from ("", table(processes, columns, shrinks="host"))
    if figures.latest_dumps:
        columns = {
            "dump#": "id", "read": "read_at", "file": lambda dump: Path(dump.path).name, "state": "state",
            "papers#": "papers", "new#": "new", "rejected#": "rejected",
        }  # fmt: skip
        yield from ("", table(figures.latest_dumps, columns, shrinks="file"))


def counts_in_words(figures: Mapping[str, int]) -> str:
    """Return counts as text, such as `3 active, 1 pending`."""
    return ", ".join(f"{number:,} {name}" for name, number in figures.items() if number) or "none"


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
    named = "; ".join(problem.facts[:FACTS])
    return f"{problem.message}{since}" + (f" ({named})" if named else "")


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
    from digest.monitoring.activity import NOTHING, activity

    with command_context.open_context() as context, context.read_session() as session:
        found = activity(session, days=days, now=now)
    report = fields_of(found, "days active") | {"in_doubt": found.doubts}
    for one in found.series:
        report[one.name.replace(" ", "_").replace("-", "_")] = fields_of(one, "total before per_day")
    before = f"{plurals.count(days, 'day')} before#"
    columns = {"": "name", "total#": "total", before: "change", "per day": "chart", "most#": "most"}
    shown = table(found.rows, columns, empty=NOTHING)
    return CommandResult(report, (f"{found.period} (UTC, so far)", "", shown, "", found.summary))


# ── settings ──


@command()
def config() -> CommandResult:
    """Show the settings in use, and where each comes from: the environment, a file, or the default.

    Passwords and keys are not shown.

    Examples:
        digest config
        digest config --json
    """
    from digest.settings import PREFIX, given_values

    given = given_values()
    rows = [
        {"setting": f"{PREFIX}{name.upper()}", "value": value, "from": given.get(name, ("", "default"))[1]}
        for name, value in command_context.read_settings().shown().items()
    ]
    return listing(rows, "setting value from", shrinks="value from")


# ── problems and fixes ──


RECEIVED = "Check a received letter: a saved file, or with --send-test the Maildir it arrives in."
MARKS = {"ok": "ok", "warning": "--", "error": "!!"}


@command()
def doctor(
    send_to: str | None = option("--send-test EMAIL", "Also send a test letter."),
    received: Path | None = option("--received PATH", RECEIVED),
    now: Now = CLOCK,
) -> CommandResult:
    """Diagnose problems and suggest fixes.

    Exits with 1 if something does not work.

    Examples:
        digest doctor
        digest doctor --send-test you@example.org
        digest doctor --received letter.eml
    """
    from digest.monitoring import report

    settings = command_context.read_settings()
    checks = [*report.report_from_settings(settings, now, thorough=True).checks]
    if send_to is not None or received is not None:
        checks.extend(check_test_letter(send_to, received))
    found = [*doctor_lines(checks)]
    is_broken = any(problem.is_failure for check in checks for problem in check.problems)
    return lines(found, map(result_text, found), code=int(is_broken))


def check_test_letter(email: str | None, received: Path | None) -> Iterator[Check]:
    """Yield the checks of a test letter or a received letter, or the error that prevented them."""
    from digest.monitoring import letter_checks
    from digest.monitoring.check_results import failed, warning

    try:
        with command_context.open_context() as context:
            if email is not None:
                yield from letter_checks.send_and_check_test_letter(context, email, received)
            else:
                yield from letter_checks.check_received_letter(context, received or Path())
    except DnsUnavailable as reason:
        message = f"Could not look up the keys of the letter's signatures ({reason})."
        yield warning("test", message, "Run this again on a machine that can reach the DNS.")
    except DigestError as problem:
        yield failed("test", str(problem), "")


def doctor_lines(checks: Iterable[Check]) -> Iterator[dict[str, str]]:
    """Yield one result for each check without problems, and one result for each problem of the other checks."""
    for check in checks:
        for problem in check.problems:
            status = "error" if problem.is_failure else "warning"
            yield {
                "subject": check.subject,
                "status": status,
                "message": sentence(problem),
                "fix": problem.fix,
            }
        if check.message and not check.problems:
            yield {"subject": check.subject, "status": "ok", "message": check.message, "fix": ""}


def sentence(problem: Problem) -> str:
    """Return the problem's message with its first facts."""
    if not problem.facts:
        return f"{problem.message.removesuffix('.')}."
    more = ["..."] if len(problem.facts) > FACTS else []
    return f"{problem.message}: {'; '.join([*problem.facts[:FACTS], *more])}"


def result_text(result: dict[str, str]) -> Iterator[Text]:
    """Yield one result, and how to fix it."""
    yield paragraph(f"{MARKS[result['status']]}  {result['subject'].ljust(10)} ", result["message"])
    if result["fix"]:
        yield paragraph(" " * 15, result["fix"])
