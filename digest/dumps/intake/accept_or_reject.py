"""Read a dump completely before storing its records, and decide whether to load, hold or reject it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from io import BufferedReader
from itertools import islice
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.dumps import DumpRow, DumpState
from digest.dumps import laws
from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import Header, RecordProblem
from digest.dumps.intake.load_report import LoadOptions
from digest.errors import UnreadableDump
from digest.papers import expected_arrivals
from digest.papers.paper_record import Record

log = logging.getLogger(__name__)

PROGRESS_STEP = 2_000  #: number of papers between two progress reports
MAX_PROBLEMS = 1_000  #: maximum number of problems stored for a dump
MAX_BAD_SHARE = 0.5  #: maximum share of bad records in a dump that is loaded
DAILY_FORMATS = ("feed", "arxiv-listing", "hf-json", "hf-page")  #: formats that list the papers of one day
GROWING_FORMATS = ("hf-json", "hf-page")  #: daily formats whose list grows until its day is over

#: What the operator can do about a dump that may have been misread.
NEXT_STEPS = (
    "None of it was loaded. To see how it is read, use digest intake FILE --dry-run --show 5. If that is right, "
    "load it with digest dumps retry ID --incomplete-ok; otherwise use another export, see docs/dumps.md."
)

#: A function that gets the number of papers processed and their total (None while the dump is checked).
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The result of reading a dump completely without storing anything."""

    observed_on: date
    format: str = ""
    header: Header = Header()  # noqa: RUF009  (frozen)
    papers: int = 0
    rejected: int = 0
    problems: tuple[RecordProblem, ...] = ()
    reason: str = ""  #: why the dump is not loaded; empty if it is loaded
    state: DumpState = DumpState.LOADED  #: the dump's state if storing succeeds


def survey_dump(
    file: BufferedReader,
    path: Path,
    options: LoadOptions,
    *,
    observed_on: date,
    progress: Progress | None = None,
) -> Survey:
    """Read the dump completely and decide whether to load it; only its problems are kept in memory."""
    papers, rejected = 0, 0
    problems: list[RecordProblem] = []
    try:
        reading = recognition.read(file, name=path.name, observed_on=observed_on, format=options.format)
        for record in laws.checked(reading):
            if isinstance(record, Record):
                papers += 1
                if progress is not None and papers % PROGRESS_STEP == 0:
                    progress(papers, None)
                continue
            rejected += not record.is_remark
            if len(problems) < MAX_PROBLEMS or record.is_truncation or record.is_doubt:
                problems.append(record)
    except UnreadableDump as error:
        return rejected_survey(str(error), observed_on)
    except Exception as error:  # a bug in a reader must not stop the service
        log.exception("a dump reader failed")
        return rejected_survey(f"The dump could not be read: {type(error).__name__}: {error}", observed_on)
    state, reason = verdict(reading.header, papers, rejected, problems, options)
    return Survey(
        format=reading.format,
        header=reading.header,
        papers=papers,
        rejected=rejected,
        problems=tuple(problems),
        observed_on=observed_on,
        reason=reason,
        state=state,
    )


def first_records(
    file: BufferedReader, path: Path, format: str | None, *, observed_on: date, count: int
) -> tuple[Record, ...]:
    """Return the first papers of a dump whose format is known, or none if the dump is unreadable."""
    if format is None:
        return ()
    try:
        reading = recognition.read(file, name=path.name, observed_on=observed_on, format=format)
        papers = (record for record in reading.records if isinstance(record, Record))
        return tuple(islice(papers, count))
    except UnreadableDump:
        return ()


def rejected_survey(reason: str, observed_on: date) -> Survey:
    """Return the survey of an unreadable dump, which is rejected for this reason."""
    return Survey(observed_on=observed_on, reason=reason, state=DumpState.REJECTED)


def verdict(
    header: Header, papers: int, rejected: int, problems: Sequence[RecordProblem], options: LoadOptions
) -> tuple[DumpState, str]:
    """Return the state of a dump and, if it is not loaded, the reason."""
    cuts = [problem for problem in problems if problem.is_truncation]
    bad = rejected - len(cuts)  # a truncated end is not a record
    if bad > MAX_BAD_SHARE * (papers + bad):
        first = next(problem for problem in problems if not problem.is_remark)
        return DumpState.REJECTED, (
            f"{bad:,} of its {plurals.count(papers + bad, 'record')} {'is' if bad == 1 else 'are'} invalid; "
            f"the first is on line {first.line}: {first.reason}."
        )
    if cuts and not options.incomplete_ok:
        cut = cuts[-1]
        return (
            DumpState.HELD,
            f"The dump is incomplete: {cut.reason} (line {cut.line}). None of it was loaded.",
        )
    doubts = "; ".join(problem.reason for problem in problems if problem.is_doubt)
    if doubts and papers and not options.incomplete_ok:
        return DumpState.HELD, f"The dump may have been misread: {doubts}. {NEXT_STEPS}"
    if not papers and (header.announced != 0 or doubts):
        return DumpState.REJECTED, f"The dump contains no papers{': ' * bool(doubts)}{doubts}."
    return DumpState.LOADED, ""


def hold_if_short(
    session: Session, row: DumpRow, survey: Survey, options: LoadOptions, now: datetime
) -> Survey:
    """Hold a daily list with far fewer papers than usual on its weekday, unless `incomplete_ok` is set."""
    row.usual_papers = None
    if (
        survey.state is not DumpState.LOADED
        or row.format not in DAILY_FORMATS
        or row.is_history
        or row.date is None
    ):
        return survey
    may_grow = row.format in GROWING_FORMATS and row.date >= now.date()
    if may_grow or survey.header.announced == 0:
        return survey
    usual = expected_arrivals.usual_papers(papers_of_similar_lists(session, row), row.date)
    if not expected_arrivals.is_far_below(survey.papers, usual):
        return survey
    row.usual_papers = usual
    if options.incomplete_ok:
        return survey
    row.state = DumpState.HELD
    row.reason = f"It {short_list_text(row, survey.papers)}. None of it was loaded."
    return replace(survey, state=DumpState.HELD, reason=row.reason)


def papers_of_similar_lists(session: Session, row: DumpRow) -> dict[date, int]:
    """Return {day: number of papers} for earlier lists with the same format and source.

    If a day has several lists, the shortest one is used, because a source may publish lists of very
    different lengths for different archives.
    """
    query = select(DumpRow.date, func.min(DumpRow.papers)).where(
        DumpRow.format == row.format,
        DumpRow.source == row.source,
        DumpRow.state == DumpState.LOADED,
        DumpRow.is_history.is_(False),
        DumpRow.date < row.date,
    )
    newest = (
        query.group_by(DumpRow.date).order_by(DumpRow.date.desc()).limit(7 * expected_arrivals.MAX_WEEKS_BACK)
    )
    return {day: papers for day, papers in session.execute(newest) if day is not None}


def short_list_text(row: DumpRow, papers: int) -> str:
    """Return a phrase that compares the number of papers in a dump with the usual number."""
    return f"holds {plurals.count(papers, 'paper')}, but {row.usual_papers} are usual on a {row.date:%A}"
