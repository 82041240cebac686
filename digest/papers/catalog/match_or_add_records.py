"""Add records to the catalog in batches, storing a paper from several sources only once.

A record belongs to every paper that shares an id with it, and to the paper with the same strict title key,
unless their ids contradict each other. If a record belongs to two papers whose ids do not contradict each
other, they are merged: the older paper is kept, the newer paper permanently refers to it, and no reader who
was shown one of them is later shown the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sqlalchemy import Connection, Table, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import Alias, AppearanceRow, ChangeKind, ChangeRow, PaperRow, SignalRow
from digest.papers.catalog.alias_keys import TITLE_SCHEME, Key, ids_of_record, title_alias
from digest.papers.catalog.enrichment import (
    Row,
    change_detail,
    detect_changes,
    enrich_row,
    is_journal,
    is_publication,
    paper_row,
)
from digest.papers.catalog.merge_papers import merge_into
from digest.papers.catalog.other_versions import note_earlier_versions
from digest.papers.paper_record import Record

PAPER_TABLE, ALIAS_TABLE = cast(Table, PaperRow.__table__), cast(Table, Alias.__table__)
APPEARANCE_TABLE, SIGNAL_TABLE = cast(Table, AppearanceRow.__table__), cast(Table, SignalRow.__table__)

CATALOG_LOCK_ID = 0xD16E57  #: the id of the advisory lock that allows one catalog writer at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogCounts:
    """Counts of new, updated and unchanged papers in a batch; a paper listed twice in a dump counts once."""

    new: int = 0
    updated: int = 0
    unchanged: int = 0

    def __add__(self, other: CatalogCounts) -> CatalogCounts:
        return CatalogCounts(**{name: each + getattr(other, name) for name, each in asdict(self).items()})


def add(session: Session, records: Sequence[Record], *, dump: DumpRow, first: int = 1) -> CatalogCounts:
    """Store a batch of hundreds of records and their appearances in `dump`; return the counts of papers.

    `first` is the position of the first record in the dump. Storing the same batch again changes nothing.
    """
    if not records:
        return CatalogCounts()
    session.flush()
    lock_catalog_writes(session)
    batch = CatalogBatch(session, dump)
    titled = [(record, title_alias(record)) for record in records]
    batch.gather(titled)
    for position, (record, title) in enumerate(titled, first):
        batch.assign_record(record, title, position)
    batch.write()
    return batch.tally()


def lock_catalog_writes(session: Session) -> None:
    """Wait until no other transaction writes papers; then exclude others until this transaction ends."""
    db.lock(session, CATALOG_LOCK_ID)


@dataclass(slots=True)
class BatchPaper:
    """A paper in a batch: its row, its ids, and flags for the data that must be written."""

    id: int  #: the paper's id, or a negative number until the paper has a row
    row: Row
    ids: dict[str, set[str]] = field(default_factory=dict)
    is_changed: bool = False  #: whether the paper's row has changed
    has_new_fields: bool = False  #: whether the row, the ids or the signals have changed
    is_already_in_dump: bool = False  #: whether an earlier batch of this dump contained the paper

    def contradicts(self, ids: Iterable[Key]) -> bool:
        """Return whether one of the ids differs from this paper's id of the same scheme."""
        return any(scheme in self.ids and value not in self.ids[scheme] for scheme, value in ids)

    def keys(self) -> Iterator[Key]:
        """Yield all ids of the paper as (scheme, value)."""
        return ((scheme, value) for scheme, values in self.ids.items() for value in values)


