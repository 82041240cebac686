"""Reading a dump from end to end before anything is stored, and deciding what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from io import BufferedReader
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import dumps, expectations
from digest.dumps import Header, Problem
from digest.errors import Unreadable
from digest.intake.reports import Wishes
from digest.model import DumpRow, DumpState
from digest.papers import Record

log = logging.getLogger(__name__)

STEP = 2_000  #: papers checked between two words of progress
MOST_PROBLEMS = 1_000  #: bad records kept of one dump
MOST_BAD = 0.5  #: a dump with a greater share of bad records is rejected whole
DAILY = ("feed", "arxiv-listing", "hf-json", "hf-page")  #: formats that announce the papers of a day
GROWING = ("hf-json", "hf-page")  #: of these, a list whose day is not over may be short

#: Told how many papers are done, and of how many: while a dump is checked, nobody knows.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What a first reading from end to end found: enough to decide, nothing stored."""

    format: str
    header: Header
    papers: int
    rejected: int
    problems: tuple[Problem, ...]
    observed_on: date
    reason: str = ""  #: why it is not loaded
    state: DumpState = DumpState.LOADED  #: what becomes of it


def surveyed(
    file: BufferedReader, path: Path, wishes: Wishes, *, observed_on: date, progress: Progress | None = None
) -> Survey:
    """Read the dump from end to end and decide whether it can be loaded; nothing is kept but problems."""
    papers, rejected = 0, 0
    problems: list[Problem] = []
    try:
        reading = dumps.read(file, name=path.name, observed_on=observed_on, format=wishes.format)
        for record in reading.records:
            if isinstance(record, Record):
                papers += 1
                if progress is not None and papers % STEP == 0:
                    progress(papers, None)
                continue
            rejected += not record.is_remark
            if len(problems) < MOST_PROBLEMS or record.is_truncation:
                problems.append(record)
    except Unreadable as error:
        return refused(str(error), observed_on)
    except Exception as error:  # a reader's mistake costs one dump, never the service
        log.exception("a reader failed")
        return refused(f"It could not be read: {type(error).__name__}: {error}", observed_on)
    state, reason = verdict(reading.header, papers, rejected, problems, wishes)
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


def refused(reason: str, observed_on: date) -> Survey:
    """Return the survey of a dump that cannot be read at all."""
    return Survey(
        format="",
        header=Header(),
        papers=0,
        rejected=0,
        problems=(),
        observed_on=observed_on,
        reason=reason,
        state=DumpState.REJECTED,
    )


def verdict(
    header: Header, papers: int, rejected: int, problems: Sequence[Problem], wishes: Wishes
) -> tuple[DumpState, str]:
    """Return what becomes of a dump, and why it is not loaded."""
    cut = next((problem for problem in problems if problem.is_truncation), None)
    bad = rejected - (cut is not None)  # that the end is missing is no record
    if bad > MOST_BAD * (papers + bad):
        first = next(problem for problem in problems if not problem.is_remark)
        return DumpState.REJECTED, (
            f"{bad:,} of its {papers + bad:,} records are bad; the first: line {first.line}: {first.reason}."
        )
    if cut is not None and not wishes.incomplete_ok:
        return DumpState.HELD, f"It is incomplete: {cut.reason} (line {cut.line}). Nothing of it was loaded."
    if not papers and header.announced != 0:
        return DumpState.REJECTED, "There is no paper in it."
    return DumpState.LOADED, ""


def weighed(session: Session, row: DumpRow, survey: Survey, wishes: Wishes, now: datetime) -> Survey:
    """Hold a day's list that is far shorter than on that weekday before, unless the operator wants it as it is."""
    row.usual = None
    if survey.state is not DumpState.LOADED or row.format not in DAILY or row.is_history or row.date is None:
        return survey
    may_grow = row.format in GROWING and row.date >= now.date()
    if may_grow or survey.header.announced == 0:
        return survey
    usual = expectations.usual_papers(lists_like(session, row), row.date)
    if not expectations.is_far_below(survey.papers, usual):
        return survey
    row.usual = usual
    if wishes.incomplete_ok:
        return survey
    row.state = DumpState.HELD
    row.reason = f"It {few_of(row, survey.papers)}. Nothing of it was loaded."
    return replace(survey, state=DumpState.HELD, reason=row.reason)


def lists_like(session: Session, row: DumpRow) -> dict[date, int]:
    """Return how many papers were in the lists of a dump's kind, by day.

    Of several on one day the shortest counts: who reads two archives gets a long list and a short one.
    """
    query = select(DumpRow.date, func.min(DumpRow.papers)).where(
        DumpRow.format == row.format,
        DumpRow.source == row.source,
        DumpRow.state == DumpState.LOADED,
        DumpRow.is_history.is_(False),
        DumpRow.date < row.date,
    )
    newest = query.group_by(DumpRow.date).order_by(DumpRow.date.desc()).limit(7 * expectations.WEEKS)
    return {day: papers for day, papers in session.execute(newest) if day is not None}


def few_of(row: DumpRow, papers: int) -> str:
    """Return how many papers a dump holds and how many would be usual."""
    return f"holds {papers} papers, where {row.usual} are usual on a {row.date:%A}"
