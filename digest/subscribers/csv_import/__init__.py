"""Import the valid rows of a CSV file of subscribers, and report each other row with its line and the reason.

A file can be imported repeatedly; rows that change nothing are skipped. An import never resubscribes
anybody, never overrides a suppression, and never activates a subscriber without consent. Rows are
processed in batches of a thousand and freed after their batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from sqlalchemy.orm import Session

from digest import gc_control
from digest.errors import UsageError
from digest.site_profile import Site
from digest.subscribers import invitations
from digest.subscribers.csv_import.csv_rows import CsvRows, Row
from digest.subscribers.csv_import.import_report import ImportProblem, ImportReport
from digest.subscribers.csv_import.row_values import FilterCellReader, ImportRow, check_row, rows_with_lines
from digest.subscribers.csv_import.write_rows import ImportState, Layer, write_layer

__all__ = ["CsvRows", "ImportProblem", "ImportReport", "import_rows"]

BATCH_ROWS = 1_000  #: rows read and written together


def import_rows(
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None = None,
    invited_by: str = "",
    now: datetime,
) -> ImportReport:
    """Add and update subscribers from `rows`; `consent` describes how active subscribers agreed.

    Without consent, subscribers are added as pending, as for rows without a state, and are invited
    once; `invited_by` names the person who added them. If `rows` is not a CsvRows, lines are counted with the
    header as line 1. Raises BadField if the file ends inside a quoted cell; the caller must then roll
    back.
    """
    moments = invitations.free_moments(session, now)
    state = ImportState(session, site, consent=consent or "", invited_by=invited_by, now=now, moments=moments)
    valid = good_rows(rows, FilterCellReader(session), state.report, may_activate=bool(consent))
    while batch := list(islice(valid, BATCH_ROWS)):
        with gc_control.gc_paused():  # a batch creates tens of thousands of values but few cycles
            for layer in split_repeated_addresses(batch):
                write_layer(state, layer)
    state.report.problems.sort(key=lambda problem: problem.line)
    return state.report


def good_rows(
    rows: Iterable[Row], cell_reader: FilterCellReader, report: ImportReport, *, may_activate: bool
) -> Iterator[ImportRow]:
    """Yield the valid rows; record the other rows as rejected."""
    for line, row in rows_with_lines(rows):
        try:
            yield check_row(row, line, cell_reader, may_activate=may_activate)
        except UsageError as error:
            report.reject(line, str(error))


def split_repeated_addresses(batch: Iterable[ImportRow]) -> Iterator[Layer]:
    """Split a batch into layers that contain each address once, in the order of rows."""
    left = list(batch)
    while left:
        layer: Layer = {}
        left = [row for row in left if layer.setdefault(row.address.folded, row) is not row]
        yield layer
