"""Import the valid rows of a file of subscribers, and report each rejected row with its line and the reason.

A file can be imported repeatedly: rows that change nothing are skipped, so an interrupted import can simply
be started again. An import never resubscribes anybody who unsubscribed, never overrides a suppression, and
never activates a subscriber without consent. Rows are processed in batches of a thousand, so that even a
large file needs little memory.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from digest.errors import BadField, UsageError
from digest.mail import addresses
from digest.process import gc_control
from digest.site.site_profile import Site
from digest.subscribers import invitations
from digest.subscribers.csv_import.csv_rows import Row
from digest.subscribers.csv_import.import_report import ImportReport
from digest.subscribers.csv_import.row_values import FilterCellReader, ImportRow, check_row, rows_with_lines
from digest.subscribers.csv_import.write_rows import ImportState, UniqueRows, mark_listed, write_unique_rows

BATCH_ROWS = 1_000  #: number of rows that are read and written in one batch


def import_in_batches(  # noqa: PLR0913  (the options of the command, by keyword)
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None = None,
    invited_by: str = "",
    operator: str = "",
    report: ImportReport | None = None,
    is_dry_run: bool = False,
    now: datetime,
) -> ImportReport:
    """Add and update subscribers from `rows`; `consent` describes how active subscribers agreed.

    If there is no consent, or if their row has no state, subscribers are added as pending and invited once.
    `invited_by` names the person who added them. If `rows` has no `line` attribute, lines are counted from
    the header, which is line 1. Commits each batch; a dry run only counts. Raises BadField if the whole file is
    unreadable, for example because it ends inside a quoted cell.
    """
    state = import_state(
        session,
        site,
        consent=consent,
        invited_by=invited_by,
        operator=operator,
        is_dry_run=is_dry_run,
        report=report,
        now=now,
    )
    write_in_batches(state, rows)
    if is_dry_run:
        session.rollback()
    return state.report


def import_state(  # noqa: PLR0913  (the options of the command, by keyword)
    session: Session,
    site: Site,
    *,
    consent: str | None,
    invited_by: str,
    operator: str,
    is_sync: bool = False,
    is_dry_run: bool,
    report: ImportReport | None,
    now: datetime,
) -> ImportState:
    """Return the values that all steps of an import share, with a new report unless one is given."""
    return ImportState(
        session,
        site,
        consent=consent or "",
        invited_by=invited_by,
        operator=operator,
        is_sync=is_sync,
        is_dry_run=is_dry_run,
        now=now,
        moments=invitations.free_moments(session, now),
        report=ImportReport() if report is None else report,
    )


def write_in_batches(state: ImportState, rows: Iterable[Row]) -> None:
    """Check and write the rows in batches; commit each, but in a dry run."""
    valid = good_rows(rows, FilterCellReader(state.session), state)
    while batch := list(islice(valid, BATCH_ROWS)):
        with gc_control.gc_paused():  # a batch creates tens of thousands of values but few reference cycles
            for unique in split_repeated_addresses(batch):
                write_unique_rows(state, unique)
        if not state.is_dry_run:
            state.session.commit()
    if state.is_sync:
        mark_listed(state, state.rejected_keys)
    state.report.problems.sort(key=lambda problem: problem.line)


def good_rows(rows: Iterable[Row], cell_reader: FilterCellReader, state: ImportState) -> Iterator[ImportRow]:
    """Yield the valid rows; record the other rows as rejected."""
    for line, row in rows_with_lines(rows):
        try:
            yield check_row(row, line, cell_reader, may_activate=bool(state.consent))
        except UsageError as error:
            state.report.reject(line, str(error))
            note_rejected_address(state, row)


def note_rejected_address(state: ImportState, row: Row | csv.Error) -> None:
    """Record a rejected row's address, so that a synchronization does not remove the subscriber."""
    try:
        address = addresses.parse_address("" if isinstance(row, csv.Error) else str(row.get("email", "")))
        state.rejected_keys.append(address.folded)
    except BadField:
        state.report.names_nobody += 1


def split_repeated_addresses(batch: Iterable[ImportRow]) -> Iterator[UniqueRows]:
    """Split a batch into groups without repeated addresses; rows with the same address stay in order."""
    left = list(batch)
    while left:
        unique: UniqueRows = {}
        left = [row for row in left if unique.setdefault(row.address.folded, row) is not row]
        yield unique
