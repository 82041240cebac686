"""Find the earlier versions of new papers whose titles changed, such as the preprint of a journal's paper.

The papers are not merged. A reader who was shown one version is not shown the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.papers import AbstractShingle, EarlierVersion, PaperRow
from digest.papers.catalog.enrichment import Row
from digest.papers.same_work import MIN_SHARED_SHINGLES, Work, is_same_work, stored_shingles

MAX_HOLDERS = 20  #: a shingle in more papers than this is a common phrase

SHINGLES: Any = AbstractShingle.__table__
VERSIONS: Any = EarlierVersion.__table__
PAPERS: Any = PaperRow.__table__


def note_earlier_versions(session: Session, new: Mapping[int, Row]) -> list[tuple[int, int]]:
    """Find and store the earlier versions of new papers; return pairs (new paper, earlier paper)."""
    shingles = {number: stored_shingles(row["abstract"]) for number, row in new.items()}
    db.load_rows(
        session,
        AbstractShingle,
        [{"hash": each, "paper_id": number} for number, some in shingles.items() for each in sorted(some)],
    )
    candidates = sorted(similar_papers(session, shingles))
    works = load_works(session, {number for pair in candidates for number in pair})
    pairs = [(one, other) for one, other in candidates if is_same_work(works[one], works[other])]
    db.load_rows(session, EarlierVersion, [{"paper_id": one, "earlier_id": other} for one, other in pairs])
    return pairs


def similar_papers(session: Session, shingles: Mapping[int, Collection[int]]) -> Iterator[tuple[int, int]]:
    """Yield pairs (new paper, earlier paper) of papers that share enough stored shingles."""
    holders: dict[int, list[int]] = defaultdict(list)
    wanted = sorted({each for some in shingles.values() for each in some})
    query = select(SHINGLES.c.hash, SHINGLES.c.paper_id).where(db.one_of(SHINGLES.c.hash, wanted))
    for each, number in session.connection().execute(query) if wanted else ():
        holders[each].append(number)
    for number, some in shingles.items():
        shared = Counter(
            other
            for each in some
            if len(holders[each]) <= MAX_HOLDERS
            for other in holders[each]
            if other < number
        )
        yield from ((number, other) for other, count in shared.items() if count >= MIN_SHARED_SHINGLES)


def load_works(session: Session, numbers: Collection[int]) -> dict[int, Work]:
    """Return what is compared of these papers."""
    columns = PAPERS.c.id, PAPERS.c.title, PAPERS.c.abstract, PAPERS.c.authors
    query = select(*columns).where(db.one_of(PAPERS.c.id, sorted(numbers)))
    rows = session.connection().execute(query) if numbers else ()
    return {row.id: Work(title=row.title, abstract=row.abstract, authors=row.authors) for row in rows}


def earlier_versions(session: Session, *, since_id: int) -> Mapping[int, frozenset[int]]:
    """Return {paper: its earlier versions} for the papers from `since_id` on."""
    found: dict[int, set[int]] = defaultdict(set)
    query = select(VERSIONS.c.paper_id, VERSIONS.c.earlier_id).where(VERSIONS.c.paper_id >= since_id)
    for paper, earlier in session.connection().execute(query):
        found[paper].add(earlier)
    return {paper: frozenset(some) for paper, some in found.items()}


def delete_old_shingles(session: Session, *, before: datetime) -> int:
    """Delete the shingles of papers first seen before `before`; return their number."""
    oldest = select(func.min(PAPERS.c.id)).where(PAPERS.c.first_seen_at >= before).scalar_subquery()
    return session.connection().execute(delete(SHINGLES).where(SHINGLES.c.paper_id < oldest)).rowcount
