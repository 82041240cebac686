"""`digest intake` and `digest dumps`: what came in."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import HIGHEST, AsJson, Limit, Now, clock, day
from digest.cli.status import late_lists

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.model import DumpRow

PROBLEMS_SHOWN = 5

app = typer.Typer(help="What was read, and what became of it.", no_args_is_help=True)


class Order(StrEnum):
    """What the place of a paper in a dump means."""

    RANKED = "ranked"  #: by popularity: the first is the most wanted
    RELEVANCE = "relevance"  #: by how well it fits a query nobody recorded
    NONE = "none"  #: nothing


def intake(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Dumps to read.", show_default=False)
    ],
    observed: Annotated[
        date | None,
        typer.Option(
            "--date", parser=day, metavar="DAY", help="The day the dumps were observed.", show_default=False
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="Their format, if it is not recognised.", show_default=False
        ),
    ] = None,
    order: Annotated[
        Order | None, typer.Option("--order", help="What a paper's place means.", show_default=False)
    ] = None,
    as_history: Annotated[
        bool, typer.Option("--as-history", help="Load the past without making it news.")
    ] = False,
    incomplete_ok: Annotated[
        bool, typer.Option("--incomplete-ok", help="Load what is short or cut off as far as it goes.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report; keep nothing.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Read dumps now, in this process.

    A file named here is never moved. Exits with 0 if something was loaded (or was known already), 1 if nothing could be.
    """
    moment = clock(now)
    with rooms.opened() as house, rooms.writing(house) as session:
        loads = [
            load(
                session,
                path,
                now=moment,
                date=observed,
                format=layout,
                order=order,
                as_history=as_history,
                dry_run=dry_run,
                incomplete_ok=incomplete_ok or house.settings.sends_short_dumps,
            )
            for path in paths
        ]
    if as_json:
        screen.document({"dumps": [loaded for loaded, _ in loads]})
    else:
        for loaded, _ in loads:
            show_loaded(loaded, dry_run=dry_run)
    if not any(fine for _, fine in loads):
        raise typer.Exit(1)


def load(session: Session, path: Path, **choices: Any) -> tuple[dict[str, Any], bool]:
    """Load one dump; return its report and whether it is in the catalog."""
    from digest import intake as story

    with screen.progress(path.name, of="papers") as done:
        loaded = story.load(session, path, progress=done.to, **choices)
    return loaded.to_json(), loaded.is_loaded


def show_loaded(loaded: dict[str, Any], *, dry_run: bool) -> None:
    """Tell a person what came of one dump."""
    name = Path(loaded["path"]).name
    if loaded["state"] != "loaded":
        screen.say(f"{name}: not loaded. {screen.visible(loaded['reason'])}")
    else:
        dated = f" of {loaded['date']}" if loaded["date"] else ""
        verb = "would load" if dry_run else "loaded"
        screen.tell(
            f"{name}: {verb} {screen.count(loaded['papers'], 'paper')} ({loaded['format']}{dated}):"
            f" {loaded['new']} new, {loaded['updated']} updated, {loaded['unchanged']} unchanged,"
            f" {loaded['rejected']} rejected."
        )
    problems = [problem for problem in loaded["problems"] if problem["reason"] != loaded["reason"]]
    for problem in problems[:PROBLEMS_SHOWN]:
        where = f"line {problem['line']}: " if problem["line"] else ""
        screen.say(f"  {where}{screen.visible(problem['reason'])}")
    if len(problems) > PROBLEMS_SHOWN:
        screen.say(f"  and {len(problems) - PROBLEMS_SHOWN} more: digest dumps show {loaded['id']}")


@app.command("list")
def show_list(limit: Limit = None, now: Now = None, as_json: AsJson = False) -> None:
    """List the dumps, the newest first, and name the lists that should have come and have not.

    With --json a late list is a line at the end, without an id, in the state `late`.
    """
    from sqlalchemy import select

    from digest.model import DumpRow

    wanted = limit if limit or as_json else screen.LIMIT
    with rooms.opened() as house, house.reading() as session:
        rows = session.scalars(select(DumpRow).order_by(DumpRow.id.desc()).limit(wanted)).all()
        late = late_lists(session, clock(now))
    if as_json:
        screen.lines([*(as_report(row) for row in rows), *(as_missing(one) for one in late)])
        return
    screen.table(
        ("id#", "date", "file", "format", "state", "papers#", "new#", "updated#", "rejected#"),
        (
            (r.id, r.date, Path(r.path).name, r.format, r.state, r.papers, r.new, r.updated, r.rejected)
            for r in rows
        ),
        give=["file", "format"],
        empty="No dumps yet. Read one: digest intake PATH",
    )
    for one in late:
        screen.say(f"Late: {one['says']}.")


@app.command()
def show(
    dump_id: Annotated[
        int, typer.Argument(metavar="ID", max=HIGHEST, help="As `digest dumps list` shows it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one dump and every record of it that could not be read."""
    from sqlalchemy import select

    from digest.errors import NotFound
    from digest.model import DumpRow, ProblemRow

    with rooms.opened() as house, house.reading() as session:
        dump = session.get(DumpRow, dump_id)
        if dump is None:
            raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
        problems = session.scalars(
            select(ProblemRow).filter_by(dump_id=dump_id).order_by(ProblemRow.id)
        ).all()
        report = as_report(dump) | {
            "problems": [{"line": p.line, "reason": p.reason, "excerpt": p.excerpt} for p in problems]
        }
    if as_json:
        screen.document(report)
        return
    screen.facts((name, value) for name, value in report.items() if name != "problems")
    if problems:
        screen.tell()
        screen.table(
            ("line#", "reason", "excerpt"),
            ((p.line, p.reason, p.excerpt) for p in problems),
            give=["excerpt", "reason"],
        )


@app.command()
def retry(
    dump_id: Annotated[
        int, typer.Argument(metavar="ID", max=HIGHEST, help="As `digest dumps list` shows it.")
    ],
    incomplete_ok: Annotated[
        bool,
        typer.Option("--incomplete-ok", help="Load it as far as it goes, short or cut off though it is."),
    ] = False,
    as_history: Annotated[bool, typer.Option("--as-history", help="Load it without making it news.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Read a dump again that was held or rejected, from where its file lies.

    Its papers are news from now on, however old its day, unless --as-history.

    Exits with 0 if it is loaded now (or was already), 1 if it still cannot be.
    """
    from digest import intake as story

    with rooms.opened() as house, rooms.writing(house) as session:
        loaded = story.retry(
            session, dump_id, now=clock(now), incomplete_ok=incomplete_ok, as_history=as_history
        )
    if as_json:
        screen.document(loaded.to_json())
    else:
        show_loaded(loaded.to_json(), dry_run=False)
    if not loaded.is_loaded:
        raise typer.Exit(1)


def as_report(dump: DumpRow) -> dict[str, Any]:
    """Return what there is to say about a dump."""
    names = (
        "id", "path", "source", "format", "date", "order", "state", "reason", "papers", "new", "updated",
        "unchanged", "rejected", "missing", "usual", "is_history", "is_sample", "observed_at", "seen_at", "read_at",
    )  # fmt: skip
    return {name: getattr(dump, name) for name in names}


def as_missing(late: dict[str, Any]) -> dict[str, Any]:
    """Return a list that has not come as a dump that is not there."""
    told = {"date": late["day"], "source": late["source"], "state": "late", "reason": late["says"]}
    return {"id": None, "path": None, **told, "expected_by": late["expected_by"]}
