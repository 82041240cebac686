"""`digest intake`, `dumps` and `sources`: load dumps, list them, and manage the servers that they are fetched from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import command_context, completion, error_sentences, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading, writing
from digest.cli.options import (
    CLOCK,
    DryRun,
    Limit,
    Now,
    argument,
    day,
    number_option,
    option,
    positive_number,
    whole_number,
)
from digest.cli.results import CommandResult, Text, facts, fields_of, lines, listing, note, paragraph, table
from digest.papers.paper_record import DumpOrder

if TYPE_CHECKING:
    from datetime import datetime

    from digest.app_context import AppContext
    from digest.db.tables.dumps import SourceRow
    from digest.dumps.intake.load_report import LoadResult
    from digest.dumps.sources.polling import PollResult


PROBLEMS_SHOWN = 5
AUTHORS_SHOWN = 5
ABSTRACT_SHOWN = 240  #: characters
INPUT = "-"  #: the path that means standard input

#: The fields of a dump that are reported.
FIELDS = (
    "id path source format date order state reason papers new updated unchanged rejected missing_papers usual_papers"
    " is_history is_sample observed_at seen_at read_at"
)

app = group("Dumps and their state.")
Order = Annotated[DumpOrder | None, option("--order", "What the order of the papers means.", ...)]
DumpId = Annotated[
    int,
    argument("ID", "The id in `digest dumps list`.", parser=positive_number, autocompletion=completion.dumps),
]
IncompleteOk = Annotated[bool, option("--incomplete-ok", "Load a dump that is short or truncated.", ...)]
AsHistory = Annotated[bool, option("--as-history", "Load old papers, which no digest will show as new.", ...)]


@command(partial(writing, makes_service=True))
def intake(
    work: Workspace,
    paths: list[str] = argument("PATH...", "Dumps to read: files, https addresses, or - for standard input."),
    url: str | None = option("--url URL", "The address of the page in HTML on standard input."),
    observed: date | None = option("--date DAY", "The day of the dumps.", parser=day),
    layout: str | None = option("--format FORMAT", "Format of the dumps, if not recognised."),
    order: Order = None,
    as_history: AsHistory = False,
    incomplete_ok: IncompleteOk = False,
    dry_run: DryRun = False,
    show: int | None = number_option("--show N", "Print the first N papers of each dump as they are stored."),
    now: Now = CLOCK,
) -> CommandResult:
    """Load dumps now, in this process.

    The files are not moved. A page at an https address is fetched once, if its site's robots.txt allows it.
    A page from standard input (HTML, text, or an email that contains the page) is kept in the subfolder done/ or rejected/ of the dumps folder.
    Exits with 0 if at least one dump is loaded or was loaded before, otherwise with 1.

    Examples:
        digest intake page.txt --dry-run --show 5
        digest intake export.csv --date 2026-11-20 --order ranked --as-history
        digest intake - --url https://papers.example.org/today < page.html
    """
    from digest.dumps.formats import recognition
    from digest.dumps.intake import load_report

    if layout is not None:
        recognition.format_named(layout)  # an unknown format is a usage error, and not an unreadable dump
    options = {
        "date": observed, "format": layout, "order": order, "as_history": as_history, "dry_run": dry_run,
        "show": show or 0, "incomplete_ok": incomplete_ok or work.context.settings.sends_short_dumps,
        #: how late a list may come and still be news; the day given with --date decides by itself
        "still_news": timedelta() if observed else load_report.LATEST,
    }  # fmt: skip
    loads: list[LoadedDump] = []
    with error_sentences.on_ctrl_c(lambda: stopped(paths, len(loads))):
        loads.extend(load(work, path, now, url, options) for path in paths)  # one by one
    is_any_loaded = any(is_loaded for _, is_loaded in loads)
    first_seen = (
        f"The papers count as first seen on {observed} at 00:00 UTC, as --date says: "
        "they are not news to readers who subscribed later or had that day's digest."
    )
    is_noted = bool(observed and is_any_loaded and not as_history)
    return CommandResult(
        {"dumps": [loaded for loaded, _ in loads]} | ({"note": first_seen} if is_noted else {}),
        ([loaded_text(loaded, dry_run=dry_run) for loaded, _ in loads], note(first_seen) if is_noted else ()),
        code=int(not is_any_loaded),
    )


LoadedDump = tuple[dict[str, Any], bool]  #: the report of a dump, and whether it is in the catalog


def load(work: Workspace, path: str, now: datetime, url: str | None, options: dict[str, Any]) -> LoadedDump:
    """Load a file, the page at an address, or the page on standard input."""
    from digest.dumps.intake import captures, load_dump

    if path == INPUT:
        content = terminal.read_input(captures.MAX_BYTES + 1)
        folder = work.context.settings.dumps
        return reported(captures.capture(work.session, folder, content, now=now, url=url, **options))
    if "://" in path:
        return load_page(work, path, now, options)
    with terminal.show_progress(Path(path).name, unit="papers") as done:
        return reported(load_dump.load(work.session, Path(path), now=now, progress=done.update_to, **options))


def reported(loaded: LoadResult) -> LoadedDump:
    """Return the report of a dump, and whether it is in the catalog."""
    return loaded.to_json(), loaded.is_loaded


def load_page(work: Workspace, url: str, now: datetime, options: dict[str, Any]) -> LoadedDump:
    """Fetch and load the page at an address."""
    from digest.dumps.intake import load_report
    from digest.dumps.sources import http_fetch, page_fetch, source_presets

    shown, context = source_presets.without_secrets(url), work.context.poll_context(work.session, now)
    with terminal.show_progress(shown, unit="papers") as done:
        try:
            loaded = page_fetch.load_page(context, url, progress=done.update_to, **options)
        except http_fetch.FetchFailed as error:
            return load_report.failed_load(Path(), str(error)).to_json() | {"path": None, "url": shown}, False
    return loaded.to_json() | {"url": shown}, loaded.is_loaded


def stopped(paths: list[str], done: int) -> str:
    """Return the message for Ctrl-C: which files were read and which were not."""
    left = ", ".join(terminal.visible_text(Path(path).name) for path in paths[done:]) or "none"
    return (
        f"Stopped. {plurals.count(done, 'file was', 'files were')} read; not finished: {left}."
        " Run the command again; no paper is loaded twice."
    )


def loaded_text(loaded: dict[str, Any], *, dry_run: bool) -> Iterator[Text]:
    """Yield the result of loading one dump."""
    name = loaded.get("url") or Path(loaded["path"]).name
    if loaded["state"] != "loaded":
        yield note(f"{name}: not loaded. {terminal.visible_text(loaded['reason'])}")
    else:
        dated = f" of {loaded['date']}" if loaded["date"] else ""
        verb = "would load" if dry_run else "loaded"
        yield (
            f"{name}: {verb} {plurals.count(loaded['papers'], 'paper')} ({loaded['format']}{dated}):"
            f" {loaded['new']} new, {loaded['updated']} updated, {loaded['unchanged']} unchanged,"
            f" {loaded['rejected']} rejected."
        )
    problems = [problem for problem in loaded["problems"] if problem["reason"] != loaded["reason"]]
    for problem in problems[:PROBLEMS_SHOWN]:
        where = f"line {problem['line']}: " if problem["line"] else ""
        yield note(f"  {where}{terminal.visible_text(problem['reason'])}")
    if len(problems) > PROBLEMS_SHOWN:
        where = f": digest dumps show {loaded['id']}" if loaded["id"] else ""
        yield note(f"  and {len(problems) - PROBLEMS_SHOWN} more{where}")
    for number, paper in enumerate(loaded.get("shown", ()), start=1):
        yield from paper_text(number, paper)


def paper_text(number: int, paper: dict[str, Any]) -> Iterator[Text]:
    """Yield a paper of a dump: its title, and one line for each field that pages show."""
    abstract, published = paper["abstract"], paper["published"]
    rest = f"... ({len(abstract):,} characters)" if len(abstract) > ABSTRACT_SHOWN else ""
    fields = {
        "authors": people_text(paper),
        "published": f"{published} (year inferred)" if paper["published_inferred"] else published,
        "signals": ", ".join(f"{value:,.0f} {name}" for name, value in paper["signals"].items()),
        "ids": ", ".join(f"{scheme} {value}" for scheme, value in paper["ids"].items()),
        "abstract": abstract[:ABSTRACT_SHOWN].rstrip() + rest,
    }
    margin = f"{number:>3}. "
    yield ""
    yield paragraph(margin, paper["title"])
    for name, value in fields.items():
        yield paragraph(f"{' ' * len(margin)}{name:9}  ", value or "–")


def people_text(paper: dict[str, Any]) -> str:
    """Return the names of a paper's authors and organisation, or the number of its authors."""
    names, organization = paper["authors"], paper["organization"]
    others = max(paper["n_authors"] or 0, len(names)) - len(names[:AUTHORS_SHOWN])
    parts = [*names[:AUTHORS_SHOWN]]
    if others:
        parts.append(plurals.count(others, "other" if names else "author"))
    people = ", ".join(parts)
    return " · ".join(filter(None, [people, organization and organization["name"]]))


