"""Load one dump file into the catalog."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.dumps import DumpRow, DumpState, ProblemRow
from digest.db.tables.papers import AppearanceRow, PaperRow
from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import Header, RecordProblem
from digest.dumps.intake.accept_or_reject import (
    Progress,
    Survey,
    first_records,
    hold_if_short,
    short_list_text,
    survey_dump,
)
from digest.dumps.intake.load_report import LoadOptions, LoadResult, failed_load, whole_dump_problem
from digest.dumps.intake.open_safely import FileChanged, open_regular_file
from digest.dumps.intake.stored_dumps import OLD_LIST
from digest.errors import UnreadableDump
from digest.papers.catalog import match_or_add_records
from digest.papers.catalog.match_or_add_records import CatalogCounts, lock_catalog_writes
from digest.papers.paper_record import Record
from digest.process import failpoints, gc_control

BATCH_RECORDS = 500  #: number of records that are stored in the catalog at once
DATED_LISTS = ("feed", "arxiv-listing")  #: formats of which each list has its day and new papers
RECORDS_PER_TRANSACTION = 20_000  #: maximum number of records stored in a transaction; a day's dump has fewer


def load(
    session: Session,
    path: Path,
    *,
    now: datetime,
    show: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> LoadResult:
    """Load one dump and commit; do not move the file.

    `options` are those of `LoadOptions`. If the same bytes were loaded before, nothing changes. A dump that is
    truncated, far shorter than usual or perhaps misread is held and not loaded, unless `incomplete_ok` is set.
    The result contains the dump's first `show` papers. A bad file is reported in the result and never raises an
    exception.
    """
    chosen = LoadOptions(**options)
    try:
        with open_regular_file(path) as file:
            loaded = load_open_file(session, path, file, chosen, now, progress)
            if show:
                day = observation_day(file, chosen, now)
                records = first_records(file, path, loaded.format, observed_on=day, count=show)
                loaded = replace(loaded, shown=records)
    except (UnreadableDump, FileChanged) as error:
        session.rollback()
        failed = failed_load(path, str(error), show=show)
        return replace(failed, is_being_written=isinstance(error, FileChanged))
    if chosen.dry_run:
        session.rollback()
        return replace(loaded, id=None)
    failpoints.reach("dump-stored")
    session.commit()
    failpoints.reach("dump-committed")
    return loaded


def load_open_file(
    session: Session,
    path: Path,
    file: BufferedReader,
    options: LoadOptions,
    now: datetime,
    progress: Progress | None,
) -> LoadResult:
    """Load an open file unless its bytes are known: read it once to decide, then store or reject it.

    A transaction is open only while records are stored. A large dump is committed in parts, so that other
    writers do not wait for minutes. An interrupted load continues when the dump is loaded again.
    """
    before = os.fstat(file.fileno())
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    known = session.scalar(select(DumpRow).where(DumpRow.sha256 == sha256))
    if known is not None and known.state == DumpState.LOADED:
        return result_of_known_dump(session, known, path)
    session.commit()
    modified = datetime.fromtimestamp(before.st_mtime, UTC)
    observed_on = observation_day(file, options, now)
    survey = survey_dump(file, path, options, observed_on=observed_on, progress=progress)
    row = find_or_create_row(session, sha256)
    fill_row(row, path, survey, options, modified, now)
    survey = hold_if_short(session, row, survey, options, now)
    tally = CatalogCounts()
    if survey.state is DumpState.LOADED:
        tally = store_records(session, row, file, path, survey, options, progress)
    after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise FileChanged(
            "The file was written to while it was being read. Load it again when it is complete."
        )
    row.state = survey.state
    return conclude(session, row, path, survey, tally, options)


def observation_day(file: BufferedReader, options: LoadOptions, now: datetime) -> date:
    """Return the date that the operator gave, or the day on which the file was written."""
    modified = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    return options.date or min(modified, now).date()


def find_or_create_row(session: Session, sha256: str) -> DumpRow:
    """Return the row of a known dump or add a new row, under a lock that excludes other workers."""
    lock_catalog_writes(session)
    found = session.scalar(
        select(DumpRow).where(DumpRow.sha256 == sha256).execution_options(populate_existing=True)
    )
    if found is None:
        found = DumpRow(sha256=sha256)
        session.add(found)
    return found


def fill_row(
    row: DumpRow, path: Path, survey: Survey, options: LoadOptions, modified: datetime, now: datetime
) -> None:
    """Set the fields of the row that are known before papers are stored."""
    explicit = None if survey.header.date_inferred else survey.header.date
    day = explicit or options.date
    row.path = str(path)
    row.format = survey.format or None
    row.source = options.source or row.source or "folder"
    row.date = day or survey.header.date or min(modified, now).date()
    row.order = options.order or survey.header.order
    row.is_history, row.is_sample = options.as_history, options.is_sample
    row.observed_at = datetime.combine(day, time_of_day(), UTC) if day else now
    row.observed_at = row.observed_at if options.date else min(row.observed_at, now)
    row.seen_at = row.observed_at if options.figures_at else None
    if day and not options.as_history and timedelta() < now.date() - day <= options.still_news:
        row.seen_at = now
    row.observed_at = options.figures_at or row.observed_at
    row.missing_papers = next(
        (problem.missing_papers for problem in survey.problems if problem.is_truncation), None
    )
    row.read_at = now
    row.state = DumpState.LOADING if survey.state is DumpState.LOADED else survey.state
    row.reason = survey.reason or None


def store_records(  # noqa: PLR0917  (one caller, which passes them in this order)
    session: Session,
    row: DumpRow,
    file: BufferedReader,
    path: Path,
    survey: Survey,
    options: LoadOptions,
    progress: Progress | None,
) -> CatalogCounts:
    """Store the dump's valid records in the catalog, batch by batch."""
    tally, read = CatalogCounts(), 0
    reading = recognition.read(file, name=path.name, observed_on=survey.observed_on, format=survey.format)
    records = (record for record in reading.records if isinstance(record, Record))
    is_done = False
    while not is_done:
        with gc_control.gc_paused():  # a batch creates tens of thousands of objects but few reference cycles
            batch = list(islice(records, BATCH_RECORDS))
            tally += match_or_add_records.add(session, batch, dump=row, first=read + 1)
        failpoints.reach("records-stored")
        is_done = len(batch) < BATCH_RECORDS
        read += len(batch)
        if progress is not None:
            progress(read, survey.papers)
        if read % RECORDS_PER_TRANSACTION == 0 and not options.dry_run:
            session.commit()
    return tally


