"""`digest intake`, `digest capture` and `digest dumps`: load and list dumps."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, completion, error_sentences, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Limit, Now, current_time, day, number_option, positive_number
from digest.papers import DumpOrder

if TYPE_CHECKING:
    from digest.db import Session
    from digest.db.tables import DumpRow
    from digest.dumps.sources import PollContext
    from digest.papers.expected_arrivals import LateList

PROBLEMS_SHOWN = 5
AUTHORS_SHOWN = 5
ABSTRACT_SHOWN = 240  #: characters

app = group("Dumps and their state.")
Order = Annotated[
    DumpOrder | None,
    typer.Option("--order", help="What the order of the papers means.", show_default=False),
]
DumpId = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        parser=positive_number,
        help="The id in `digest dumps list`.",
        autocompletion=completion.dumps,
    ),
]
IncompleteOk = Annotated[
    bool, typer.Option("--incomplete-ok", help="Load a dump that is short or truncated.")
]


Observed = Annotated[
    date | None,
    typer.Option("--date", parser=day, metavar="DAY", help="The day of the dumps.", show_default=False),
]
PageAddress = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The address of a page in HTML.", show_default=False),
]
Layout = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="Format of the dumps, if not recognised.", show_default=False
    ),
]
AsHistory = Annotated[
    bool, typer.Option("--as-history", help="Load old papers, which no digest will show as new.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and report; store nothing.")]
Show = Annotated[
    int | None,
    number_option("--show", "N", "Print the first N papers of each dump as they are stored."),
]


def intake(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Dumps to read: files, https addresses, or - for standard input.",
            show_default=False,
        ),
    ],
    url: PageAddress = None,
    observed: Observed = None,
    layout: Layout = None,
    order: Order = None,
    as_history: AsHistory = False,
    incomplete_ok: IncompleteOk = False,
    dry_run: DryRun = False,
    show: Show = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Load dumps now, in this process.

    The files are not moved. A page at an https address is fetched once, if its site's robots.txt allows it.
    A page from standard input is kept in the subfolder done/ or rejected/ of the dumps folder.
    Exits with 0 if at least one dump is loaded or was loaded before, otherwise with 1.

    Examples:
        digest intake page.txt --dry-run --show 5
        digest intake export.csv --date 2026-11-20 --order ranked --as-history
        digest intake https://papers.example.org/today
    """
    check_format(layout)
    moment = current_time(now)
    loads: list[tuple[dict[str, Any], bool]] = []
    with (
        error_sentences.on_ctrl_c(lambda: stopped(paths, len(loads))),
        command_context.open_context(makes_service=True) as context,
        command_context.open_write_session(context) as session,
    ):
        for path in paths:
            options = {
                "date": observed,
                "format": layout,
                "order": order,
                "as_history": as_history,
                "dry_run": dry_run,
                "show": show or 0,
                "incomplete_ok": incomplete_ok or context.settings.sends_short_dumps,
                "still_news": news_for(observed),
            }
            if path == "-":
                loads.append(load_input(session, context.settings.dumps, now=moment, url=url, **options))
            elif "://" in path:
                loads.append(load_page(context.poll_context(session, moment), path, **options))
            else:
                loads.append(load(session, Path(path), now=moment, **options))
    report(loads, dry_run=dry_run, as_json=as_json)
    if observed is not None and not (as_history or as_json):
        terminal.print_note(
            f"The papers count as first seen on {observed} at 00:00 UTC, as --date says: "
            "they are not news to readers who subscribed later or had that day's digest."
        )