class CatalogBatch:
    """A batch of records whose papers are fetched in a few queries and written in a few statements."""

    def __init__(self, session: Session, dump: DumpRow):
        self.session = session
        self.connection: Connection = session.connection()
        self.dump = dump
        self.papers: dict[int, BatchPaper] = {}
        self.paper_by_id: dict[Key, int] = {}  #: {alias: paper}
        self.aliases: dict[Key, int] = {}  #: aliases to write
        self.appearances: dict[int, tuple[int, int]] = {}  #: {paper: (position, line)}, in order
        self.signals: dict[tuple[int, str], float] = {}
        self.latest: dict[tuple[int, str], float] = {}
        self.merged: dict[int, int] = {}
        self.changes: dict[tuple[int, ChangeKind], str] = {}  #: {(paper, kind of change): detail}
        self.created = 0  #: number of papers created in this batch

    # ── gather ──────────────────────────────────────────────────────────────────────────────────

    def gather(self, titled: Sequence[tuple[Record, Key | None]]) -> None:
        """Fetch every paper that a record of the batch might belong to."""
        keys: dict[str, set[str]] = {}
        for record, title in titled:
            for scheme, value in (*record.ids.items(), *([title] if title else [])):
                keys.setdefault(scheme, set()).add(value)
        for scheme, values in keys.items():
            query = select(ALIAS_TABLE.c.value, ALIAS_TABLE.c.paper_id).where(
                ALIAS_TABLE.c.scheme == scheme, db.one_of(ALIAS_TABLE.c.value, sorted(values))
            )
            self.paper_by_id |= {(scheme, value): paper for value, paper in self.connection.execute(query)}
        if ids := sorted(set(self.paper_by_id.values())):
            self.gather_papers(ids)
            if any(record.signals for record, _ in titled):
                self.gather_signals(ids)

    def gather_papers(self, ids: Sequence[int]) -> None:
        """Fetch the papers' rows, their ids and their appearances in this dump."""
        for row in self.connection.execute(
            select(PAPER_TABLE).where(db.one_of(PAPER_TABLE.c.id, ids))
        ).mappings():
            columns = dict(row)
            self.papers[row["id"]] = BatchPaper(columns.pop("id"), columns)
        query = select(ALIAS_TABLE.c.paper_id, ALIAS_TABLE.c.scheme, ALIAS_TABLE.c.value)
        for paper, scheme, value in self.connection.execute(
            query.where(db.one_of(ALIAS_TABLE.c.paper_id, ids))
        ):
            self.paper_by_id[scheme, value] = paper
            if scheme != TITLE_SCHEME:
                self.papers[paper].ids.setdefault(scheme, set()).add(value)
        here = select(APPEARANCE_TABLE.c.paper_id).where(
            APPEARANCE_TABLE.c.dump_id == self.dump.id, db.one_of(APPEARANCE_TABLE.c.paper_id, ids)
        )
        for paper in self.connection.scalars(here):
            self.papers[paper].is_already_in_dump = True

    def gather_signals(self, ids: Sequence[int]) -> None:
        """Fetch the latest value of each signal, to detect changed values."""
        query = (
            select(SIGNAL_TABLE.c.paper_id, SIGNAL_TABLE.c.name, SIGNAL_TABLE.c.value)
            .where(db.one_of(SIGNAL_TABLE.c.paper_id, ids), SIGNAL_TABLE.c.source == self.dump.source)
            .order_by(SIGNAL_TABLE.c.observed_at)
        )
        self.latest |= {(paper, name): value for paper, name, value in self.connection.execute(query)}

    # ── decide ──────────────────────────────────────────────────────────────────────────────────

    def assign_record(self, record: Record, title: Key | None, position: int) -> None:
        """Find or create the paper of a record and add the record's data to it."""
        row = paper_row(
            record,
            first_seen_at=self.dump.seen_at or self.dump.observed_at,
            is_history=self.dump.is_history,
            is_sample=self.dump.is_sample,
        )
        paper = self.find_paper(record, title)
        if paper is None:
            self.created += 1
            paper = BatchPaper(-self.created, row, has_new_fields=True)
            self.papers[paper.id] = paper
        else:
            self.enrich(paper, row)
        for key in (*record.ids.items(), *([title] if title else [])):
            self.claim_id(paper, key)
        self.note_observation(paper, record, position)

    def find_paper(self, record: Record, title: Key | None) -> BatchPaper | None:
        """Return the paper that a record belongs to, or None; merge the papers if there are several."""
        keys = ids_of_record(record)
        found = [self.paper_by_id[key] for key in keys if key in self.paper_by_id]
        if title in self.paper_by_id and not self.papers[self.paper_by_id[title]].contradicts(keys):
            found.append(self.paper_by_id[title])
        if not found:
            return None
        paper = self.papers[found[0]]
        for other in dict.fromkeys(found):
            if other != paper.id and not paper.contradicts(self.papers[other].keys()):
                paper = self.merge(paper, self.papers[other])
        return paper

    def merge(self, one: BatchPaper, other: BatchPaper) -> BatchPaper:
        """Merge two papers and return the older paper."""
        elder, younger = sorted((one, other), key=age_key)
        self.enrich(elder, younger.row)
        for value in younger.ids.get("doi", ()):
            self.note_publication(elder, value)
        for scheme, values in younger.ids.items():
            elder.ids.setdefault(scheme, set()).update(values)
        elder.is_already_in_dump = elder.is_already_in_dump or younger.is_already_in_dump
        elder.has_new_fields = True
        for owned in (self.paper_by_id, self.aliases):
            owned.update({key: elder.id for key, owner in owned.items() if owner == younger.id})
        if younger.id in self.appearances:
            self.appearances.setdefault(elder.id, self.appearances.pop(younger.id))
        for paper, name in [key for key in self.signals if key[0] == younger.id]:
            self.signals.setdefault((elder.id, name), self.signals.pop((paper, name)))
        del self.papers[younger.id]
        if younger.id > 0:
            self.merged[younger.id] = elder.id
        return elder

    def enrich(self, paper: BatchPaper, row: Row) -> None:
        """Update the paper with the better values of another row, and record what changed."""
        better = enrich_row(paper.row, row)
        if better != paper.row:
            for kind, detail in detect_changes(paper.row, better, row):
                self.note_change(paper, kind, detail)
            paper.row = better
            paper.is_changed = paper.has_new_fields = True

    def note_change(self, paper: BatchPaper, kind: ChangeKind, detail: str) -> None:
        """Record a change of a previously stored paper, unless the dump is loaded as history."""
        if paper.id > 0 and not self.dump.is_history:
            self.changes.setdefault((paper.id, kind), detail)

    def note_publication(self, paper: BatchPaper, doi: str) -> None:
        """Record that a paper was published if this DOI is the first evidence of its publication."""
        if "doi" not in paper.ids and is_publication(doi) and not is_journal(paper.row["journal"]):
            self.note_change(paper, ChangeKind.PUBLISHED, f"doi:{doi}")

    def claim_id(self, paper: BatchPaper, key: Key) -> None:
        """Assign an id to the paper, unless the id belongs to another paper."""
        if key in self.paper_by_id:
            return
        if key[0] == "doi":
            self.note_publication(paper, key[1])
        self.paper_by_id[key] = self.aliases[key] = paper.id
        paper.has_new_fields = True
        if key[0] != TITLE_SCHEME:
            paper.ids.setdefault(key[0], set()).add(key[1])

    def note_observation(self, paper: BatchPaper, record: Record, position: int) -> None:
        """Record the paper's first position in the dump and its signals."""
        self.appearances.setdefault(paper.id, (position, record.line))
        for name, value in record.signals.items():
            self.signals.setdefault((paper.id, name), value)
            if self.latest.get((paper.id, name)) != value:
                paper.has_new_fields = True

    # ── write ───────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        """Write new rows, changed rows, merges, aliases, appearances, signals and changes."""
        fresh = [paper for paper in self.papers.values() if paper.id < 0]
        keys = db.reserve_keys(self.session, PaperRow, len(fresh))
        ids = dict(zip((paper.id for paper in fresh), keys, strict=True))
        db.load_rows(self.session, PaperRow, [{"id": ids[paper.id], **paper.row} for paper in fresh])
        self.note_versions({ids[paper.id]: paper.row for paper in fresh})
        changed = [paper for paper in self.papers.values() if paper.id > 0 and paper.is_changed]
        db.update_many(self.session, PaperRow, [{"id": paper.id, **paper.row} for paper in changed])
        for younger, elder in self.merged.items():
            merge_into(self.session, younger, self.survivor(elder))
        db.load_rows(
            self.session,
            Alias,
            [
                {"scheme": scheme, "value": value, "paper_id": ids.get(paper, paper)}
                for (scheme, value), paper in self.aliases.items()
            ],
        )
        db.load_rows(
            self.session,
            AppearanceRow,
            [
                {"dump_id": self.dump.id, "paper_id": ids.get(paper, paper), "position": place, "line": line}
                for paper, (place, line) in self.appearances.items()
                if not self.papers[paper].is_already_in_dump
            ],
        )
        self.write_signals(ids)
        self.write_changes()

    def note_versions(self, new: dict[int, Row]) -> None:
        """Store the earlier versions of new papers; a journal's paper is an update to its preprint."""
        news = {number: row for number, row in new.items() if not row["is_history"] and not row["summary_by"]}
        for number, earlier in note_earlier_versions(self.session, news):
            if is_journal(journal := news[number]["journal"]):
                self.changes.setdefault((earlier, ChangeKind.PUBLISHED), change_detail(journal))

    def survivor(self, paper: int) -> int:
        """Return the id of the paper that `paper` was finally merged into."""
        while paper in self.merged:
            paper = self.merged[paper]
        return paper

    def write_signals(self, ids: dict[int, int]) -> None:
        """Write the signals observed at the dump's timestamp, replacing values stored for that timestamp."""
        if not self.signals:
            return
        statement = db.upsert(self.session, SignalRow)
        rows = [
            {
                "paper_id": ids.get(paper, paper),
                "source": self.dump.source,
                "name": name,
                "observed_at": self.dump.observed_at,
                "value": value,
            }
            for (paper, name), value in self.signals.items()
        ]
        self.connection.execute(
            statement.on_conflict_do_update(
                index_elements=["paper_id", "source", "name", "observed_at"],
                set_={"value": statement.excluded.value},
            ),
            rows,
        )

    def write_changes(self) -> None:
        """Write the changes of papers; for each paper, only the first change of each kind is stored."""
        rows = [
            {"paper_id": self.survivor(paper), "kind": kind, "detail": detail}
            for (paper, kind), detail in self.changes.items()
        ]
        shared = {"seen_at": self.dump.seen_at or self.dump.observed_at}
        db.insert_many(self.session, ChangeRow, rows, shared=shared, key=("paper_id", "kind"))

    def tally(self) -> CatalogCounts:
        """Count the new, updated and unchanged papers of the batch."""
        counted = [
            self.papers[paper] for paper in self.appearances if not self.papers[paper].is_already_in_dump
        ]
        new = sum(paper.id < 0 for paper in counted)
        updated = sum(paper.id > 0 and paper.has_new_fields for paper in counted)
        return CatalogCounts(new=new, updated=updated, unchanged=len(counted) - new - updated)


def age_key(paper: BatchPaper) -> tuple[bool, Any, int]:
    """Return a sort key for papers from old to new: stored papers by first sighting, then new papers."""
    return paper.id < 0, paper.row["first_seen_at"], abs(paper.id)
