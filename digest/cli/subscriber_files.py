"""`digest subscribers import`, `sync` and `export`: read and write subscribers as CSV or JSON Lines."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TextIO, cast

from digest import plurals
from digest.cli import command_context, error_sentences, terminal
from digest.cli.frame import Opened, Workspace, command, opened, reading
from digest.cli.options import CLOCK, DryRun, Now, Yes, argument, option
from digest.cli.results import CommandResult, Text, fields_of, lines, note, show_text
from digest.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from digest.db import Session
    from digest.db.tables.subscribers import Subscriber
    from digest.subscribers.csv_import.file_rows import CsvRows, JsonRows
    from digest.subscribers.csv_import.import_list import ImportReport
    from digest.subscribers.subscriber_rows import Criteria


STANDARD = Path("-")  #: stdin or stdout
MAX_LINE_LENGTH = 1_000_000  #: maximum number of characters kept from each line; the rest are skipped
MAX_PIPED_LINE = 100_000_000  #: maximum length of a line of a pipe; a device may produce endless lines
MAX_PIPED = 4 * 1024**3  #: maximum number of bytes copied from a pipe to the disk
JSON_SUFFIXES = frozenset({".jsonl", ".ndjson"})
COUNTED = "added updated unchanged invited suppressed rejected"
SYNC_COUNTED = "added updated removed unchanged kept_out invited rejected"
SHOWN_IF_ANY = frozenset({"invited", "suppressed", "kept_out"})
PROBLEMS_SHOWN = 20
LISTMONK = (
    "Read as an export of listmonk: blocklisted addresses are suppressed, disabled addresses unsubscribed, enabled"
    " addresses pending. To activate people who agreed, add a column state with active, and give --consent."
)
#: Characters at the start of a cell that make a spreadsheet read the cell as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
TEMPLATE = (
    ("email", "name", "cadence", "at", "timezone", "state", "topics", "packs"),
    ("ada@example.org", "Ada", "daily", "08:00", "Europe/Oslo", "active", "Vision=image* OR video; Agents=agent*", ""),
    ("bob@example.org", "", "weekly-fri", "07:30", "UTC", "pending", "", "lab/nlp; lab/robots"),
)  # fmt: skip

Consent = Annotated[
    str | None, option("--consent TEXT", "How active subscribers agreed, in your words.", ...)
]
InvitedBy = Annotated[
    str,
    option("--invited-by TEXT", "Who put the pending subscribers on the list; shown in the invitation.", ...),
]


# ── import ──────────────────────────────────────────────────────────────────────────────────────


@command()
def import_file(
    path: Path | None = argument("FILE", "CSV or JSON Lines (.jsonl). - is stdin.", None),
    consent: Consent = None,
    invited_by: InvitedBy = "",
    template: bool = option("--template", "Print an example file and exit."),
    dry_run: DryRun = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Import subscribers from a CSV or JSON Lines file.

    A subscriber whose row has the state active becomes active, but only with --consent or a column consent. Without this consent or a state, the subscriber becomes pending and gets a single invitation. Invitations are sent at a rate of one a minute. Unsubscribed addresses stay unsubscribed. A bad row is reported with its line, and the other rows are imported; an unknown column or an unclosed quote stops the import. After Ctrl-C, run the command again: rows that are imported already are skipped. Files exported from listmonk are accepted.

    Examples:
        digest subscribers import people.csv --dry-run
        digest subscribers import people.csv --consent 'agreed on the sign-up sheet'
        digest subscribers import --template
    """
    from digest.subscribers.csv_import.import_list import ImportReport, import_in_batches

    if template:
        csv.writer(example := io.StringIO(), lineterminator="\n").writerows(TEMPLATE)
        return CommandResult(TEMPLATE, example.getvalue().splitlines())
    report = ImportReport()
    with (
        error_sentences.on_ctrl_c(lambda: stopped(report, dry_run=dry_run)),
        command_context.open_context(makes_service=True) as context,
        open_list(path) as (rows_of, total),
        command_context.open_write_session(context) as session,
        terminal.show_progress("Importing", total=total, unit="lines") as done,
    ):
        rows = rows_of(done.update_to)
        import_in_batches(
            session,
            context.site,
            rows,
            consent=consent,
            invited_by=invited_by,
            operator=command_context.operator_name(),
            report=report,
            is_dry_run=dry_run,
            now=now,
        )
    source = {"from": "listmonk" if rows.is_listmonk else "digest", "left_out": list(rows.ignored_columns)}
    return result(report, import_text(report, rows, COUNTED, dry_run=dry_run), COUNTED, source)


