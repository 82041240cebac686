"""From an open file to the catalog: known, or surveyed, then stored or refused."""

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

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from digest import catalog, dumps, failpoints, garbage
from digest.catalog import Tally, one_at_a_time
from digest.dumps import Header, Problem
from digest.errors import Unreadable
from digest.intake.opening import Changed, opened
from digest.intake.reports import Loaded, Wishes, whole
from digest.intake.surveying import Progress, Survey, few_of, surveyed, weighed
from digest.model import Appearance, DumpRow, DumpState, ProblemRow
from digest.papers import Record

BATCH = 500  #: records stored together
TRANSACTION = 20_000  #: records committed together: a day's dump is one transaction


def load(
    session: Session,
    path: Path,
    *,
    now: datetime,
    date: date | None = None,
    format: str | None = None,
    order: str | None = None,
    as_history: bool = False,
    is_sample: bool = False,
    incomplete_ok: bool = False,
    dry_run: bool = False,
    source: str | None = None,
    figures_at: datetime | None = None,
    still_news: timedelta = timedelta(),
    progress: Progress | None = None,
) -> Loaded:
    """Load one dump and commit; the file stays where it is.

    A dump whose bytes were loaded before changes nothing. One that ends before its own end, or is far
    shorter than usual, is held, and nothing of it is loaded, unless `incomplete_ok`. With `dry_run`
    everything is done and then taken back. `figures_at` is when a past day's list was read, where its
    figures are of that moment. For so long after its day as `still_news`, its papers count as first
    seen now. What is wrong with the file is told in the answer, never raised.
    """
    wishes = Wishes(
        date=date,
        format=format,
        order=order,
        as_history=as_history,
        is_sample=is_sample,
        incomplete_ok=incomplete_ok,
        dry_run=dry_run,
        source=source,
        figures_at=figures_at,
        still_news=still_news,
    )
    try:
        with opened(path) as file:
            loaded = load_open(session, path, file, wishes, now, progress)
    except (Unreadable, Changed) as error:
        session.rollback()
        return Loaded(path=path, state=DumpState.REJECTED, reason=str(error), problems=whole(str(error)))
    if dry_run:
        session.rollback()
        return replace(loaded, id=None)
    failpoints.reach("dump-stored")
    session.commit()
    failpoints.reach("dump-kept")
    return loaded


def load_open(
    session: Session,
    path: Path,
    file: BufferedReader,
    wishes: Wishes,
    now: datetime,
    progress: Progress | None,
) -> Loaded:
    """Load an open file: known, or surveyed, then stored or refused.

    Only the storing holds a transaction; that of a large dump is committed now and then, so that
    nobody else waits for minutes, and one that was cut off there is gone on with when it comes again.
    """
    before = os.fstat(file.fileno())
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    known = session.scalar(select(DumpRow).where(DumpRow.sha256 == sha256))
    if known is not None and known.state == DumpState.LOADED:
        return remembered(session, known, path)
    session.commit()
    modified = datetime.fromtimestamp(before.st_mtime, UTC)
    observed_on = wishes.date or min(modified, now).date()
    survey = surveyed(file, path, wishes, observed_on=observed_on, progress=progress)
    row = row_of(session, sha256)
    describe(row, path, survey, wishes, modified, now)
    survey = weighed(session, row, survey, wishes, now)
    tally = Tally()
    if survey.state is DumpState.LOADED:
        tally = store(session, row, file, path, survey, wishes, progress)
    after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Changed("It was written to while it was read; it will be read again.")
    row.state = survey.state
    return concluded(session, row, path, survey, tally, wishes)


def row_of(session: Session, sha256: str) -> DumpRow:
    """Return the row of a dump that was met before, or begin one; another worker may be doing the same."""
    one_at_a_time(session)
    found = session.scalar(
        select(DumpRow).where(DumpRow.sha256 == sha256).execution_options(populate_existing=True)
    )
    if found is None:
        found = DumpRow(sha256=sha256)
        session.add(found)
    return found


