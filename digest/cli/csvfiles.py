"""`digest subscribers import` and `export`: people as rows of a CSV file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from digest.cli import people, rooms, screen
from digest.cli.options import AsJson, Now, clock
from digest.errors import UsageError

STANDARD = Path("-")  #: stdin or stdout
COLUMNS = ("email", "name", "cadence", "at", "timezone", "state", "topics", "packs")
PROBLEMS_SHOWN = 20
FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: a spreadsheet would run what begins so


# ── in ──────────────────────────────────────────────────────────────────────────────────────────


def read(
    path: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help=f"Columns: {', '.join(COLUMNS)}. - is stdin.")
    ],
    consent: Annotated[
        str | None,
        typer.Option("--consent", metavar="TEXT", help="How the active ones agreed.", show_default=False),
    ] = None,
    invited_by: Annotated[
        str,
        typer.Option(
            "--invited-by",
            metavar="TEXT",
            help="Who put the pending ones on the list, as their invitation says it.",
            show_default=False,
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report; change nothing.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Import subscribers from a CSV file.

    A bad row is told with its line and does not stop the good ones. Rows with state active need --consent, else they come in as pending, and each is asked once by mail, one a minute. Whoever has left stays away.
    """
    from digest import subscriptions

    with (
        rooms.opened() as house,
        rooms.writing(house) as session,
        opened(path) as file,
        screen.progress("Importing", of="lines") as done,
    ):
        rows = subscriptions.rows_in(cast(TextIO, counted(file, done.to)))
        imported = subscriptions.import_rows(
            session, house.site, rows, consent=consent, invited_by=invited_by, now=clock(now)
        )
        if dry_run:
            session.rollback()
        else:
            session.commit()
    report = {
        name: getattr(imported, name) for name in ("added", "updated", "unchanged", "invited", "rejected")
    }
    report["problems"] = [{"line": one.line, "reason": one.reason} for one in imported.problems]
    if as_json:
        screen.document(report)
    else:
        show(report, dry_run=dry_run)
    if imported.rejected and not (imported.added or imported.updated or imported.unchanged):
        raise typer.Exit(1)


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a file of rows; what cannot be read as text is refused in one sentence."""
    try:
        with standard_or(path, sys.stdin, "r", "utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8.") from None


def standard_or(path: Path, standard: TextIO, mode: str, encoding: str) -> AbstractContextManager[TextIO]:
    """Return the file of that name, or for - the standard stream."""
    if path == STANDARD:
        return nullcontext(standard)
    try:
        return cast(TextIO, path.open(mode, encoding=encoding, newline=""))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None


def counted(lines: TextIO, done: Callable[[int], None]) -> Iterator[str]:
    """Yield the lines and tell how many went by."""
    for number, line in enumerate(lines, start=1):
        yield line
        done(number)


def show(report: dict[str, Any], *, dry_run: bool) -> None:
    """Show an import to a person."""
    names = ["added", "updated", "unchanged", *(["invited"] if report["invited"] else []), "rejected"]
    figures = ", ".join(f"{report[name]:,} {name}" for name in names)
    screen.tell(f"Would be: {figures}." if dry_run else f"{figures}.")
    for problem in report["problems"][:PROBLEMS_SHOWN]:
        screen.say(f"  line {problem['line']}: {screen.visible(problem['reason'])}")
    if len(report["problems"]) > PROBLEMS_SHOWN:
        screen.say(f"  and {len(report['problems']) - PROBLEMS_SHOWN} more; --json lists them all.")


# ── out ─────────────────────────────────────────────────────────────────────────────────────────


def write(
    path: Annotated[
        Path,
        typer.Argument(metavar="[FILE.csv]", help="Where to write; default: stdout.", show_default=False),
    ] = STANDARD,
) -> None:
    """Export the subscribers, in the columns that import reads."""
    with (
        rooms.opened() as house,
        house.reading() as session,
        standard_or(path, sys.stdout, "w", "utf-8") as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for one in people.listed(session):
            topics, packs = parted(one["topics"])
            written = json.dumps(topics, ensure_ascii=False) if topics else ""
            cells = {**one, "topics": written, "packs": "; ".join(packs)}
            rows.writerow(guarded(str(cells[name])) for name in COLUMNS)


def parted(topics: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return a subscriber's own topics, and the packs that stand last among them as import puts them."""
    from digest import subscriptions

    own = dict(topics)
    packs: list[str] = []
    for name, typed in reversed(list(topics.items())):
        if not subscriptions.is_pack(name, typed):
            break
        packs.insert(0, own.pop(name).removeprefix("use:"))
    return own, packs


def guarded(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; import takes the apostrophe off again."""
    return f"'{text}" if text.startswith(FORMULA) else text
