"""Looking papers up: as values, by any name the world has for them, and with what was observed."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, Table, func, select
from sqlalchemy.orm import Session

from digest.errors import NotFound
from digest.expectations import WEEKS, Arrival
from digest.model import Alias, Appearance, DumpRow, DumpState, PaperRow, SignalRow, SourceRow
from digest.papers import Announcement, Organization, Paper, id_in, normalised_id, title_key
from digest.ranking import Appearance as Place
from digest.ranking import Evidence

PAPER, ALIAS = cast(Table, PaperRow.__table__), cast(Table, Alias.__table__)
APPEARANCE, SIGNAL = cast(Table, Appearance.__table__), cast(Table, SignalRow.__table__)
DUMP = cast(Table, DumpRow.__table__)
CHUNK = 500

Where = ColumnElement[bool]


def papers(
    session: Session,
    *,
    ids: Collection[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    news_only: bool = False,
) -> list[Paper]:
    """Return papers by id, first seen in the half-open window (since, until]; merged ones left out.

    With `news_only`, what was back-filled, replaced or withdrawn is left out too.
    """
    conditions: list[Where] = [PAPER.c.merged_into.is_(None)]
    if since is not None:
        conditions.append(PAPER.c.first_seen_at > since)
    if until is not None:
        conditions.append(PAPER.c.first_seen_at <= until)
    if news_only:
        conditions.append(PAPER.c.is_history.is_(False))
        conditions.append(PAPER.c.announcement != Announcement.WITHDRAWN.value)
    if ids is None:
        return gathered(session, conditions)
    return [
        paper for chunk in chunks(ids) for paper in gathered(session, [*conditions, PAPER.c.id.in_(chunk)])
    ]


def gathered(session: Session, conditions: Sequence[Where]) -> list[Paper]:
    """Return the papers that meet the conditions, with their ids, latest figures and sources."""
    rows = session.execute(select(PAPER).where(*conditions).order_by(PAPER.c.id)).mappings().all()
    chosen = select(PAPER.c.id).where(*conditions)
    ids: dict[int, dict[str, str]] = defaultdict(dict)
    query = select(ALIAS).where(ALIAS.c.scheme != "title", ALIAS.c.paper_id.in_(chosen))
    for alias in session.execute(query.order_by(ALIAS.c.scheme, ALIAS.c.value)):
        ids[alias.paper_id].setdefault(alias.scheme, alias.value)
    latest: dict[int, dict[str, float]] = defaultdict(dict)
    query = (
        select(SIGNAL).where(SIGNAL.c.paper_id.in_(chosen)).order_by(SIGNAL.c.observed_at, SIGNAL.c.source)
    )
    for signal in session.execute(query):
        latest[signal.paper_id][signal.name] = signal.value
    sources: dict[int, list[str]] = defaultdict(list)
    for paper_id, source in session.execute(sources_of(chosen)):
        sources[paper_id].append(source)
    return [
        paper_of(row, ids.get(row["id"], {}), latest.get(row["id"], {}), sources.get(row["id"], []))
        for row in rows
    ]


def sources_of(chosen: Select[tuple[int]]) -> Select[Any]:
    """Return the query for where the chosen papers came from."""
    return (
        select(APPEARANCE.c.paper_id, DUMP.c.source)
        .join(DUMP, DUMP.c.id == APPEARANCE.c.dump_id)
        .where(APPEARANCE.c.paper_id.in_(chosen))
        .distinct()
        .order_by(APPEARANCE.c.paper_id, DUMP.c.source)
    )


def paper_of(row: Any, ids: dict[str, str], signals: dict[str, float], sources: Iterable[str]) -> Paper:
    """Return a paper's row and what belongs to it as a value."""
    handle = row["organization_handle"]
    return Paper(
        id=row["id"],
        title=row["title"],
        abstract=row["abstract"],
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
    )


# ── by name ─────────────────────────────────────────────────────────────────────────────────────


def find(session: Session, reference: str) -> Paper:
    """Return the paper somebody means: our id, an id of the world, an address, or the exact title.

    A paper that was merged into another gives that other. Raises NotFound with the nearest title.
    """
    wanted = reference.strip()
    for paper_id in candidates(session, wanted):
        current = resolve(session, [paper_id]).get(paper_id, paper_id)
        if found := papers(session, ids=[current]):
            return found[0]
    near = nearest_title(session, wanted)
    hint = f" Did you mean “{near}”?" if near else ""
    raise NotFound(f"There is no paper {reference!r} in the catalog.{hint}")


def candidates(session: Session, wanted: str) -> Iterator[int]:
    """Yield the ids of papers that `wanted` may mean, the likeliest first."""
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 18:
        yield int(wanted)
    for scheme, value in filter(None, keys_of(wanted)):
        owner = session.scalar(
            select(ALIAS.c.paper_id).where(ALIAS.c.scheme == scheme, ALIAS.c.value == value)
        )
        if owner is not None:
            yield owner
    titled = select(PAPER.c.id).where(PAPER.c.title == wanted, PAPER.c.merged_into.is_(None))
    yield from session.scalars(titled.limit(1))


def keys_of(wanted: str) -> Iterator[tuple[str, str] | None]:
    """Yield the ids that `wanted` can be read as."""
    yield id_in(wanted)
    scheme, separator, value = wanted.partition(":")
    if separator:
        yield normalised_id(scheme, value)
    yield normalised_id("arxiv", wanted)
    yield normalised_id("doi", wanted)
    yield "title", title_key(wanted)


