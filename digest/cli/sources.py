"""`digest sources`: manage the servers that dumps are fetched from."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Now, current_time, whole_number
from digest.cli.confirmation_prompt import DRY_RUN
from digest.cli.dumps import Order

if TYPE_CHECKING:
    from datetime import datetime

    from digest.app_context import AppContext
    from digest.db.tables import SourceRow
    from digest.dumps.sources import PollResult

app = group("Servers that dumps are fetched from.")

SourceName = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv, medrxiv, or an https address.",
        show_default=False,
    ),
]


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the sources, when each is polled next, and the last result.

    Examples:
        digest sources list
        digest sources list --json
    """
    from digest.dumps import sources

    with command_context.open_context() as context, context.read_session() as session:
        rows = [as_report(row) for row in sources.list_sources(session)]
    if as_json:
        terminal.lines(rows)
        return
    terminal.print_table(
        ("source", "every", "last", "next", "failures#", "result"),
        (
            (row["name"], format_interval(row["interval_seconds"]), row["polled_at"], row["next_poll_at"], row["failures"], row["result"])
            for row in rows
        ),
        shrinkable=["result", "source"],
        empty="No sources. Add one: digest sources add hf-daily",
    )  # fmt: skip


@app.command()
def add(
    source: SourceName,
    backfill: Annotated[
        int | None,
        typer.Option(
            "--backfill",
            parser=whole_number,
            metavar="DAYS",
            show_default=False,
            help="Past days to load as history. Default: 14 for hf-daily, 7 for arxiv, 3 for biorxiv.",
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option("--every", metavar="HOURS", help="Hours between two polls.", show_default=False),
    ] = None,
    order: Order = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Add a source, and load its last days as history, which no digest will show as new.

    The scheduler polls the source from now on. Repeat the command to change its options and load the history again.

    Examples:
        digest sources add hf-daily
        digest sources add arxiv:cs.CL+cs.LG --backfill 14
        digest sources add https://papers.example.org/today.json --every 6
    """  # fmt: skip
    interval = timedelta(hours=hours) if hours else None
    with command_context.open_context() as context:
        report, filled, days = add_source(
            context, source, now=current_time(now), order=order, interval=interval, backfill=backfill
        )
    name = report["name"]
    if backfill and backfill > days:
        terminal.print_note(f"{name} can load at most {days} days of history.")
    if as_json:
        terminal.print_json(report | {"backfill": {"days": days} | filled.to_json()})
    else:
        every = format_interval(report["interval_seconds"])
        terminal.print_line(f"Added {name}: polled every {every} while the scheduler runs.")
        if days:
            terminal.print_line(
                f"Last {plurals.count(days, 'day')} as history: {filled.result}.".replace("..", ".")
            )
    if filled.state == "failed":
        terminal.print_note("The history was not loaded completely. Run the command again to continue.")
        raise typer.Exit(1)


def add_source(
    context: AppContext,
    source: str,
    *,
    now: datetime,
    order: str | None = None,
    interval: timedelta | None = None,
    backfill: int | None = None,
) -> tuple[dict[str, Any], PollResult, int]:
    """Add a source and load its history; return the source, the result, and the number of past days."""
    from digest.dumps import sources
    from digest.dumps.sources import source_presets

    preset = source_presets.preset_for(source)
    days = min(preset.back_fill if backfill is None else backfill, preset.most_back_fill)
    with command_context.open_write_session(context) as session:
        row = sources.add(session, source, now=now, order=order, interval=interval)
        with terminal.show_progress(f"History of {row.name}", total=days) as done:
            filled = sources.back_fill(
                context.poll_context(session, now), row.name, days=days, progress=done.update_to
            )
        return as_report(row), filled, days


@app.command()
def remove(source: SourceName, as_json: AsJson = False) -> None:
    """Remove a source. The source's papers stay in the catalog.

    Examples:
        digest sources remove hf-daily
        digest sources remove arxiv:cs.CL+cs.LG --json
    """
    from digest.dumps import sources

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        report = as_report(sources.get(session, source))
        sources.remove(session, source)
    terminal.print_result(report | {"is_on": False}, f"Removed {report['name']}.", as_json=as_json)


@app.command()
def poll(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Sources to poll, due or not. Default: all that are due.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the sources that would be polled; fetch nothing.")
    ] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Poll sources now, in this process, as the scheduler does when they are due.

    Exits with 1 if a source failed or one of its dumps could not be loaded.

    Examples:
        digest sources poll
        digest sources poll --dry-run
        digest sources poll hf-daily biorxiv
    """  # fmt: skip
    with command_context.open_context() as context:
        if dry_run:
            show_polled_next(context, current_time(now), names, as_json=as_json)
            return
        found = poll_with_progress(context, current_time(now), names)
    if as_json:
        terminal.lines(one.to_json() for one in found)
    else:
        for one in found:
            terminal.print_line(f"{one.source}: {one.result}")
        if not found:
            terminal.print_note("No source is due.")
    if not all(one.is_fine for one in found):
        raise typer.Exit(1)


def show_polled_next(context: AppContext, now: datetime, names: list[str] | None, *, as_json: bool) -> None:
    """Print the sources that a poll would fetch from."""
    from digest.dumps import sources

    with context.read_session() as session:
        rows = [as_report(sources.get(session, name)) for name in names or sources.due(session, now)]
    if as_json:
        terminal.lines(rows)
        return
    for row in rows:
        terminal.print_line(f"{DRY_RUN}{row['name']} would be polled.")
    if not rows:
        terminal.print_note("No source is due.")


def poll_with_progress(
    context: AppContext, now: datetime, names: list[str] | None = None
) -> list[PollResult]:
    """Poll sources, show the progress, and return the results."""
    from digest.dumps import sources

    with context.read_session() as session:
        total = len(names or sources.due(session, now))
    with (
        command_context.open_write_session(context) as session,
        terminal.show_progress("Polling", total=total) as done,
    ):
        return sources.poll(context.poll_context(session, now), names=names or None, progress=done.update_to)


def format_interval(seconds: int) -> str:
    """Return an interval such as `3 h` or `45 min`."""
    return f"{seconds // 60} min" if seconds % 3600 else f"{seconds // 3600} h"


def as_report(row: SourceRow) -> dict[str, Any]:
    """Return a source's fields for JSON, with the secrets removed from the URL."""
    from digest.dumps.sources import source_presets

    names = ("name", "kind", "order", "is_on", "since", "polled_at", "next_poll_at", "failures", "result")
    return {name: getattr(row, name) for name in names} | {
        "url": source_presets.without_secrets(row.url),
        "interval_seconds": row.interval_seconds,
    }
