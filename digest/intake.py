"""Intake: from a file to the catalog, once, and with a reason for whatever did not get there.

A dump is opened without following links, surveyed from end to end before anything is stored, and
remembered by the hash of its bytes. Whatever is wrong with a file costs that file, never the
service, and no file is ever deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from digest import catalog, dumps, expectations, garbage
from digest.catalog import Tally, one_at_a_time
from digest.dumps import Header, Problem
from digest.errors import NotFound, Unreadable
from digest.model import Appearance, Delivery, DumpRow, DumpState, PaperRow, ProblemRow, Shown, Subscriber
from digest.papers import Record

log = logging.getLogger(__name__)
logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # what it warns of comes to us as problems

BATCH = 500  #: records stored together
STEP = 2_000  #: papers checked between two words of progress
TRANSACTION = 20_000  #: records committed together: a day's dump is one transaction
MOST_PROBLEMS = 1_000  #: bad records kept of one dump
DAILY = ("feed", "arxiv-listing", "hf-json")  #: formats that announce the papers of a day
GROWING = ("hf-json",)  #: of these, a list whose day is not over may be short
LATEST = timedelta(days=7)  #: after its day, for which a list that comes late is still news
MOST_BAD = 0.5  #: a dump with a greater share of bad records is rejected whole
ACCEPTED, REFUSED = "done", "rejected"  #: where files of the folder go
UNFINISHED = (".part", ".partial", ".tmp", ".crdownload", ".swp", "~")

#: Told how many papers are done, and of how many: while a dump is checked, nobody knows.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What became of one dump."""

    path: Path
    state: DumpState
    id: int | None = None
    reason: str = ""
    format: str | None = None
    date: date | None = None
    papers: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected: int = 0  #: bad records, and a missing end
    problems: tuple[Problem, ...] = ()
    is_known: bool = False  #: the same bytes had been loaded before

    @property
    def is_loaded(self) -> bool:
        """Return whether its papers are in the catalog."""
        return self.state is DumpState.LOADED

    def to_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {
            "id": self.id,
            "path": str(self.path),
            "format": self.format,
            "date": self.date.isoformat() if self.date else None,
            "state": self.state.value,
            "reason": self.reason,
            "papers": self.papers,
            "new": self.new,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "rejected": self.rejected,
            "problems": [{"line": problem.line, "reason": problem.reason} for problem in self.problems],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What the operator says of a dump."""

    date: date | None = None
    format: str | None = None
    order: str | None = None
    as_history: bool = False
    is_sample: bool = False
    incomplete_ok: bool = False
    dry_run: bool = False
    source: str | None = None
    figures_at: datetime | None = None
    still_news: timedelta = timedelta()


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


class Changed(Exception):
    """A file that was written to while it was read."""


# ── one dump ────────────────────────────────────────────────────────────────────────────────────


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
    session.commit()
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


def opened(path: Path) -> BufferedReader:
    """Open a regular file for reading; never follow a link, never wait for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(refusal_of(path) or f"It cannot be opened: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(refusal_of(path) or "It is not a regular file.")
    return os.fdopen(descriptor, "rb")


def refusal_of(path: Path) -> str:
    """Return why something that is no regular file is not read, or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    kinds = {
        stat.S_IFLNK: "a symbolic link, and links are not followed",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFDIR: "a folder",
        stat.S_IFSOCK: "a socket",
    }
    kind = stat.S_IFMT(mode)
    return "" if kind == stat.S_IFREG else f"It is {kinds.get(kind, 'a device')}, not a regular file."


def whole(reason: str) -> tuple[Problem, ...]:
    """Return a reason that concerns the whole dump as a problem."""
    return (Problem(line=0, reason=reason),)


def retry(
    session: Session,
    dump_id: int,
    *,
    now: datetime,
    incomplete_ok: bool = False,
    as_history: bool = False,
) -> Loaded:
    """Read a dump again that was held or rejected, from where its file lies, and commit.

    With `incomplete_ok` one that is short is loaded as far as it goes. However old its day, its papers
    count as first seen now, since no reader could have been told of them before, unless it is released
    `as_history`. A file that had been put into `rejected/` and is loaded now moves to `done/`. Raises
    NotFound without the file.
    """
    row = session.get(DumpRow, dump_id, populate_existing=True)
    if row is None:
        raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")
    path = Path(row.path)
    if row.state == DumpState.LOADED:
        return remembered(session, row, path)
    if not os.path.lexists(path):
        raise NotFound(
            f"The file of dump {dump_id} is not at {path} any more: digest intake it from where it is."
        )
    wishes = as_before(row) | ({"as_history": True} if as_history else {})
    loaded = load(session, path, now=now, incomplete_ok=incomplete_ok, still_news=timedelta.max, **wishes)
    if loaded.is_loaded and path.parent.name == REFUSED:
        remember_place(session, loaded, put_aside(path.parent.parent, loaded))
        path.with_name(f"{path.name}.reason.txt").unlink(missing_ok=True)
    return loaded


def as_before(row: DumpRow) -> dict[str, Any]:
    """Return what was wished of a dump when it was read first."""
    has_figures_of_its_own = row.is_history and row.seen_at is not None
    seen_at = row.seen_at if has_figures_of_its_own else row.observed_at
    is_dated = row.date is not None and seen_at == datetime.combine(row.date, time_of_day(), UTC)
    return {
        "date": row.date if is_dated else None,
        "format": row.format,
        "order": row.order if row.format else None,
        "as_history": row.is_history,
        "is_sample": row.is_sample,
        "source": row.source,
        "figures_at": row.observed_at if has_figures_of_its_own else None,
    }


# ── survey ──────────────────────────────────────────────────────────────────────────────────────


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
            rejected += 1
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
        first = problems[0]
        return DumpState.REJECTED, (
            f"{bad:,} of its {papers + bad:,} records are bad; the first: line {first.line}: {first.reason}."
        )
    if cut is not None and not wishes.incomplete_ok:
        return DumpState.HELD, f"It is incomplete: {cut.reason} (line {cut.line}). Nothing of it was loaded."
    if not papers and header.announced != 0:
        return DumpState.REJECTED, "There is no paper in it."
    return DumpState.LOADED, ""


# ── store ───────────────────────────────────────────────────────────────────────────────────────


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


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


def collect(
    session: Session,
    folder: Path,
    *,
    now: datetime,
    settle_seconds: float = 2.0,
    incomplete_ok: bool = False,
) -> list[Loaded]:
    """Load every complete file in the folder, oldest first, and move it to `done/` or `rejected/`.

    A file is complete once its size and time have stood still for `settle_seconds`; hidden files and
    those with the names of unfinished downloads wait until they are renamed. Folders are left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loaded = []
    for path in complete(folder, now, settle_seconds):
        found = load(session, path, now=now, incomplete_ok=incomplete_ok, still_news=LATEST)
        is_gone = found.id is None and not os.path.lexists(path)  # another worker was faster
        if not is_gone and not found.reason.startswith("It was written to"):
            remember_place(session, found, put_aside(folder, found))
            loaded.append(found)
    return loaded


def remember_place(session: Session, loaded: Loaded, moved: Path | None) -> None:
    """Write down where a dump's file lies now, and commit; of a dump that came twice, the first file."""
    if moved is not None and loaded.id is not None and not loaded.is_known:
        session.execute(update(DumpRow).where(DumpRow.id == loaded.id).values(path=str(moved)))
        session.commit()


def complete(folder: Path, now: datetime, settle_seconds: float) -> list[Path]:
    """Return the files that nobody is writing to any more, oldest first."""
    seen = candidates(folder)
    young = [
        path for path, (_, modified) in seen.items() if now.timestamp() - modified / 1e9 < settle_seconds
    ]
    if young and settle_seconds > 0:
        time.sleep(settle_seconds)
        later = candidates(folder)
        seen = {path: state for path, state in seen.items() if later.get(path) == state}
    return sorted(seen, key=lambda path: (seen[path][1], path.name))


def candidates(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return what might be a dump, with its size and time; folders are none."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(UNFINISHED):
                continue
            if not entry.is_dir(follow_symlinks=False):
                try:
                    state = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another worker was faster
                found[folder / entry.name] = (state.st_size, state.st_mtime_ns)
    return found


def put_aside(folder: Path, loaded: Loaded) -> Path | None:
    """Move a file that was dealt with, and put the reason beside one that was refused; return where it is."""
    target = folder / (ACCEPTED if loaded.is_loaded else REFUSED)
    target.mkdir(exist_ok=True)
    moved = free_name(target, loaded.path.name)
    try:
        loaded.path.rename(moved)
    except FileNotFoundError:
        return None  # another worker was faster
    if not loaded.is_loaded:
        lines = (f"line {problem.line}: {problem.reason}" for problem in loaded.problems if problem.line)
        text = "\n".join(chain([loaded.reason], lines)) + "\n"
        (target / f"{moved.name}.reason.txt").write_text(text, encoding="utf-8", errors="replace")
    return moved


def free_name(folder: Path, name: str) -> Path:
    """Return a path in the folder that nothing stands at."""
    path, number = folder / name, 1
    while os.path.lexists(path) or os.path.lexists(folder / f"{path.name}.reason.txt"):
        number += 1
        path = folder / f"{Path(name).stem}.{number}{Path(name).suffix}"
    return path


# ── samples ─────────────────────────────────────────────────────────────────────────────────────


def remove_samples(session: Session) -> None:
    """Delete every sample paper, dump and subscriber, with what hangs on them, and commit."""
    papers = select(PaperRow.id).where(PaperRow.is_sample)
    subscribers = select(Subscriber.id).where(Subscriber.is_sample)
    session.execute(
        delete(Shown).where(or_(Shown.paper_id.in_(papers), Shown.subscriber_id.in_(subscribers)))
    )
    session.execute(delete(Delivery).where(Delivery.subscriber_id.in_(subscribers)))
    session.execute(delete(Subscriber).where(Subscriber.is_sample))
    session.execute(delete(PaperRow).where(PaperRow.is_sample))
    session.execute(delete(DumpRow).where(DumpRow.is_sample))
    session.commit()