def describe(
    row: DumpRow, path: Path, survey: Survey, wishes: Wishes, modified: datetime, now: datetime
) -> None:
    """Write into the row what is known before any paper is stored."""
    explicit = None if survey.header.date_inferred else survey.header.date
    day = explicit or wishes.date
    row.path = str(path)
    row.format = survey.format or None
    row.source = wishes.source or row.source or "folder"
    row.date = day or survey.header.date or min(modified, now).date()
    row.order = wishes.order or survey.header.order
    row.is_history, row.is_sample = wishes.as_history, wishes.is_sample
    row.observed_at = datetime.combine(day, time_of_day(), UTC) if day else now
    row.observed_at = row.observed_at if wishes.date else min(row.observed_at, now)
    row.seen_at = row.observed_at if wishes.figures_at else None
    if day and not wishes.as_history and timedelta() < now.date() - day <= wishes.still_news:
        row.seen_at = now
    row.observed_at = wishes.figures_at or row.observed_at
    row.missing = next((problem.missing for problem in survey.problems if problem.is_truncation), None)
    row.read_at = now
    row.state = DumpState.LOADING if survey.state is DumpState.LOADED else survey.state
    row.reason = survey.reason or None


def store(
    session: Session,
    row: DumpRow,
    file: BufferedReader,
    path: Path,
    survey: Survey,
    wishes: Wishes,
    progress: Progress | None,
) -> Tally:
    """Put the dump's good records into the catalog, batch by batch."""
    tally, read = Tally(), 0
    reading = dumps.read(file, name=path.name, observed_on=survey.observed_on, format=survey.format)
    records = (record for record in reading.records if isinstance(record, Record))
    is_done = False
    while not is_done:
        with garbage.held_off():  # a batch makes tens of thousands of values, and hardly a cycle
            batch = list(islice(records, BATCH))
            tally += catalog.add(session, batch, dump=row)
        failpoints.reach("records-stored")
        is_done = len(batch) < BATCH
        read += len(batch)
        if progress is not None:
            progress(read, survey.papers)
        if read % TRANSACTION == 0 and not wishes.dry_run:
            session.commit()
    return tally


def concluded(
    session: Session, row: DumpRow, path: Path, survey: Survey, tally: Tally, wishes: Wishes
) -> Loaded:
    """Write the counts and the problems of a dump, and return what became of it."""
    row.new, row.updated, row.unchanged = tally.new, tally.updated, tally.unchanged
    row.rejected = survey.rejected
    row.papers = (
        session.scalar(select(func.count()).select_from(Appearance).where(Appearance.dump_id == row.id)) or 0
    )
    remarks = [*contradiction(survey.header, wishes), *shortfall(row)]
    if survey.reason:
        remarks += whole(survey.reason)
    problems = (*remarks, *survey.problems)
    keep_problems(session, row, problems)
    session.flush()
    return loaded_of(row, path, problems)


def contradiction(header: Header, wishes: Wishes) -> Iterator[Problem]:
    """Yield a remark where the dump names another day than the operator."""
    if header.date and not header.date_inferred and wishes.date and wishes.date != header.date:
        yield Problem(
            line=0, reason=f"the dump says it is of {header.date}, not {wishes.date}; its own date was taken"
        )


def shortfall(row: DumpRow) -> Iterator[Problem]:
    """Yield a remark where a list was loaded although it is far shorter than usual."""
    if row.usual is not None and row.state == DumpState.LOADED:
        yield Problem(line=0, reason=f"it {few_of(row, row.papers)}")


def keep_problems(session: Session, row: DumpRow, problems: Sequence[Problem]) -> None:
    """Keep the bad records of a dump for inspection, in place of those of an earlier try."""
    session.execute(delete(ProblemRow).where(ProblemRow.dump_id == row.id))
    if problems:
        kept = [
            {"dump_id": row.id, "line": problem.line, "reason": problem.reason, "excerpt": problem.excerpt}
            for problem in problems
        ]
        session.execute(insert(ProblemRow), kept)


def remembered(session: Session, row: DumpRow, path: Path) -> Loaded:
    """Return what a dump that was loaded before would change: nothing."""
    kept = session.scalars(select(ProblemRow).where(ProblemRow.dump_id == row.id).order_by(ProblemRow.id))
    problems = tuple(Problem(line=one.line, reason=one.reason, excerpt=one.excerpt) for one in kept)
    return replace(loaded_of(row, path, problems), new=0, updated=0, unchanged=row.papers, is_known=True)


def loaded_of(row: DumpRow, path: Path, problems: tuple[Problem, ...]) -> Loaded:
    """Return a dump's row as a value."""
    return Loaded(
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