@command(reading, app, "list")
def show_list(work: Workspace, limit: Limit = None, now: Now = CLOCK) -> CommandResult:
    """List the dumps, newest first, and the dumps that are late.

    With --json, the late dumps are at the end, without an id and with the state `late`.

    Examples:
        digest dumps list
        digest dumps list --limit 100 --json
    """
    from digest.dumps.intake import stored_dumps
    from digest.papers import expected_arrivals
    from digest.papers.catalog import queries

    late = expected_arrivals.late_lists(queries.arrivals(work.session, until=now), now=now)
    shown = listing(
        lambda limit: [fields_of(one, FIELDS) for one in stored_dumps.list_dumps(work.session, limit=limit)],
        {
            "id#": "id", "date": "date", "file": lambda row: Path(row["path"]).name, "format": "format",
            "state": "state", "papers#": "papers", "new#": "new", "updated#": "updated", "rejected#": "rejected",
        },
        shrinks="file format",
        empty="No dumps yet. Read one: digest intake PATH",
        limit=limit,
        after=[note(f"Late: {one}.") for one in late],
    )  # fmt: skip
    late_reports = [
        {
            "id": None, "path": None, "date": one.day, "source": one.source, "state": "late", "reason": str(one),
            "expected_by": one.expected_by,
        }
        for one in late
    ]  # fmt: skip
    return replace(shown, value=chain(shown.value, late_reports))


