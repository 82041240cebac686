"""`digest sources`: manage the servers that dumps are fetched from."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.dumps import Order
from digest.cli.frame import Opened, Workspace, command, opened, reading, writing
from digest.cli.options import CLOCK, Now, argument, option, whole_number
from digest.cli.results import CommandResult, fields_of, lines, listing, note

if TYPE_CHECKING:
    from datetime import datetime

    from digest.app_context import AppContext
    from digest.db.tables.dumps import SourceRow
    from digest.dumps.sources.polling import PollResult

app = group("Servers that dumps are fetched from.")

NAMES = "hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv, medrxiv, or an https address."
NONE_DUE = note("No source is due.")
NOT_COMPLETE = "The history was not loaded completely. Run the command again to continue."

SourceName = Annotated[str, argument("SOURCE", NAMES)]


@command(reading, app, "list")
def show_list(work: Workspace) -> CommandResult:
    """List the sources, when each is polled next, and the last result.

    Examples:
        digest sources list
        digest sources list --json
    """
    from digest.dumps.sources import stored_sources

    return listing(
        [as_report(row) for row in stored_sources.list_sources(work.session)],
        {
            "source": "name", "every": lambda row: format_interval(row["interval_seconds"]), "last": "polled_at",
            "next": "next_poll_at", "failures#": "failures", "result": "result",
        },
        shrinks="result source",
        empty="No sources. Add one: digest sources add hf-daily",
    )  # fmt: skip


@command(opened, app)
def add(
    work: Opened,
    source: SourceName,
    backfill: int | None = option(
        "--backfill DAYS",
        "Past days to load as history. Default: 14 for hf-daily, 7 for arxiv, 3 for biorxiv.",
        parser=whole_number,
    ),
    hours: float | None = option("--every HOURS", "Hours between two polls."),
    order: Order = None,
    now: Now = CLOCK,
) -> CommandResult:
    """Add a source, and load its last days as history, which no digest will show as new.

    The scheduler polls the source from now on. Repeat the command to change its options and load the history again.

    Examples:
        digest sources add hf-daily
        digest sources add arxiv:cs.CL+cs.LG --backfill 14
        digest sources add https://papers.example.org/today.json --every 6
    """
    interval = timedelta(hours=hours) if hours else None
    report, filled, days = add_source(work.context, source, now, order, interval, backfill)
    name, every = report["name"], format_interval(report["interval_seconds"])
    history = f"Last {plurals.count(days, 'day')} as history: {filled.result}.".replace("..", ".")
    is_failed = filled.state == "failed"
    return CommandResult(
        report | {"backfill": {"days": days} | filled.to_json()},
        (
            note(f"{name} can load at most {days} days of history.") if backfill and backfill > days else (),
            f"Added {name}: polled every {every} while the scheduler runs.",
            history if days else (),
            note(NOT_COMPLETE) if is_failed else (),
        ),
        code=int(is_failed),
    )


def add_source(
    context: AppContext,
    source: str,
    now: datetime,
    order: str | None = None,
    interval: timedelta | None = None,
    backfill: int | None = None,
) -> tuple[dict[str, Any], PollResult, int]:
    """Add a source and load its history; return the source, the result, and the number of past days."""
    from digest.dumps.sources import polling, source_presets, stored_sources

    preset = source_presets.preset_for(source)
    days = min(preset.back_fill if backfill is None else backfill, preset.most_back_fill)
    with command_context.open_write_session(context) as session:
        row = stored_sources.add(session, source, now=now, order=order, interval=interval)
        with terminal.show_progress(f"History of {row.name}", total=days) as done:
            filled = polling.back_fill(
                context.poll_context(session, now), row.name, days=days, progress=done.update_to
            )
        return as_report(row), filled, days


@command(writing, app)
def remove(work: Workspace, source: SourceName) -> CommandResult:
    """Remove a source. The source's papers stay in the catalog.

    Examples:
        digest sources remove hf-daily
        digest sources remove arxiv:cs.CL+cs.LG --json
    """
    from digest.dumps.sources import stored_sources

    report = as_report(stored_sources.get(work.session, source))
    stored_sources.remove(work.session, source)
    return CommandResult(report | {"is_on": False}, f"Removed {report['name']}.")


@command(opened, app)
def poll(
    work: Opened,
    names: list[str] | None = argument(
        "SOURCE", "Sources to poll, due or not. Default: all that are due.", None
    ),
    dry_run: bool = option("--dry-run", "List the sources that would be polled; fetch nothing."),
    now: Now = CLOCK,
) -> CommandResult:
    """Poll sources now, in this process, as the scheduler does when they are due.

    Exits with 1 if a source failed or one of its dumps could not be loaded.

    Examples:
        digest sources poll
        digest sources poll --dry-run
        digest sources poll hf-daily biorxiv
    """
    from digest.dumps.sources import stored_sources

    if dry_run:
        with work.reading() as session:
            rows = [
                as_report(stored_sources.get(session, name))
                for name in names or stored_sources.due(session, now)
            ]
        return lines(rows, [f"{terminal.DRY_RUN}{row['name']} would be polled." for row in rows] or NONE_DUE)
    polled = poll_with_progress(work.context, now, names)
    return lines(
        [one.to_json() for one in polled],
        [f"{one.source}: {one.result}" for one in polled] or NONE_DUE,
        code=int(not all(one.is_fine for one in polled)),
    )


def poll_with_progress(
    context: AppContext, now: datetime, names: list[str] | None = None
) -> list[PollResult]:
    """Poll sources, show the progress, and return the results."""
    from digest.dumps.sources import polling, stored_sources

    with context.read_session() as session:
        total = len(names or stored_sources.due(session, now))
    with (
        command_context.open_write_session(context) as session,
        terminal.show_progress("Polling", total=total) as done,
    ):
        return polling.poll(context.poll_context(session, now), names=names or None, progress=done.update_to)


def format_interval(seconds: int) -> str:
    """Return an interval such as `3 h` or `45 min`."""
    return f"{seconds // 60} min" if seconds % 3600 else f"{seconds // 3600} h"


def as_report(row: SourceRow) -> dict[str, Any]:
    """Return a source's fields for JSON, with the secrets removed from the URL."""
    from digest.dumps.sources import source_presets

    names = "name kind order is_on since polled_at next_poll_at failures result interval_seconds"
    return fields_of(row, names) | {"url": source_presets.without_secrets(row.url)}
