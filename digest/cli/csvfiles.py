"""`digest subscribers import` and `export`: people as rows of a CSV file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, Now, clock
from digest.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from digest.model import Subscriber

COLUMNS = ("email", "name", "cadence", "at", "timezone", "state", "topics", "packs")
PROBLEMS_SHOWN = 20
FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: a spreadsheet would run what begins so


def read(
    path: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help=f"With the columns {', '.join(COLUMNS)}; - is stdin.")
    ],
    consent: Annotated[
        str | None,
        typer.Option(
            "--consent", metavar="TEXT", help="How those with state active agreed.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report; change nothing.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Import subscribers. A bad row is reported with its line and does not stop the good ones.

    Rows with state active need --consent, else they come in as pending.
    """
    from digest import subscriptions

    with rooms.opened() as house, house.writing() as session, screen.progress("Importing") as done:
        imported = subscriptions.import_rows(
            session, house.site, counted(rows_of(path), done), consent=consent, now=clock(now)
        )
        if dry_run:
            session.rollback()
        else:
            session.commit()
    report = {
        "added": imported.added,
        "updated": imported.updated,
        "unchanged": imported.unchanged,
        "rejected": imported.rejected,
        "problems": [{"line": problem.line, "reason": problem.reason} for problem in imported.problems],
    }
    if as_json:
        screen.document(report)
    else:
        show(report, dry_run=dry_run)
    if imported.rejected and not (imported.added or imported.updated or imported.unchanged):
        raise typer.Exit(1)


def show(report: dict[str, Any], *, dry_run: bool) -> None:
    """Show an import to a person."""
    figures = ", ".join(f"{report[name]:,} {name}" for name in ("added", "updated", "unchanged", "rejected"))
    screen.tell(f"Would be: {figures}." if dry_run else f"{figures}.")
    for problem in report["problems"][:PROBLEMS_SHOWN]:
        screen.say(f"  line {problem['line']}: {screen.visible(problem['reason'])}")
    if len(report["problems"]) > PROBLEMS_SHOWN:
        screen.say(f"  and {len(report['problems']) - PROBLEMS_SHOWN} more; --json lists them all.")


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file, each with its line; what is no such file is refused in one sentence."""
    try:
        with (
            nullcontext(sys.stdin)
            if str(path) == "-"
            else path.open(encoding="utf-8-sig", newline="") as lines
        ):
            yield from rows_in(lines)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}). Save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None


def rows_in(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of CSV text."""
    rows = csv.DictReader(lines, restkey="", strict=True)
    try:
        check_columns(rows.fieldnames or ())
        for row in rows:
            cells = {name: unguarded(text or "") for name, text in row.items() if name}
            yield cells | {"line": rows.line_num}
    except csv.Error as error:
        raise UsageError(f"Line {rows.line_num} is not CSV: {error}.") from None


def check_columns(names: Iterable[str]) -> None:
    """Refuse a header without addresses, or with a column we would pass over in silence."""
    known = ", ".join(COLUMNS)
    if "email" not in names:
        raise UsageError(f"The first line must name the columns, email among them: {known}.")
    for name in names:
        if name not in COLUMNS:
            raise UsageError(f"{name!r} is no column we know. The columns are {known}.")


def counted(rows: Iterable[dict[str, Any]], done: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows and tell how many went by."""
    for number, row in enumerate(rows, start=1):
        yield row
        done(number)


def write(
    path: Annotated[
        Path,
        typer.Argument(metavar="[FILE.csv]", help="Where to write; default: stdout.", show_default=False),
    ] = Path("-"),
) -> None:
    """Export the subscribers as CSV, in the columns that import reads."""
    from digest import subscriptions

    with rooms.opened() as house, house.reading() as session:
        target = nullcontext(sys.stdout) if str(path) == "-" else path.open("w", encoding="utf-8", newline="")
        with target as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            for subscriber in list(subscriptions.listing(session)):
                rows.writerow(guarded(text) for text in row_of(session, subscriber))


def row_of(session: Session, subscriber: Subscriber) -> tuple[str, ...]:
    """Return a subscriber in the columns of the file."""
    from digest import editions, subscriptions

    topics = {topic.name: topic.typed for topic in subscriptions.topics_of(session, subscriber)}
    return (
        subscriber.email,
        subscriber.name,
        editions.cadence_spelling(subscriptions.schedule_of(subscriber)),
        f"{subscriber.at:%H:%M}",
        subscriber.timezone,
        subscriber.state,
        json.dumps(topics, ensure_ascii=False) if topics else "",
        "",
    )


def guarded(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def unguarded(text: str) -> str:
    """Return what `guarded` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