def nearest_title(session: Session, wanted: str) -> str | None:
    """Return the title most like `wanted` among those that share its longest word."""
    words = sorted(title_key(wanted).split(), key=len, reverse=True)
    if not words or len(words[0]) < 3:
        return None
    query = select(PAPER.c.title).where(
        PAPER.c.merged_into.is_(None), func.lower(PAPER.c.title).contains(words[0], autoescape=True)
    )
    titles = session.scalars(query.order_by(PAPER.c.id.desc()).limit(200)).all()
    return next(iter(difflib.get_close_matches(wanted, titles, n=1, cutoff=0.4)), None)


def resolve(session: Session, ids: Collection[int]) -> dict[int, int]:
    """Return, for those of the papers that turned out to be another, which one."""
    found: dict[int, int] = {}
    for chunk in chunks(ids):
        query = select(PAPER.c.id, PAPER.c.merged_into).where(
            PAPER.c.id.in_(chunk), PAPER.c.merged_into.is_not(None)
        )
        found |= dict(session.execute(query).all())
    return found


# ── what was observed ───────────────────────────────────────────────────────────────────────────


def observed_at(session: Session, *, until: datetime) -> datetime | None:
    """Return the moment of the latest dump up to `until`: trending is computed for it, so that it repeats."""
    query = select(func.max(DUMP.c.observed_at)).where(
        DUMP.c.state == DumpState.LOADED.value, DUMP.c.observed_at <= until
    )
    latest: datetime | None = session.scalar(query)
    return latest


def evidence(session: Session, papers: Sequence[Paper], *, as_of: datetime) -> dict[int, Evidence]:
    """Return all that was observed of the papers up to `as_of`."""
    figures: dict[int, dict[str, list[tuple[datetime, float]]]] = defaultdict(lambda: defaultdict(list))
    places: dict[int, list[Place]] = defaultdict(list)
    posted: dict[int, Any] = {}
    for chunk in chunks([paper.id for paper in papers]):
        for row in session.execute(figures_of(chunk, as_of)):
            figures[row.paper_id][row.name].append((row.observed_at, row.value))
        for row in session.execute(places_of(chunk, as_of)):
            places[row.paper_id].append(
                Place(observed_at=row.observed_at, position=row.position, size=row.papers, order=row.order)
            )
        posted |= dict(
            session.execute(
                select(PAPER.c.id, PAPER.c.posted).where(PAPER.c.id.in_(chunk), PAPER.c.posted.is_not(None))
            ).all()
        )
    moments = dump_moments(session, as_of)
    return {
        paper.id: Evidence(
            first_seen_at=paper.first_seen_at,
            posted=posted.get(paper.id),
            published=paper.published,
            observations={name: tuple(seen) for name, seen in figures[paper.id].items()},
            appearances=tuple(places[paper.id]),
            n_dumps=max(1, len(moments) - bisect_left(moments, paper.first_seen_at)),
        )
        for paper in papers
    }


def figures_of(ids: Sequence[int], as_of: datetime) -> Select[Any]:
    """Return the query for the papers' figures, oldest first."""
    return (
        select(SIGNAL.c.paper_id, SIGNAL.c.name, SIGNAL.c.observed_at, SIGNAL.c.value)
        .where(SIGNAL.c.paper_id.in_(ids), SIGNAL.c.observed_at <= as_of)
        .order_by(SIGNAL.c.paper_id, SIGNAL.c.name, SIGNAL.c.observed_at, SIGNAL.c.source)
    )


def places_of(ids: Sequence[int], as_of: datetime) -> Select[Any]:
    """Return the query for where the papers stood in dumps, oldest first."""
    return (
        select(APPEARANCE.c.paper_id, APPEARANCE.c.position, DUMP.c.observed_at, DUMP.c.papers, DUMP.c.order)
        .join(DUMP, DUMP.c.id == APPEARANCE.c.dump_id)
        .where(APPEARANCE.c.paper_id.in_(ids), DUMP.c.observed_at <= as_of)
        .order_by(APPEARANCE.c.paper_id, DUMP.c.observed_at, DUMP.c.id)
    )


def dump_moments(session: Session, as_of: datetime) -> list[datetime]:
    """Return the moments of all dumps loaded up to `as_of`, in order."""
    query = select(DUMP.c.observed_at).where(
        DUMP.c.state == DumpState.LOADED.value, DUMP.c.observed_at <= as_of
    )
    return sorted(session.scalars(query))


def arrivals(session: Session, *, until: datetime) -> list[Arrival]:
    """Return when lists came with something new, from the folder and the sources that are on.

    A list that is held has come. One of an earlier day that was released later says nothing about the day
    of its release.
    """
    is_on = select(SourceRow.name).where(SourceRow.is_on)
    query = select(DUMP.c.source, DUMP.c.read_at, DUMP.c.date).where(
        DUMP.c.read_at > until - timedelta(weeks=WEEKS + 1),
        DUMP.c.read_at <= until,
        DUMP.c.is_history.is_(False),
        DUMP.c.is_sample.is_(False),
        (DUMP.c.state == DumpState.HELD.value)
        | ((DUMP.c.state == DumpState.LOADED.value) & (DUMP.c.new > 0)),
        (DUMP.c.source == "folder") | DUMP.c.source.in_(is_on),
    )
    return [
        Arrival(source=source, at=at)
        for source, at, day in session.execute(query)
        if day is None or (at.date() - day).days <= 1
    ]


def chunks(ids: Collection[int]) -> Iterator[list[int]]:
    """Yield the ids by hundreds, in order."""
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]
