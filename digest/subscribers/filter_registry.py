"""Parse filters that may refer to papers and packs, and store each filter once for all subscribers.

A filter is stored in its canonical form. A filter that uses packs is stored together with the filter to
which it currently resolves; papers are matched against the resolved filter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import ExampleRow, FilterRow, ResolvedFilter, filter_fingerprint
from digest.papers.catalog import queries
from digest.subscribers import stored_packs
from digest.topics import example_words, filter_parser, pack_resolution
from digest.topics.clauses.text_words import MAX_CHARACTERS
from digest.topics.filter_parser import Filter
from digest.topics.pack_resolution import PackVersions

REMEMBERED = 65_536  #: maximum number of filters whose canonical form is cached


class FilterRegistry:
    """Parses filters that may refer to papers and packs, and caches their canonical forms."""

    def __init__(self, session: Session):
        self.session = session
        self.canonical = lru_cache(maxsize=REMEMBERED)(self.read_canonical)

    @cached_property
    def packs(self) -> PackVersions:
        """Return the published packs, keyed by name and version."""
        return stored_packs.load_packs(self.session)

    def words_of(self, reference: str) -> str:
        """Return the words of an example: as they are stored, or else those of the paper in the catalog."""
        stored = self.session.get(ExampleRow, reference)
        return stored.words if stored else example_words.words_of_paper(queries.find(self.session, reference))

    def read(self, text: str) -> Filter:
        """Parse a filter without resolving references to packs; raise BadFilter if it is invalid."""
        is_short = len(example_words.without_words(text)) <= MAX_CHARACTERS
        return filter_parser.parse(example_words.with_words(text, self.words_of) if is_short else text)

    def resolve(self, filter_: Filter) -> Filter:
        """Return a filter with its pack references resolved; raise BadFilter if one cannot be resolved."""
        return pack_resolution.resolve_filter(filter_, self.packs) if filter_.uses else filter_

    def resolve_text(self, text: str) -> Filter:
        """Parse a filter and resolve its pack references; raise BadFilter if either fails."""
        return self.resolve(self.read(text))

    def read_canonical(self, text: str) -> str:
        """Return the stored form of a filter; raise BadFilter if it is invalid or cannot be resolved."""
        filter_ = self.read(text)
        self.resolve(filter_)
        return filter_.stored

    def resolved_packs(self, filter_: Filter) -> Mapping[str, str]:
        """Return {pack reference with version: resolved filter} for the packs that a filter uses."""
        return pack_resolution.resolved_uses(filter_, self.packs) if filter_.uses else {}


def topic_name_of_pack(reference: str) -> str:
    """Return the topic name for a pack reference: `lab/nlp` for both `lab/nlp` and `lab/nlp@3`."""
    return reference.partition("@")[0]


def is_pack_topic(name: str, canonical: str) -> bool:
    """Return whether a topic consists only of a pack reference and is named after the pack."""
    return canonical.startswith("use:") and " " not in canonical and name == topic_name_of_pack(canonical[4:])


def filter_ids(session: Session, canonicals: Collection[str]) -> dict[str, int]:
    """Return the ids of canonical filters; store the new ones first."""
    if not canonicals:
        return {}
    distinct = sorted({*canonicals})  # sorted, so that all transactions lock the filters in the same order
    found = stored_filter_ids(session, distinct)
    missing = [text for text in distinct if text not in found]
    if missing:
        store_filters(session, missing)
        found = stored_filter_ids(session, distinct)
    return found


FILTER: Any = FilterRow.__table__
STORED = select(FILTER.c.fingerprint, FILTER.c.id).where(
    db.one_of(FILTER.c.fingerprint, db.values_param("fingerprints", FILTER.c.fingerprint))
)


def stored_filter_ids(session: Session, canonicals: Sequence[str]) -> dict[str, int]:
    """Return {canonical filter: id} for the filters that are already stored."""
    by_fingerprint = {filter_fingerprint(text): text for text in canonicals}
    found = session.connection().execute(STORED, {"fingerprints": list(by_fingerprint)})
    return {by_fingerprint[row[0]]: row[1] for row in found}


def canonical_filters(session: Session, ids: Collection[int]) -> dict[int, str]:
    """Return {id: canonical filter} for these ids."""
    found = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(ids)))
    return {row.id: row.canonical for row in found}


def store_filters(session: Session, canonicals: Sequence[str]) -> None:
    """Store filters and the words of their examples.

    For each filter that uses packs, the filter to which it now resolves is also stored.
    """
    shared = [text for text in canonicals if "use:" in text]
    resolved = resolve_canonicals(session, shared) if shared else {}
    texts = sorted({*canonicals, *resolved.values()})
    rows = [{"canonical": text, "fingerprint": filter_fingerprint(text)} for text in texts]
    db.insert_many(session, FilterRow, rows, key=("fingerprint",))
    examples = {name: words for text in canonicals for name, words in example_words.examples_in(text)}
    named = [{"reference": name, "words": words} for name, words in sorted(examples.items())]
    db.insert_many(session, ExampleRow, named, key=("reference",))
    if resolved:
        store_resolved_filters(session, resolved)


def resolve_canonicals(session: Session, canonicals: Sequence[str]) -> dict[str, str]:
    """Return {canonical filter: resolved filter} for filters that use packs.

    Packs are locked against changes until the commit.
    """
    db.lock_shared(session, stored_packs.LOCK)
    registry = FilterRegistry(session)
    parsed = [filter_parser.parse(text) for text in canonicals]
    return {one.stored: registry.resolve(one).stored for one in parsed if one.uses}


def store_resolved_filters(session: Session, resolved: Mapping[str, str]) -> None:
    """Record which stored filter each filter in `resolved` resolves to; both must already be stored."""
    ids = stored_filter_ids(session, sorted({*resolved, *resolved.values()}))
    rows = [
        {"filter_id": ids[written], "resolved_filter_id": ids[target]}
        for written, target in sorted(resolved.items())
    ]
    adding = db.upsert(session, ResolvedFilter)
    changing = adding.on_conflict_do_update(
        index_elements=["filter_id"], set_={"resolved_filter_id": adding.excluded.resolved_filter_id}
    )
    session.execute(changing, rows)
