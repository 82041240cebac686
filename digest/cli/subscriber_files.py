"""`digest subscribers import` and `export`: subscribers as a CSV file."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any, TextIO, cast

import typer

from digest.cli import command_context, failures, subscriber_listing, terminal
from digest.cli.common_options import AsJson, Now, current_time
from digest.errors import UsageError

STANDARD = Path("-")  #: stdin or stdout
MAX_LINE_LENGTH = 1_000_000  #: the maximum length of a CSV line, in characters
COLUMNS = (
    "email",
    "name",
    "cadence",
    "at",
    "timezone",
    "state",
    "topics",
    "packs",
    "abstracts",
)  #: in the order that import expects
COUNTED = ("added", "updated", "unchanged", "invited", "suppressed", "rejected")
PROBLEMS_SHOWN = 20
LISTMONK = (
    "Read as an export of listmonk: blocklisted addresses are suppressed, disabled addresses unsubscribed, enabled"
    " addresses pending. To activate people who agreed, add a column state with active, and give --consent."
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: spreadsheets interpret cells that begin with these as formulas


# ── import ──────────────────────────────────────────────────────────────────────────────────────


def import_file(
    path: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help=f"Columns: {', '.join(COLUMNS)}. - is stdin.")
    ],
    consent: Annotated[
        str | None,
        typer.Option(
            "--consent",
            metavar="TEXT",
            help="How active subscribers agreed, in your words.",
            show_default=False,
        ),
    ] = None,
    invited_by: Annotated[
        str,
        typer.Option(
            "--invited-by",
            metavar="TEXT",
            help="Who put the pending subscribers on the list; shown in the invitation.",
            show_default=False,
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report; change nothing.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Import subscribers from a CSV file.

    Rows with state active become active, but only with --consent. All other rows become pending and get one invitation each, sent at one a minute. Unsubscribed addresses stay unsubscribed. A bad row is reported with its line, and the other rows are imported; an unknown column or an unclosed quote stops the import. Exports of listmonk are accepted.
    """
    from digest import subscribers
    from digest.subscribers import use_cases

    with (
        failures.on_ctrl_c(lambda: "Stopped. Nothing was imported. Run the command again."),
        command_context.open_context() as context,
        command_context.open_write_session(context) as session,
        open_rows(path) as file,
        terminal.show_progress("Importing", unit="lines") as done,
    ):
        rows = subscribers.CsvRows(count_lines(file, done.update_to))
        imported = use_cases.import_list(
            session,
            context.site,
            rows,
            consent=consent,
            invited_by=invited_by,
            is_dry_run=dry_run,
            now=current_time(now),
        )
    report = {name: getattr(imported, name) for name in COUNTED}
    report["problems"] = [{"line": one.line, "reason": one.reason} for one in imported.problems]
    report |= {"from": "listmonk" if rows.is_listmonk else "digest", "left_out": list(rows.ignored_columns)}
    if as_json:
        terminal.print_json(report)
    else:
        show(report, dry_run=dry_run)
    if imported.rejected and not imported.is_loaded:
        raise typer.Exit(1)


@contextmanager
def open_rows(path: Path) -> Iterator[Iterator[str]]:
    """Open a CSV file as UTF-8 or UTF-16; raise UsageError if it is neither."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD else path.open("rb") as binary:
            start, whole = peek_start(binary)
            text = io.TextIOWrapper(whole, encoding=encoding_of(start, path), newline="")
            yield lines_of(text, path)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is neither UTF-8 nor UTF-16 ({error.reason}); save it as 'CSV UTF-8' (Excel's name)."
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None


def lines_of(text: TextIO, path: Path) -> Iterator[str]:
    """Yield the lines of a file; raise UsageError for an endless line, such as a device may produce."""
    while line := text.readline(MAX_LINE_LENGTH):
        if len(line) == MAX_LINE_LENGTH:
            raise UsageError(
                f"{path} is not a CSV file: a line is longer than {MAX_LINE_LENGTH:,} characters."
            )
        yield line


def peek_start(binary: IO[bytes]) -> tuple[bytes, io.BufferedReader]:
    """Return the first four bytes of a stream, and a stream that still contains them."""
    whole = binary if isinstance(binary, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, binary))
    return whole.peek(4)[:4], whole


def encoding_of(start: bytes, path: Path) -> str:
    """Return the encoding of a text with this start, or raise UsageError for a workbook."""
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise UsageError(f"{path} is a workbook of a spreadsheet program. Save it as 'CSV UTF-8'.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start:
        return "utf-16-be" if start.startswith(b"\0") else "utf-16-le"
    return "utf-8-sig"


def count_lines(lines: Iterator[str], done: Callable[[int], None]) -> Iterator[str]:
    """Yield the lines and report their number as progress."""
    for number, line in enumerate(lines, start=1):
        yield line
        done(number)


def show(report: dict[str, Any], *, dry_run: bool) -> None:
    """Print the result of an import."""
    names = [name for name in COUNTED if report[name] or name not in {"invited", "suppressed"}]
    figures = ", ".join(f"{report[name]:,} {name}" for name in names)
    terminal.print_line(f"Dry run: {figures}." if dry_run else f"{figures}.")
    if report["from"] == "listmonk":
        terminal.print_note(LISTMONK)
    if report["left_out"]:
        terminal.print_note(f"Columns not used: {', '.join(report['left_out'])}.")
    for problem in report["problems"][:PROBLEMS_SHOWN]:
        terminal.print_note(f"  line {problem['line']}: {terminal.visible_text(problem['reason'])}")
    if len(report["problems"]) > PROBLEMS_SHOWN:
        terminal.print_note(f"  and {len(report['problems']) - PROBLEMS_SHOWN} more; --json lists them all.")


# ── export ──────────────────────────────────────────────────────────────────────────────────────


def export_file(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE.csv", help="Default: stdout.", show_default=False),
    ] = STANDARD,
) -> None:
    """Export the subscribers, with the columns that import reads."""
    with (
        command_context.open_context() as context,
        context.read_session() as session,
        private_output_file(path) as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for one in subscriber_listing.list_subscribers(session):
            topics, packs = split_topics_and_packs(one["topics"])
            written = json.dumps(topics, ensure_ascii=False) if topics else ""
            cells = {**one, "topics": written, "packs": "; ".join(packs)}
            rows.writerow(escape_formula(str(cells[name])) for name in COLUMNS)


def private_output_file(path: Path) -> AbstractContextManager[TextIO]:
    """Open the output file, or stdout for `-`; only its owner can read the file, because it contains addresses."""
    if path == STANDARD:
        return nullcontext(sys.stdout)
    try:
        return os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8", newline=""
        )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None


def split_topics_and_packs(topics: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Split topics into the subscriber's own topics and the packs at the end, where import puts them."""
    from digest import subscribers

    own = dict(topics)
    packs: list[str] = []
    for name, typed in reversed(list(topics.items())):
        if not subscribers.is_pack_topic(name, typed):
            break
        packs.insert(0, own.pop(name).removeprefix("use:"))
    return own, packs


def escape_formula(text: str) -> str:
    """Prefix a cell with an apostrophe if a spreadsheet would read it as a formula; import removes the prefix."""
    return f"'{text}" if text.startswith(FORMULA) else text