def conclude(
    session: Session, row: DumpRow, path: Path, survey: Survey, tally: CatalogCounts, options: LoadOptions
) -> LoadResult:
    """Store the counts and the problems of a dump and return the result."""
    row.new, row.updated, row.unchanged = tally.new, tally.updated, tally.unchanged
    row.rejected = survey.rejected
    row.papers = (
        session.scalar(select(func.count()).select_from(AppearanceRow).where(AppearanceRow.dump_id == row.id))
        or 0
    )
    remarks = [
        *date_contradiction(survey.header, options),
        *short_list_remark(row),
        *old_list_remark(session, row),
    ]
    if survey.reason:
        remarks += whole_dump_problem(survey.reason)
    problems = (*remarks, *survey.problems)
    replace_problems(session, row, problems)
    session.flush()
    return result_from_row(row, path, problems)


def date_contradiction(header: Header, options: LoadOptions) -> Iterator[RecordProblem]:
    """Yield a remark if the date in the dump differs from the operator's date."""
    if header.date and not header.date_inferred and options.date and options.date != header.date:
        yield RecordProblem(
            line=0, reason=f"the dump is dated {header.date}, not {options.date}; its own date was used"
        )


def short_list_remark(row: DumpRow) -> Iterator[RecordProblem]:
    """Yield a remark if the loaded list is far shorter than usual."""
    if row.usual_papers is not None and row.state == DumpState.LOADED:
        yield RecordProblem(line=0, reason=f"it {short_list_text(row, row.papers)}")


def old_list_remark(session: Session, row: DumpRow) -> Iterator[RecordProblem]:
    """Yield a remark if all papers of a dated list were first seen before its day."""
    if row.format not in DATED_LISTS or row.is_history or row.state != DumpState.LOADED or row.date is None:
        return
    newest = session.scalar(
        select(func.max(PaperRow.first_seen_at))
        .join(AppearanceRow, AppearanceRow.paper_id == PaperRow.id)
        .where(AppearanceRow.dump_id == row.id)
    )
    if newest is not None and newest < datetime.combine(row.date, time_of_day(), UTC):
        yield RecordProblem(
            line=0,
            reason=f"none of its {plurals.count(row.papers, 'paper')} is new; the last was first seen on {newest:%A, %Y-%m-%d}: "
            + OLD_LIST,
        )


def replace_problems(session: Session, row: DumpRow, problems: Sequence[RecordProblem]) -> None:
    """Store the problems of a dump, replacing the problems of any earlier load."""
    session.execute(delete(ProblemRow).where(ProblemRow.dump_id == row.id))
    if problems:
        kept = [
            {"dump_id": row.id, "line": problem.line, "reason": problem.reason, "excerpt": problem.excerpt}
            for problem in problems
        ]
        session.execute(insert(ProblemRow), kept)


def result_of_known_dump(session: Session, row: DumpRow, path: Path) -> LoadResult:
    """Return the result for a dump that was already loaded."""
    kept = session.scalars(select(ProblemRow).where(ProblemRow.dump_id == row.id).order_by(ProblemRow.id))
    problems = tuple(RecordProblem(line=one.line, reason=one.reason, excerpt=one.excerpt) for one in kept)
    return replace(
        result_from_row(row, path, problems), new=0, updated=0, unchanged=row.papers, is_known=True
    )


def result_from_row(row: DumpRow, path: Path, problems: tuple[RecordProblem, ...]) -> LoadResult:
    """Return the LoadResult for a dump's row."""
    return LoadResult(
        path=path,
        id=row.id,
        state=DumpState(row.state),
        reason=row.reason or "",
        format=row.format,
        date=row.date,
        papers=row.papers,
        new=row.new,
        updated=row.updated,
        unchanged=row.unchanged,
        rejected=row.rejected,
        problems=problems,
    )