@command(opened)
def sync_file(
    work: Opened,
    path: Path = argument("FILE", "All members, as CSV or JSON Lines. - is stdin."),
    consent: Consent = None,
    invited_by: InvitedBy = "",
    allow_many: bool = option(
        "--allow-many",
        "Continue even if more than ten subscribers, and more than the file contains, would be removed.",
    ),
    dry_run: DryRun = False,
    yes: Yes = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Synchronize the subscribers with the members in a file.

    New members are added in the same way as with `digest subscribers import`. Members who are subscribed
    already get the packs of the file; all their other settings are kept. Members of an earlier file who
    are missing from this file are unsubscribed without a letter, and are resubscribed if a later file
    contains them. Other unsubscribed addresses, and suppressed addresses, do not change. If the address of a
    row cannot be read, nobody is removed.

    Examples:
        digest subscribers sync members.csv --dry-run
        digest subscribers sync members.csv --invited-by 'Anna at Example Lab'
        digest subscribers sync members.csv --yes
    """
    from digest.subscribers.csv_import.import_list import ImportReport
    from digest.subscribers.csv_import.sync_list import sync_in_batches

    asked: dict[str, Any] = {
        "consent": consent, "invited_by": invited_by, "operator": work.operator, "allows_many": allow_many, "now": now,
    }  # fmt: skip
    is_plan, report = dry_run or not yes, ImportReport()
    with (
        error_sentences.on_ctrl_c(lambda: stopped(report, dry_run=is_plan)),
        open_list(path) as (rows_of, total),
    ):
        while True:
            verb = "Comparing" if is_plan else "Writing"
            with (
                work.writing() as session,
                terminal.show_progress(verb, total=total, unit="lines") as done,
            ):
                rows = rows_of(done.update_to)
                sync_in_batches(session, work.site, rows, report=report, is_dry_run=is_plan, **asked)
            if dry_run or not is_plan:
                break
            show_text(sync_text(report, rows, dry_run=True))
            terminal.require_yes("Nothing has been changed yet.", yes=False)
            report, is_plan = ImportReport(), False
    emails = {f"{name}_emails": listed for name, listed in emails_of(report).items()}
    return result(report, sync_text(report, rows, dry_run=dry_run), SYNC_COUNTED, emails)


def result(report: ImportReport, text: Text, counted: str, more: dict[str, Any]) -> CommandResult:
    """Return the result of an import: these counts, the rejected rows, and more fields."""
    problems = {"problems": [fields_of(one, "line reason") for one in report.problems]}
    is_failed = bool(report.rejected) and not report.is_loaded
    return CommandResult(fields_of(report, counted) | problems | more, text, code=int(is_failed))


def stopped(report: ImportReport, *, dry_run: bool) -> str:
    """Return the message for Ctrl-C: what was written, and how to continue."""
    if dry_run or not report.is_loaded:
        return "Stopped. Nothing was imported. Run the command again."
    return (
        f"Stopped. {report.added:,} were added and {report.updated:,} updated, except those of the last"
        " thousand rows. To continue, run the command again: it skips rows that are already imported."
    )


# ── reading ─────────────────────────────────────────────────────────────────────────────────────

Rows = Callable[[Callable[[int], None]], "CsvRows | JsonRows"]


@contextmanager
def open_list(path: Path | None) -> Iterator[tuple[Rows, int]]:
    """Open a file of subscribers; yield two values: a function that returns its rows, and its line count.

    The whole file is first read once, so that nothing is imported from a file with an unclosed quote.
    Raises UsageError if no file is named, or if the file cannot be opened or is not text, and BadField if the
    whole file is unreadable.
    """
    from digest.subscribers.csv_import.file_rows import CsvRows, JsonRows

    if path is None:
        raise UsageError("Name a file, - for stdin, or --template for an example.")
    try:
        with seekable(path) as binary:
            start = binary.read(4096)
            binary.seek(0)
            encoding = encoding_of(start, path)
            is_object = start.decode(encoding, "ignore").lstrip().startswith("{")
            kind = JsonRows if is_object or path.suffix.lower() in JSON_SUFFIXES else CsvRows
            with io.TextIOWrapper(cast(io.BufferedReader, binary), encoding=encoding, newline="") as text:

                def rows_of(done: Callable[[int], None]) -> CsvRows | JsonRows:
                    text.seek(0)
                    return kind(lines_of(text, done))

                yield rows_of, check_structure(rows_of(lambda _: None))
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is neither UTF-8 nor UTF-16 ({error.reason}); save it as 'CSV UTF-8' (Excel's name)."
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None


@contextmanager
def seekable(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or copy a pipe into a temporary file that only this user can read."""
    if path != STANDARD and path.is_file():
        with path.open("rb") as file:
            yield file
        return
    with (
        nullcontext(sys.stdin.buffer) if path == STANDARD else path.open("rb") as pipe,
        tempfile.TemporaryFile() as copy,
    ):
        copy_pipe(pipe, copy, path)
        yield copy


def copy_pipe(pipe: IO[bytes], copy: IO[bytes], path: Path) -> None:
    """Copy a pipe; raise UsageError for an endless line or an endless pipe, which would fill the disk."""
    copied = line = 0
    while block := pipe.read(1024 * 1024):
        copied += copy.write(block)
        _, newline, rest = block.rpartition(b"\n")
        line = len(rest) if newline else line + len(block)
        if line > MAX_PIPED_LINE:
            raise UsageError(f"{path} is not a list of subscribers: a line is longer than 100 MB.")
        if copied > MAX_PIPED:
            raise UsageError(f"{path} is longer than 4 GB, the limit for a pipe. Import it as a file.")


def check_structure(rows: CsvRows | JsonRows) -> int:
    """Read a whole file without importing it; return the number of its last line.

    Raises BadField if the whole file is unreadable, for example because of an unclosed quote.
    """
    while True:
        try:
            next(rows)
        except StopIteration:
            return rows.line
        except csv.Error:
            continue  # an invalid row, which the import reports


def lines_of(text: TextIO, done: Callable[[int], None]) -> Iterator[str]:
    """Yield the lines of a file, and report their number; truncate lines that are too long for any row."""
    for number in itertools.count(1):
        if not (line := text.readline(MAX_LINE_LENGTH)):
            return
        rest = line
        while len(rest) == MAX_LINE_LENGTH and not rest.endswith("\n"):
            rest = text.readline(MAX_LINE_LENGTH)
        yield line
        done(number)


def encoding_of(start: bytes, path: Path) -> str:
    """Return the encoding of a file, detected from its start; raise UsageError for a workbook."""
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise UsageError(f"{path} is a workbook of a spreadsheet program. Save it as 'CSV UTF-8'.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start[:4]:
        return "utf-16-be" if start.startswith(b"\0") else "utf-16-le"
    return "utf-8-sig"


# ── reporting ───────────────────────────────────────────────────────────────────────────────────


def emails_of(report: ImportReport) -> dict[str, list[str]]:
    """Return the addresses that were added, changed and removed."""
    return {"added": report.added_emails, "changed": report.changed_emails, "removed": report.removed_emails}


def import_text(
    report: ImportReport, rows: CsvRows | JsonRows, counted: str, *, dry_run: bool
) -> Iterator[Text]:
    """Yield the result of an import, with the first rejected rows."""
    counts = fields_of(report, counted).items()
    shown = [(name, number) for name, number in counts if number or name not in SHOWN_IF_ANY]
    figures = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in shown)
    yield f"{terminal.DRY_RUN * dry_run}{figures}."
    if rows.is_listmonk:
        yield note(LISTMONK)
    if rows.ignored_columns:
        yield note(f"Columns not used: {', '.join(rows.ignored_columns)}.")
    for problem in report.problems[:PROBLEMS_SHOWN]:
        yield note(f"  line {problem.line}: {terminal.visible_text(problem.reason)}")
    if report.rejected > PROBLEMS_SHOWN:
        yield note(f"  and {report.rejected - PROBLEMS_SHOWN:,} more; --json lists them.")


def sync_text(report: ImportReport, rows: CsvRows | JsonRows, *, dry_run: bool) -> Iterator[Text]:
    """Yield who was added, changed and removed."""
    totals = {"added": report.added, "changed": report.updated, "removed": report.removed}
    for name, emails in emails_of(report).items():
        yield from (f"  {name.ljust(8)} {email}" for email in emails[:PROBLEMS_SHOWN])
        if totals[name] > PROBLEMS_SHOWN:
            yield f"  {name.ljust(8)} and {totals[name] - PROBLEMS_SHOWN:,} more"
    yield from import_text(report, rows, SYNC_COUNTED, dry_run=dry_run)
    if report.names_nobody:
        unread = plurals.count(report.names_nobody, "row has", "rows have")
        yield note(f"Nobody is removed, because {unread} no readable address.")


# ── export ──────────────────────────────────────────────────────────────────────────────────────


@command(reading)
def export_file(
    work: Workspace,
    path: Path = argument("FILE", "CSV, or JSON Lines if it ends in .jsonl. Default: stdout.", STANDARD),
    as_json: bool = option("--json", "Write JSON Lines."),
    now: Now = CLOCK,
) -> CommandResult:
    """Export all subscribers with everything that import reads, as CSV or JSON Lines.

    Examples:
        digest subscribers export
        digest subscribers export people.csv
        digest subscribers export people.jsonl
    """
    from digest.subscribers.csv_import.file_rows import file_columns

    columns = [*file_columns()]
    is_json = as_json or path.suffix.lower() in JSON_SUFFIXES
    with (
        error_sentences.on_ctrl_c(lambda: f"Stopped. {path} is not complete."),
        private_output_file(path) as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        if not is_json:
            rows.writerow(columns)
        for one in list_subscribers(work.session, now=now, with_words=True):
            topics, packs = split_topics_and_packs(one["topics"])
            fields = {name: one.get(name) for name in columns} | {"topics": topics, "packs": packs}
            if is_json:
                file.write(terminal.json_text(fields) + "\n")
            else:
                rows.writerow(escape_formula(cell_text(fields[name])) for name in columns)
    return lines([])


def cell_text(value: Any) -> str:
    """Return a value as a cell of a CSV file."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return json.dumps(value, ensure_ascii=False) if value else ""
        case list():
            return "; ".join(value)
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


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
    """Return a subscriber's topics without the packs at their end, and the names of these packs.

    A pack before one of the subscriber's own topics stays a topic, because import puts packs at the end.
    """
    from digest.subscribers import filter_registry

    own = dict(topics)
    packs: list[str] = []
    for name, typed in reversed(list(topics.items())):
        if not filter_registry.is_pack_topic(name, typed):
            break
        packs.insert(0, own.pop(name).removeprefix("use:"))
    return own, packs


def escape_formula(text: str) -> str:
    """Prefix a cell with an apostrophe if a spreadsheet would read it as a formula; import removes the prefix."""
    return f"'{text}" if text.startswith(FORMULA) else text


# ── the fields of subscribers ──


#: The fields of a subscriber before and after the settings, in the order of the output.
BEFORE_SETTINGS = "email", "owner", "name", "state"
AFTER_SETTINGS = (
    "paused_until", "next_due_at", "created_at", "confirmed_at", "consent", "leaving_reason", "muted", "topics",
)  # fmt: skip
BATCH_ROWS = 500  #: number of subscribers whose topics are read at once


def list_subscribers(
    session: Session, criteria: Criteria | None = None, *, now: datetime, with_words: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each matching subscriber, ordered by address, in bounded memory.

    `with_words` adds to the filters the words of their examples.
    """
    from digest.subscribers.subscriber_rows import Criteria, find_subscribers

    found = find_subscribers(session, criteria or Criteria())
    while batch := list(islice(found, BATCH_ROWS)):
        yield from subscriber_reports(session, batch, now, with_words=with_words)


def subscriber_report(session: Session, subscriber: Subscriber, now: datetime) -> dict[str, Any]:
    """Return the fields of one subscriber."""
    return next(subscriber_reports(session, [subscriber], now))


def subscriber_reports(
    session: Session, batch: Sequence[Subscriber], now: datetime, *, with_words: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the fields of these subscribers."""
    from digest.subscribers import next_digest, subscriber_rows, subscriber_topics
    from digest.subscribers.reader_settings import SETTINGS

    ids = [subscriber.id for subscriber in batch]
    topics = subscriber_topics.typed_topics(session, ids, with_words=with_words)
    consents = subscriber_rows.latest_consents(session, ids)
    muted = subscriber_topics.muted_topics(session, ids)
    due = next_digest.next_due_times(session, batch, now)
    for subscriber in batch:
        yield {
            "email": subscriber.email,
            "owner": subscriber.owner_email,
            **fields_of(subscriber, "name state"),
            **{name: setting.value_of(subscriber) for name, setting in SETTINGS.items()},
            "paused_until": subscriber.paused_until,
            "next_due_at": due.get(subscriber.id),
            **fields_of(subscriber, "created_at confirmed_at"),
            "consent": consents.get(subscriber.id),
            "leaving_reason": subscriber.leaving_reason,
            "muted": muted.get(subscriber.id, []),
            "topics": topics.get(subscriber.id, {}),
        }