@command(reading, app)
def show(work: Workspace, dump_id: DumpId) -> CommandResult:
    """Show one dump and every record that could not be read.

    Examples:
        digest dumps show 12
        digest dumps show 12 --json
    """
    from digest.dumps.intake import stored_dumps

    report = fields_of(stored_dumps.get_dump(work.session, dump_id), FIELDS)
    unread = stored_dumps.list_unread_records(work.session, dump_id)
    problems = [fields_of(one, "line reason excerpt") for one in unread]
    listed = ("", table(problems, "line# reason excerpt", shrinks="excerpt reason"))
    return CommandResult(report | {"problems": problems}, (facts(report.items()), listed if problems else ()))


@command(writing, app)
def retry(
    work: Workspace,
    dump_id: DumpId,
    incomplete_ok: IncompleteOk = False,
    as_history: AsHistory = False,
    dry_run: DryRun = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Read a held or rejected dump again, from the current path of its file.

    The dump's papers count as new, regardless of its age, unless --as-history is given.

    Exits with 0 if the dump is loaded or was loaded before, otherwise with 1.

    Examples:
        digest dumps retry 12 --dry-run
        digest dumps retry 12 --incomplete-ok
        digest dumps retry 12 --as-history
    """
    from digest.dumps.intake import retry_dump

    options = {"incomplete_ok": incomplete_ok, "as_history": as_history, "dry_run": dry_run}
    loaded, is_loaded = reported(retry_dump.retry(work.session, dump_id, now=now, **options))
    return CommandResult(loaded, loaded_text(loaded, dry_run=dry_run), code=int(not is_loaded))


# ── sources ──


sources = group("Servers that dumps are fetched from.")

NAMES = "hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv, medrxiv, or an https address."
NONE_DUE = note("No source is due.")
NOT_COMPLETE = "The history was not loaded completely. Run the command again to continue."

SourceName = Annotated[str, argument("SOURCE", NAMES)]


@command(reading, sources, "list")
def list_sources(work: Workspace) -> CommandResult:
    """List the sources, when each is polled next, and the last result.

    Examples:
        digest sources list
        digest sources list --json
    """
    from digest.dumps.sources import stored_sources

    return listing(
        [source_report(row) for row in stored_sources.list_sources(work.session)],
        {
            "source": "name", "every": lambda row: format_interval(row["interval_seconds"]), "last": "polled_at",
            "next": "next_poll_at", "failures#": "failures", "result": "result",
        },
        shrinks="result source",
        empty="No sources. Add one: digest sources add hf-daily",
    )  # fmt: skip


@command(opened, sources)
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
        return source_report(row), filled, days


@command(writing, sources)
def remove(work: Workspace, source: SourceName) -> CommandResult:
    """Remove a source. The source's papers stay in the catalog.

    Examples:
        digest sources remove hf-daily
        digest sources remove arxiv:cs.CL+cs.LG --json
    """
    from digest.dumps.sources import stored_sources

    report = source_report(stored_sources.get(work.session, source))
    stored_sources.remove(work.session, source)
    return CommandResult(report | {"is_on": False}, f"Removed {report['name']}.")


@command(opened, sources)
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
                source_report(stored_sources.get(session, name))
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


def source_report(row: SourceRow) -> dict[str, Any]:
    """Return a source's fields for JSON, with the secrets removed from the URL."""
    from digest.dumps.sources import source_presets

    names = "name kind order is_on since polled_at next_poll_at failures result interval_seconds"
    return fields_of(row, names) | {"url": source_presets.without_secrets(row.url)}
