"""Look up papers by condition or reference, and load the observations used to score them."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import DumpRow, DumpState, SourceRow
from digest.db.tables.papers import Alias, AppearanceRow, PaperRow, SignalRow
from digest.errors import NotFound
from digest.papers.expected_arrivals import MAX_WEEKS_BACK, ListArrival
from digest.papers.identifiers import id_in, normalised_id
from digest.papers.paper_record import Announcement, Organization, Paper, title_key
from digest.papers.trending import Appearance as Place
from digest.papers.trending import Evidence

PAPER_TABLE, ALIAS_TABLE = cast(Table, PaperRow.__table__), cast(Table, Alias.__table__)
APPEARANCE_TABLE, SIGNAL_TABLE = cast(Table, AppearanceRow.__table__), cast(Table, SignalRow.__table__)
DUMP_TABLE = cast(Table, DumpRow.__table__)

Condition = ColumnElement[bool]


def papers(
    session: Session,
    *,
    ids: Collection[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    news_only: bool = False,
) -> list[Paper]:
    """Return the unmerged papers first seen after `since` and no later than `until`, in id order.

    With `news_only`, back-filled, replaced, withdrawn and hidden papers are also excluded.
    """
    conditions: list[Condition] = [PAPER_TABLE.c.merged_into.is_(None)]
    if since is not None:
        conditions.append(PAPER_TABLE.c.first_seen_at > since)
    if until is not None:
        conditions.append(PAPER_TABLE.c.first_seen_at <= until)
    if news_only:
        conditions.append(PAPER_TABLE.c.is_history.is_(False))
        conditions.append(PAPER_TABLE.c.announcement != Announcement.WITHDRAWN.value)
        conditions.append(PAPER_TABLE.c.hidden_at.is_(None))
    if ids is not None:
        conditions.append(db.one_of(PAPER_TABLE.c.id, ids))
    rows = session.execute(select(PAPER_TABLE).where(*conditions).order_by(PAPER_TABLE.c.id)).mappings().all()
    chosen = select(PAPER_TABLE.c.id).where(*conditions)
    aliases: dict[int, dict[str, str]] = defaultdict(dict)
    query = select(ALIAS_TABLE).where(ALIAS_TABLE.c.scheme != "title", ALIAS_TABLE.c.paper_id.in_(chosen))
    for alias in session.execute(query.order_by(ALIAS_TABLE.c.scheme, ALIAS_TABLE.c.value)):
        aliases[alias.paper_id].setdefault(alias.scheme, alias.value)
    latest: dict[int, dict[str, float]] = defaultdict(dict)
    query = (
        select(SIGNAL_TABLE)
        .where(SIGNAL_TABLE.c.paper_id.in_(chosen))
        .order_by(SIGNAL_TABLE.c.observed_at, SIGNAL_TABLE.c.source)
    )
    for signal in session.execute(query):
        latest[signal.paper_id][signal.name] = signal.value
    sources: dict[int, list[str]] = defaultdict(list)
    listed = (
        select(APPEARANCE_TABLE.c.paper_id, DUMP_TABLE.c.source)
        .join(DUMP_TABLE, DUMP_TABLE.c.id == APPEARANCE_TABLE.c.dump_id)
        .where(APPEARANCE_TABLE.c.paper_id.in_(chosen))
        .distinct()
        .order_by(APPEARANCE_TABLE.c.paper_id, DUMP_TABLE.c.source)
    )
    for paper_id, source in session.execute(listed):
        sources[paper_id].append(source)
    return [paper_from_row(row, aliases[row["id"]], latest[row["id"]], sources[row["id"]]) for row in rows]


def paper_from_row(row: Any, ids: dict[str, str], signals: dict[str, float], sources: Iterable[str]) -> Paper:
    """Build a paper from its row, ids, signals and sources."""
    handle = row["organization_handle"]
    return Paper(
        id=row["id"],
        title=row["title"],
        abstract=row["abstract"],
        summary_by=row["summary_by"],
        ids=ids,
        authors=tuple(row["authors"]),
        n_authors=row["n_authors"],
        organization=None if handle is None else Organization(handle=handle, name=row["organization_name"]),
        published=row["published"],
        published_inferred=row["published_inferred"],
        categories=tuple(row["categories"]),
        urls=tuple(row["urls"]),
        signals=signals,
        announcement=Announcement(row["announcement"]),
        comment=row["comment"],
        journal=row["journal"],
        first_seen_at=row["first_seen_at"],
        sources=tuple(sources),
        is_sample=row["is_sample"],
        is_hidden=row["hidden_at"] is not None,
    )


# ── by reference ────────────────────────────────────────────────────────────────────────────────


def find(session: Session, reference: str) -> Paper:
    """Return the paper with the given catalog id, external id, URL or title.

    For a merged paper, return the paper it was merged into. Raises NotFound if there is no such paper; if
    there is a similar title, the message suggests it.
    """
    stripped = reference.strip()
    for paper_id in candidate_ids(session, stripped):
        if found := current(session, paper_id):
            return found
    near = nearest_title(session, stripped)
    hint = f" Did you mean “{near}”?" if near else ""
    raise NotFound(f"There is no paper {reference!r} in the catalog.{hint}")


def current(session: Session, paper_id: int) -> Paper | None:
    """Return a paper by its id, or the paper it was merged into; None if there is no such paper."""
    found = papers(session, ids=[resolve(session, [paper_id]).get(paper_id, paper_id)])
    return found[0] if found else None


def as_known(session: Session, given: Sequence[Paper]) -> list[Paper]:
    """Return papers as the catalog has them; those that it lacks, or has without an abstract, as they are given."""
    keys = [[*paper.ids.items(), ("title", title_key(paper.title))] for paper in given]
    values = sorted({value for some in keys for _, value in some})
    rows = (
        session.execute(select(ALIAS_TABLE).where(db.one_of(ALIAS_TABLE.c.value, values))) if values else ()
    )
    owners = {(row.scheme, row.value): row.paper_id for row in rows}
    numbers = [next((owners[key] for key in some if key in owners), 0) for some in keys]
    merged = resolve(session, numbers)
    found = {paper.id: paper for paper in papers(session, ids=sorted({*merged.values(), *numbers} - {0}))}
    known = [found.get(merged.get(number, number)) for number in numbers]
    return [old if old and old.abstract else new for old, new in zip(known, given, strict=True)]


def candidate_ids(session: Session, reference: str) -> Iterator[int]:
    """Yield the ids of the papers that `reference` may refer to, the most likely first."""
    if reference.isascii() and reference.isdigit() and len(reference) < 18:
        yield int(reference)
    for scheme, value in filter(None, ids_in_reference(reference)):
        owner = session.scalar(
            select(ALIAS_TABLE.c.paper_id).where(ALIAS_TABLE.c.scheme == scheme, ALIAS_TABLE.c.value == value)
        )
        if owner is not None:
            yield owner
    titled = select(PAPER_TABLE.c.id).where(
        PAPER_TABLE.c.title == reference, PAPER_TABLE.c.merged_into.is_(None)
    )
    yield from session.scalars(titled.limit(1))


def ids_in_reference(reference: str) -> Iterator[tuple[str, str] | None]:
    """Yield the possible (scheme, value) keys of `reference`, and None for each scheme that does not fit."""
    yield id_in(reference)
    scheme, separator, value = reference.partition(":")
    if separator:
        yield normalised_id(scheme, value)
    yield normalised_id("arxiv", reference)
    yield normalised_id("doi", reference)
    yield "title", title_key(reference)


def nearest_title(session: Session, reference: str) -> str | None:
    """Return the latest title that contains `reference`, else the most similar one with its longest word."""
    sought = title_key(reference)
    words = sorted(sought.split(), key=len, reverse=True)
    if not words or len(words[0]) < 3:
        return None
    query = select(PAPER_TABLE.c.title).where(
        PAPER_TABLE.c.merged_into.is_(None),
        PAPER_TABLE.c.hidden_at.is_(None),
        func.lower(PAPER_TABLE.c.title).contains(words[0], autoescape=True),
    )
    titles = session.scalars(query.order_by(PAPER_TABLE.c.id.desc()).limit(200)).all()
    containing = [title for title in titles if sought in title_key(title)]
    return next(iter(containing or difflib.get_close_matches(reference, titles, n=1, cutoff=0.4)), None)


def resolve(session: Session, ids: Collection[int]) -> dict[int, int]:
    """Return {paper id: id of the paper it was merged into} for the merged papers among `ids`."""
    query = select(PAPER_TABLE.c.id, PAPER_TABLE.c.merged_into).where(
        db.one_of(PAPER_TABLE.c.id, ids), PAPER_TABLE.c.merged_into.is_not(None)
    )
    return {row.id: row.merged_into for row in session.execute(query)}


# ── observations ────────────────────────────────────────────────────────────────────────────────


def observed_at(session: Session, *, until: datetime) -> datetime | None:
    """Return the time of the latest loaded dump that was observed no later than `until`.

    Trending scores are computed for this time, so that the scores are reproducible.
    """
    query = select(func.max(DUMP_TABLE.c.observed_at)).where(
        DUMP_TABLE.c.state == DumpState.LOADED.value, DUMP_TABLE.c.observed_at <= until
    )
    latest: datetime | None = session.scalar(query)
    return latest


def days_with_news(session: Session, *, until: datetime) -> list[date]:
    """Return the days (UTC) on which dumps were observed, in order, except dumps loaded as history."""
    query = select(DUMP_TABLE.c.observed_at).where(
        DUMP_TABLE.c.state == DumpState.LOADED.value,
        DUMP_TABLE.c.observed_at <= until,
        DUMP_TABLE.c.is_history.is_(False),
    )
    return sorted({at.astimezone(UTC).date() for at in session.scalars(query)})


def evidence(session: Session, papers: Sequence[Paper], *, as_of: datetime) -> dict[int, Evidence]:
    """Return all signals and positions observed for these papers up to `as_of`, oldest first."""
    figures: dict[int, dict[str, list[tuple[datetime, float]]]] = defaultdict(lambda: defaultdict(list))
    places: dict[int, list[Place]] = defaultdict(list)
    ids = [paper.id for paper in papers]
    signals = (
        select(SIGNAL_TABLE)
        .where(db.one_of(SIGNAL_TABLE.c.paper_id, ids), SIGNAL_TABLE.c.observed_at <= as_of)
        .order_by(SIGNAL_TABLE.c.observed_at, SIGNAL_TABLE.c.source)
    )
    for row in session.execute(signals):
        figures[row.paper_id][row.name].append((row.observed_at, row.value))
    dump = DUMP_TABLE.c
    appearances = (
        select(
            APPEARANCE_TABLE.c.paper_id,
            APPEARANCE_TABLE.c.position,
            dump.observed_at,
            dump.papers,
            dump.order,
        )
        .join(DUMP_TABLE, dump.id == APPEARANCE_TABLE.c.dump_id)
        .where(db.one_of(APPEARANCE_TABLE.c.paper_id, ids), dump.observed_at <= as_of)
        .order_by(dump.observed_at, dump.id)
    )
    for row in session.execute(appearances):
        places[row.paper_id].append(
            Place(observed_at=row.observed_at, position=row.position, size=row.papers, order=row.order)
        )
    posted = select(PAPER_TABLE.c.id, PAPER_TABLE.c.posted).where(db.one_of(PAPER_TABLE.c.id, ids))
    days = {row.id: row.posted for row in session.execute(posted)}
    loaded = select(dump.observed_at).where(dump.state == DumpState.LOADED.value, dump.observed_at <= as_of)
    moments = sorted(session.scalars(loaded))
    return {
        paper.id: Evidence(
            first_seen_at=paper.first_seen_at,
            posted=days.get(paper.id),
            published=paper.published,
            observations={name: tuple(seen) for name, seen in figures[paper.id].items()},
            appearances=tuple(places[paper.id]),
            n_dumps=max(1, len(moments) - bisect_left(moments, paper.first_seen_at)),
        )
        for paper in papers
    }


def arrivals(session: Session, *, until: datetime) -> list[ListArrival]:
    """Return the arrivals of lists with new papers in the dumps folder and from enabled sources.

    Held lists are included. Lists that arrived more than a day after their date are excluded.
    """
    is_on = select(SourceRow.name).where(SourceRow.is_on)
    query = select(DUMP_TABLE.c.source, DUMP_TABLE.c.read_at, DUMP_TABLE.c.date).where(
        DUMP_TABLE.c.read_at > until - timedelta(weeks=MAX_WEEKS_BACK + 1),
        DUMP_TABLE.c.read_at <= until,
        DUMP_TABLE.c.is_history.is_(False),
        DUMP_TABLE.c.is_sample.is_(False),
        (DUMP_TABLE.c.state == DumpState.HELD.value)
        | ((DUMP_TABLE.c.state == DumpState.LOADED.value) & (DUMP_TABLE.c.new > 0)),
        (DUMP_TABLE.c.source == "folder") | DUMP_TABLE.c.source.in_(is_on),
    )
    return [
        ListArrival(source=source, at=at)
        for source, at, day in session.execute(query)
        if day is None or (at.date() - day).days <= 1
    ]


class LoadedList(NamedTuple):
    """A list that was loaded: its source, when, and whether it had new papers."""

    source: str
    at: datetime
    is_new: bool


def loaded_lists(session: Session, *, until: datetime) -> list[LoadedList]:
    """Return the lists that were loaded in the last nine weeks and had papers; history does not count."""
    query = select(DUMP_TABLE.c.source, DUMP_TABLE.c.read_at, DUMP_TABLE.c.new > 0).where(
        DUMP_TABLE.c.read_at > until - timedelta(weeks=MAX_WEEKS_BACK + 1),
        DUMP_TABLE.c.read_at <= until,
        DUMP_TABLE.c.is_history.is_(False),
        DUMP_TABLE.c.state == DumpState.LOADED.value,
        DUMP_TABLE.c.papers > 0,
    )
    return [LoadedList(*row) for row in session.execute(query)]


def positions(session: Session, dump_id: int | None = None) -> dict[int, tuple[int, int]]:
    """Return {paper id: sort key}; the key is the paper's position in this dump, or in its newest dump.

    A merged paper is listed by the id of the paper it was merged into. Raises NotFound for an unknown dump.
    """
    query = select(AppearanceRow.paper_id, AppearanceRow.dump_id, AppearanceRow.position)
    if dump_id is not None:
        require_dump(session, dump_id)
        query = query.where(AppearanceRow.dump_id == dump_id)
    rows = session.execute(query.order_by(AppearanceRow.dump_id))
    found = {row.paper_id: (-row.dump_id, row.position) for row in rows}
    merged = resolve(session, found.keys())
    return {merged.get(paper_id, paper_id): position for paper_id, position in found.items()}


def require_dump(session: Session, dump_id: int) -> None:
    """Raise NotFound if there is no such dump."""
    if session.get(DumpRow, dump_id) is None:
        raise NotFound(f"There is no dump {dump_id}; see digest dumps list.")


def state(session: Session) -> tuple[object, ...]:
    """Return a value that is cheap to compute and changes whenever the catalog changes."""
    is_hidden = PAPER_TABLE.c.hidden_at.is_not(None)
    hidden = select(func.count(), func.max(PAPER_TABLE.c.hidden_at)).where(is_hidden)
    dumps = select(func.max(DumpRow.id), func.count(), func.max(DumpRow.read_at))
    return (*session.execute(dumps).one(), *session.execute(hidden).one())
