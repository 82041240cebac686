"""Filters as people write them: read with the catalog and the packs at hand, and stored once for everybody.

What is kept is what was written, in its canonical form. A filter that uses packs is stored beside what
it stands for now, which is a filter of its own: papers are matched against that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import catalog, db, packs, topics
from digest.model import FilterRow, Meaning
from digest.topics import Filter, Shelf

REMEMBERED = 65_536  #: filters that books remember to have read


class Books:
    """The catalog and the packs, opened to read filters with; what was read is remembered."""

    def __init__(self, session: Session):
        self.session = session
        self.canonical = lru_cache(maxsize=REMEMBERED)(self.read_canonical)

    @cached_property
    def shelf(self) -> Shelf:
        """Return the published packs."""
        return packs.shelf(self.session)

    def plain(self, text: str) -> str:
        """Return a filter with every `like:PAPER` in the paper's own words."""
        return topics.likened(text, lambda reference: catalog.find(self.session, reference))

    def read(self, text: str) -> Filter:
        """Return the filter that `text` spells, its packs by their names; raises BadFilter."""
        return topics.parse(self.plain(text))

    def resolved(self, filter_: Filter) -> Filter:
        """Return a filter with what its packs stand for; raises BadFilter."""
        return topics.resolved(filter_, self.shelf) if filter_.uses else filter_

    def whole(self, text: str) -> Filter:
        """Return the filter to match papers against; raises BadFilter."""
        return self.resolved(self.read(text))

    def read_canonical(self, text: str) -> str:
        """Return the canonical form of a filter that can be held; raises BadFilter."""
        filter_ = self.read(text)
        self.resolved(filter_)
        return filter_.canonical

    def meanings(self, filter_: Filter) -> Mapping[str, str]:
        """Return what each pack in a filter stands for, by its name and version."""
        return topics.meanings(filter_, self.shelf) if filter_.uses else {}


def name_of(reference: str) -> str:
    """Return what a topic is called that is a filter of a pack, `lab/nlp` or `lab/nlp@3`, and no more."""
    return reference.partition("@")[0]


def is_pack(name: str, canonical: str) -> bool:
    """Return whether a topic is a filter of a pack and no more, and called by it."""
    return canonical.startswith("use:") and " " not in canonical and name == name_of(canonical[4:])


def filter_id(session: Session, canonical: str) -> int:
    """Return the id of a canonical filter, which is stored if nobody held it before."""
    return filter_ids(session, [canonical])[canonical]


def filter_ids(session: Session, canonicals: Collection[str]) -> dict[str, int]:
    """Return the ids of canonical filters, storing those that nobody held before."""
    if not canonicals:
        return {}
    distinct = sorted(set(canonicals))  # sorted: two that store the same ones wait in the same order
    found = stored(session, distinct)
    missing = [text for text in distinct if text not in found]
    if missing:
        put(session, missing)
        found = stored(session, distinct)
    return found


FILTER: Any = FilterRow.__table__
STORED = select(FILTER.c.canonical, FILTER.c.id).where(
    db.among(FILTER.c.canonical, db.many("canonicals", FILTER.c.canonical))
)


def stored(session: Session, canonicals: Sequence[str]) -> dict[str, int]:
    """Return the ids of those canonical filters that are stored."""
    found = session.connection().execute(STORED, {"canonicals": canonicals})
    return {row[0]: row[1] for row in found}


def put(session: Session, canonicals: Sequence[str]) -> None:
    """Store filters, each that uses packs beside what it stands for."""
    shared = [text for text in canonicals if "use:" in text]
    meanings = meanings_of(session, shared) if shared else {}
    rows = [{"canonical": text} for text in sorted({*canonicals, *meanings.values()})]
    db.put_many(session, FilterRow, rows, key=("canonical",))
    if meanings:
        put_meanings(session, meanings)


def meanings_of(session: Session, canonicals: Sequence[str]) -> dict[str, str]:
    """Return what canonical filters stand for, those without packs left out; no pack changes meanwhile."""
    packs.hold(session)
    books = Books(session)
    parsed = [topics.parse(text) for text in canonicals]
    return {one.canonical: books.resolved(one).canonical for one in parsed if one.uses}


def put_meanings(session: Session, meanings: Mapping[str, str]) -> None:
    """Keep what filters stand for; all of them are stored."""
    ids = stored(session, sorted({*meanings, *meanings.values()}))
    rows = [
        {"filter_id": ids[written], "stands_for_id": ids[meant]}
        for written, meant in sorted(meanings.items())
    ]
    adding = db.upsert(session, Meaning)
    changing = adding.on_conflict_do_update(
        index_elements=["filter_id"], set_={"stands_for_id": adding.excluded.stands_for_id}
    )
    session.execute(changing, rows)