def capture(
    url: PageAddress = None,
    observed: Observed = None,
    layout: Layout = None,
    order: Order = None,
    as_history: AsHistory = False,
    incomplete_ok: IncompleteOk = False,
    dry_run: DryRun = False,
    show: Show = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Load a page from standard input: HTML, text, or an email that contains the page.

    The page is kept in the subfolder done/ or rejected/ of the dumps folder.
    Exits with 0 if the page is loaded or was loaded before, otherwise with 1.

    Examples:
        digest capture < page.html
        digest capture --url https://papers.example.org/today --dry-run --show 5
    """
    check_format(layout)
    options = {
        "date": observed,
        "format": layout,
        "order": order,
        "as_history": as_history,
        "dry_run": dry_run,
        "show": show or 0,
        "still_news": news_for(observed),
    }
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        options["incomplete_ok"] = incomplete_ok or context.settings.sends_short_dumps
        loaded = load_input(session, context.settings.dumps, now=current_time(now), url=url, **options)
    report([loaded], dry_run=dry_run, as_json=as_json)


def news_for(observed: date | None) -> timedelta:
    """Return how late a list may come and still be news; the day given with --date decides by itself."""
    from digest.dumps import intake

    return timedelta() if observed else intake.LATEST


def check_format(layout: str | None) -> None:
    """Raise BadField for an unknown format, because this is a usage error and not an unreadable dump."""
    from digest.dumps import formats

    if layout is not None:
        formats.format_named(layout)


def report(loads: list[tuple[dict[str, Any], bool]], *, dry_run: bool, as_json: bool) -> None:
    """Print the results of loading dumps; exit with 1 if none is loaded."""
    if as_json:
        terminal.print_json({"dumps": [loaded for loaded, _ in loads]})
    else:
        for loaded, _ in loads:
            show_loaded(loaded, dry_run=dry_run)
    if not any(is_loaded for _, is_loaded in loads):
        raise typer.Exit(1)


def stopped(paths: list[str], done: int) -> str:
    """Return the message for Ctrl-C: which files were read and which were not."""
    left = ", ".join(terminal.visible_text(Path(path).name) for path in paths[done:]) or "none"
    return (
        f"Stopped. {plurals.count(done, 'file was', 'files were')} read; not finished: {left}."
        " Run the command again; no paper is loaded twice."
    )


def load(session: Session, path: Path, **choices: Any) -> tuple[dict[str, Any], bool]:
    """Load one dump; return its report, and whether the dump is in the catalog."""
    from digest.dumps import intake

    with terminal.show_progress(path.name, unit="papers") as done:
        loaded = intake.load(session, path, progress=done.update_to, **choices)
    return loaded.to_json(), loaded.is_loaded


def load_input(session: Session, folder: Path, **choices: Any) -> tuple[dict[str, Any], bool]:
    """Load the page on standard input; return its report, and whether the page is in the catalog."""
    from digest.dumps import intake

    content = terminal.read_input(intake.MAX_CAPTURE_BYTES + 1)
    loaded = intake.capture(session, folder, content, **choices)
    return loaded.to_json(), loaded.is_loaded


def load_page(context: PollContext, url: str, **choices: Any) -> tuple[dict[str, Any], bool]:
    """Fetch and load the page at an address; return its report, and whether the page is in the catalog."""
    from digest.dumps import intake, sources
    from digest.dumps.sources import source_presets

    shown = source_presets.without_secrets(url)
    with terminal.show_progress(shown, unit="papers") as done:
        try:
            loaded = sources.load_page(context, url, progress=done.update_to, **choices)
        except sources.FetchFailed as error:
            return intake.failed_load(Path(), str(error)).to_json() | {"path": None, "url": shown}, False
    return loaded.to_json() | {"url": shown}, loaded.is_loaded


def show_loaded(loaded: dict[str, Any], *, dry_run: bool) -> None:
    """Print the result of loading one dump."""
    name = loaded.get("url") or Path(loaded["path"]).name
    if loaded["state"] != "loaded":
        terminal.print_note(f"{name}: not loaded. {terminal.visible_text(loaded['reason'])}")
    else:
        dated = f" of {loaded['date']}" if loaded["date"] else ""
        verb = "would load" if dry_run else "loaded"
        terminal.print_line(
            f"{name}: {verb} {plurals.count(loaded['papers'], 'paper')} ({loaded['format']}{dated}):"
            f" {loaded['new']} new, {loaded['updated']} updated, {loaded['unchanged']} unchanged,"
            f" {loaded['rejected']} rejected."
        )
    problems = [problem for problem in loaded["problems"] if problem["reason"] != loaded["reason"]]
    for problem in problems[:PROBLEMS_SHOWN]:
        where = f"line {problem['line']}: " if problem["line"] else ""
        terminal.print_note(f"  {where}{terminal.visible_text(problem['reason'])}")
    if len(problems) > PROBLEMS_SHOWN:
        where = f": digest dumps show {loaded['id']}" if loaded["id"] else ""
        terminal.print_note(f"  and {len(problems) - PROBLEMS_SHOWN} more{where}")
    for number, paper in enumerate(loaded.get("shown", ()), start=1):
        show_paper(number, paper)


def show_paper(number: int, paper: dict[str, Any]) -> None:
    """Print a paper of a dump: its title, and one line for each field that pages show."""
    abstract = paper["abstract"]
    is_cut = len(abstract) > ABSTRACT_SHOWN
    fields = {
        "authors": people_text(paper),
        "published": f"{paper['published']} (year inferred)"
        if paper["published_inferred"]
        else paper["published"],
        "signals": ", ".join(f"{value:,.0f} {name}" for name, value in paper["signals"].items()),
        "ids": ", ".join(f"{scheme} {value}" for scheme, value in paper["ids"].items()),
        "abstract": abstract[:ABSTRACT_SHOWN].rstrip()
        + (f"... ({len(abstract):,} characters)" if is_cut else ""),
    }
    terminal.print_line()
    margin = f"{number:>3}. "
    terminal.print_paragraph(margin, paper["title"])
    for name, value in fields.items():
        terminal.print_paragraph(f"{' ' * len(margin)}{name:9}  ", value or "–")


def people_text(paper: dict[str, Any]) -> str:
    """Return the names of a paper's authors and organisation, or the number of its authors."""
    names, organization = paper["authors"], paper["organization"]
    others = max(paper["n_authors"] or 0, len(names)) - len(names[:AUTHORS_SHOWN])
    parts = [*names[:AUTHORS_SHOWN]]
    if others:
        parts.append(plurals.count(others, "other" if names else "author"))
    people = ", ".join(parts)
    return " · ".join(filter(None, [people, organization and organization["name"]]))


@app.command("list")
def show_list(limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """List the dumps, newest first, and the dumps that are late.

    With --json, the late dumps are at the end, without an id and with the state `late`.

    Examples:
        digest dumps list
        digest dumps list --limit 100 --json
    """
    from digest.dumps import intake
    from digest.papers import catalog, expected_arrivals

    shown = limit if limit or as_json else terminal.LIMIT
    with command_context.open_context() as context, context.read_session() as session:
        rows = intake.list_dumps(session, limit=shown)
        moment = current_time(now)
        late = expected_arrivals.late_lists(catalog.arrivals(session, until=moment), now=moment)
    if as_json:
        terminal.lines([*(as_report(row) for row in rows), *(late_list_report(one) for one in late)])
        return
    terminal.print_table(
        ("id#", "date", "file", "format", "state", "papers#", "new#", "updated#", "rejected#"),
        (
            (r.id, r.date, Path(r.path).name, r.format, r.state, r.papers, r.new, r.updated, r.rejected)
            for r in rows
        ),
        shrinkable=["file", "format"],
        empty="No dumps yet. Read one: digest intake PATH",
    )
    for one in late:
        terminal.print_note(f"Late: {one}.")


@app.command()
def show(
    dump_id: DumpId,
    as_json: AsJson = False,
) -> None:
    """Show one dump and every record that could not be read.

    Examples:
        digest dumps show 12
        digest dumps show 12 --json
    """
    from digest.dumps import intake

    with command_context.open_context() as context, context.read_session() as session:
        dump = intake.get_dump(session, dump_id)
        problems = intake.list_unread_records(session, dump_id)
        report = as_report(dump) | {
            "problems": [{"line": p.line, "reason": p.reason, "excerpt": p.excerpt} for p in problems]
        }
    if as_json:
        terminal.print_json(report)
        return
    terminal.print_facts((name, value) for name, value in report.items() if name != "problems")
    if problems:
        terminal.print_line()
        terminal.print_table(
            ("line#", "reason", "excerpt"),
            ((p.line, p.reason, p.excerpt) for p in problems),
            shrinkable=["excerpt", "reason"],
        )


@app.command()
def retry(
    dump_id: DumpId,
    incomplete_ok: IncompleteOk = False,
    as_history: Annotated[
        bool, typer.Option("--as-history", help="Load old papers, which no digest will show as new.")
    ] = False,
    dry_run: DryRun = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Read a held or rejected dump again, from the current path of its file.

    The dump's papers count as new, regardless of its age, unless --as-history is given.

    Exits with 0 if the dump is loaded or was loaded before, otherwise with 1.

    Examples:
        digest dumps retry 12 --dry-run
        digest dumps retry 12 --incomplete-ok
        digest dumps retry 12 --as-history
    """
    from digest.dumps import intake

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        loaded = intake.retry(
            session,
            dump_id,
            now=current_time(now),
            incomplete_ok=incomplete_ok,
            as_history=as_history,
            dry_run=dry_run,
        )
    if as_json:
        terminal.print_json(loaded.to_json())
    else:
        show_loaded(loaded.to_json(), dry_run=dry_run)
    if not loaded.is_loaded:
        raise typer.Exit(1)


def as_report(dump: DumpRow) -> dict[str, Any]:
    """Return a dump's fields for JSON."""
    names = (
        "id", "path", "source", "format", "date", "order", "state", "reason", "papers", "new", "updated",
        "unchanged", "rejected", "missing_papers", "usual_papers", "is_history", "is_sample", "observed_at", "seen_at", "read_at",
    )  # fmt: skip
    return {name: getattr(dump, name) for name in names}


def late_list_report(late: LateList) -> dict[str, Any]:
    """Return a late list for JSON, with the keys of a dump and the time by which it was expected."""
    known = {"date": late.day, "source": late.source, "state": "late", "reason": str(late)}
    return {"id": None, "path": None, **known, "expected_by": late.expected_by}
