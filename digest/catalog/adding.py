"""Putting records into the catalog: one paper whatever its source, a few statements a batch.

A record belongs to the paper that shares an id with it; failing that, to the paper with the same
strict title key, unless their ids contradict each other. A record that ties two papers together
makes them one: the elder stays, the other points to it for ever, and nobody is shown it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Connection, Table, bindparam, select, text, update
from sqlalchemy.orm import Session

from digest import db
from digest.catalog.changing import changes, is_journal, is_publication
from digest.catalog.enriching import Row, enriched, row_of
from digest.catalog.keys import TITLE, Key, keys_of, title_alias
from digest.catalog.merging import repoint
from digest.catalog.storing import insert, take_ids
from digest.model import Alias, Appearance, ChangeKind, ChangeRow, DumpRow, PaperRow, SignalRow
from digest.papers import Record

PAPER, ALIAS = cast(Table, PaperRow.__table__), cast(Table, Alias.__table__)
APPEARANCE, SIGNAL = cast(Table, Appearance.__table__), cast(Table, SignalRow.__table__)

LOCK = 0xD16E57  #: one writer of the catalog at a time: the advisory lock's number


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What became of the records of a batch; a paper twice in one dump counts once."""

    new: int = 0
    updated: int = 0
    unchanged: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            new=self.new + other.new,
            updated=self.updated + other.updated,
            unchanged=self.unchanged + other.unchanged,
        )


def add(session: Session, records: Sequence[Record], *, dump: DumpRow) -> Tally:
    """Store a batch of records (hundreds at a time), and that they stood in `dump`.

    Storing the same batch again changes nothing.
    """
    if not records:
        return Tally()
    session.flush()
    one_at_a_time(session)
    batch = Batch(session, dump)
    titled = [(record, title_alias(record)) for record in records]
    batch.gather(titled)
    for record, title in titled:
        batch.place(record, title)
    batch.write()
    return batch.tally()


def one_at_a_time(session: Session) -> None:
    """Wait until no other transaction writes papers: on SQLite the transaction itself sees to it."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


@dataclass(slots=True)
class Known:
    """A paper as the batch knows it: its row, its ids, and what will have to be written of it."""

    id: int  #: negative until the paper has a row
    row: Row
    ids: dict[str, set[str]] = field(default_factory=dict)
    is_changed: bool = False  #: its row
    is_richer: bool = False  #: its row, its ids or its figures
    is_told: bool = False  #: it already stood in this dump before this batch

    def contradicts(self, ids: Iterable[Key]) -> bool:
        """Return whether one of the ids is another than this paper's of the same scheme."""
        return any(scheme in self.ids and value not in self.ids[scheme] for scheme, value in ids)

    def keys(self) -> Iterator[Key]:
        """Yield all its ids."""
        return ((scheme, value) for scheme, values in self.ids.items() for value in values)


class Batch:
    """One batch: gathered in a few queries, decided in memory, written in a few statements."""

    def __init__(self, session: Session, dump: DumpRow):
        self.session = session
        self.connection: Connection = session.connection()
        self.dump = dump
        self.papers: dict[int, Known] = {}
        self.owners: dict[Key, int] = {}  #: alias to paper
        self.aliases: dict[Key, int] = {}  #: those to be written
        self.appearances: dict[int, tuple[int, int]] = {}  #: paper to (position, line), in order
        self.signals: dict[tuple[int, str], float] = {}
        self.latest: dict[tuple[int, str], float] = {}
        self.merged: dict[int, int] = {}
        self.changes: dict[tuple[int, ChangeKind], str] = {}  #: what became of stored papers
        self.begun = 0  #: papers begun in this batch

    # ── gather ──────────────────────────────────────────────────────────────────────────────────

    def gather(self, titled: Sequence[tuple[Record, Key | None]]) -> None:
        """Fetch every paper that a record of the batch might belong to."""
        wanted: dict[str, set[str]] = {}
        for record, title in titled:
            for scheme, value in (*record.ids.items(), *([title] if title else [])):
                wanted.setdefault(scheme, set()).add(value)
        for scheme, values in wanted.items():
            query = select(ALIAS.c.value, ALIAS.c.paper_id).where(
                ALIAS.c.scheme == scheme, db.among(ALIAS.c.value, sorted(values))
            )
            self.owners |= {(scheme, value): paper for value, paper in self.connection.execute(query)}
        if ids := sorted(set(self.owners.values())):
            self.gather_papers(ids)
            if any(record.signals for record, _ in titled):
                self.gather_signals(ids)

    def gather_papers(self, ids: Sequence[int]) -> None:
        """Fetch rows, ids and appearances in this dump."""
        for row in self.connection.execute(select(PAPER).where(db.among(PAPER.c.id, ids))).mappings():
            columns = dict(row)
            self.papers[row["id"]] = Known(columns.pop("id"), columns)
        query = select(ALIAS.c.paper_id, ALIAS.c.scheme, ALIAS.c.value)
        for paper, scheme, value in self.connection.execute(query.where(db.among(ALIAS.c.paper_id, ids))):
            self.owners[scheme, value] = paper
            if scheme != TITLE:
                self.papers[paper].ids.setdefault(scheme, set()).add(value)
        here = select(APPEARANCE.c.paper_id).where(
            APPEARANCE.c.dump_id == self.dump.id, db.among(APPEARANCE.c.paper_id, ids)
        )
        for paper in self.connection.scalars(here):
            self.papers[paper].is_told = True

    def gather_signals(self, ids: Sequence[int]) -> None:
        """Fetch the latest figure of each signal, to tell a change from a repetition."""
        query = (
            select(SIGNAL.c.paper_id, SIGNAL.c.name, SIGNAL.c.value)
            .where(db.among(SIGNAL.c.paper_id, ids), SIGNAL.c.source == self.dump.source)
            .order_by(SIGNAL.c.observed_at)
        )
        self.latest |= {(paper, name): value for paper, name, value in self.connection.execute(query)}

    # ── decide ──────────────────────────────────────────────────────────────────────────────────

    def place(self, record: Record, title: Key | None) -> None:
        """Find the paper a record belongs to, or begin one, and note what it adds."""
        row = row_of(
            record,
            first_seen_at=self.dump.seen_at or self.dump.observed_at,
            is_history=self.dump.is_history,
            is_sample=self.dump.is_sample,
        )
        paper = self.paper_of(record, title)
        if paper is None:
            self.begun += 1
            paper = Known(-self.begun, row, is_richer=True)
            self.papers[paper.id] = paper
        else:
            self.enrich(paper, row)
        for key in (*record.ids.items(), *([title] if title else [])):
            self.claim(paper, key)
        self.observe(paper, record)

    def paper_of(self, record: Record, title: Key | None) -> Known | None:
        """Return the paper a record belongs to, made one where the record ties several together."""
        keys = keys_of(record)
        found = [self.owners[key] for key in keys if key in self.owners]
        if title in self.owners and not self.papers[self.owners[title]].contradicts(keys):
            found.append(self.owners[title])
        if not found:
            return None
        paper = self.papers[found[0]]
        for other in dict.fromkeys(found[1:]):
            if other != paper.id and not paper.contradicts(self.papers[other].keys()):
                paper = self.merge(paper, self.papers[other])
        return paper

    def merge(self, one: Known, other: Known) -> Known:
        """Make two papers one; the elder stays."""
        elder, younger = sorted((one, other), key=seniority)
        self.enrich(elder, younger.row)
        for value in younger.ids.get("doi", ()):
            self.note_doi(elder, value)
        for scheme, values in younger.ids.items():
            elder.ids.setdefault(scheme, set()).update(values)
        elder.is_told = elder.is_told or younger.is_told
        elder.is_richer = True
        for owned in (self.owners, self.aliases):
            owned.update({key: elder.id for key, owner in owned.items() if owner == younger.id})
        if younger.id in self.appearances:
            self.appearances.setdefault(elder.id, self.appearances.pop(younger.id))
        for paper, name in [key for key in self.signals if key[0] == younger.id]:
            self.signals.setdefault((elder.id, name), self.signals.pop((paper, name)))
        del self.papers[younger.id]
        if younger.id > 0:
            self.merged[younger.id] = elder.id
        return elder

    def enrich(self, paper: Known, row: Row) -> None:
        """Add what another row knows better."""
        better = enriched(paper.row, row)
        if better != paper.row:
            for kind, says in changes(paper.row, better, row):
                self.note(paper, kind, says)
            paper.row = better
            paper.is_changed = paper.is_richer = True

    def note(self, paper: Known, kind: ChangeKind, says: str) -> None:
        """Note what became of a paper that was stored before; what history tells is no news."""
        if paper.id > 0 and not self.dump.is_history:
            self.changes.setdefault((paper.id, kind), says)

    def note_doi(self, paper: Known, doi: str) -> None:
        """Note that a paper is published, if this is the first that says so."""
        if "doi" not in paper.ids and is_publication(doi) and not is_journal(paper.row["journal"]):
            self.note(paper, ChangeKind.PUBLISHED, f"doi:{doi}")

    def claim(self, paper: Known, key: Key) -> None:
        """Note that an id belongs to the paper, unless it belongs to another."""
        if key in self.owners:
            return
        if key[0] == "doi":
            self.note_doi(paper, key[1])
        self.owners[key] = self.aliases[key] = paper.id
        paper.is_richer = True
        if key[0] != TITLE:
            paper.ids.setdefault(key[0], set()).add(key[1])

    def observe(self, paper: Known, record: Record) -> None:
        """Note where the paper stands in the dump, the first time, and its figures."""
        self.appearances.setdefault(paper.id, (record.position, record.line))
        for name, value in record.signals.items():
            self.signals.setdefault((paper.id, name), value)
            if self.latest.get((paper.id, name)) != value:
                paper.is_richer = True

    # ── write ───────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        """Write everything decided: new rows, changed rows, merges, aliases, appearances, signals."""
        fresh = [paper for paper in self.papers.values() if paper.id < 0]
        ids = dict(zip((paper.id for paper in fresh), take_ids(self.connection, len(fresh)), strict=True))
        insert(self.connection, PAPER, [{"id": ids[paper.id], **paper.row} for paper in fresh])
        self.update([paper for paper in self.papers.values() if paper.id > 0 and paper.is_changed])
        for younger, elder in self.merged.items():
            repoint(self.session, younger, self.survivor(elder))
        insert(
            self.connection,
            ALIAS,
            [
                {"scheme": scheme, "value": value, "paper_id": ids.get(paper, paper)}
                for (scheme, value), paper in self.aliases.items()
            ],
        )
        self.write_appearances(ids)
        self.write_signals(ids)
        self.write_changes()

    def survivor(self, paper: int) -> int:
        """Return the paper that remains of one that may itself have been merged further."""
        while paper in self.merged:
            paper = self.merged[paper]
        return paper

    def update(self, papers: Sequence[Known]) -> None:
        """Update the rows that became richer."""
        if papers:
            statement = update(PAPER).where(PAPER.c.id == bindparam("which"))
            self.connection.execute(statement, [{"which": paper.id, **paper.row} for paper in papers])

    def write_appearances(self, ids: dict[int, int]) -> None:
        """Remember where the papers stood in the dump."""
        insert(
            self.connection,
            APPEARANCE,
            [
                {"dump_id": self.dump.id, "paper_id": ids.get(paper, paper), "position": place, "line": line}
                for paper, (place, line) in self.appearances.items()
                if not self.papers[paper].is_told
            ],
        )

    def write_signals(self, ids: dict[int, int]) -> None:
        """Remember the figures at the dump's moment; a later reading of the same moment corrects it."""
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
        """Remember what became of papers, each kind the first time."""
        rows = [
            {
                "paper_id": self.survivor(paper),
                "kind": kind,
                "seen_at": self.dump.seen_at or self.dump.observed_at,
                "says": says,
            }
            for (paper, kind), says in self.changes.items()
        ]
        if rows:
            self.connection.execute(db.upsert(self.session, ChangeRow).on_conflict_do_nothing(), rows)

    def tally(self) -> Tally:
        """Count the papers of the batch by what happened to them."""
        told = [self.papers[paper] for paper in self.appearances if not self.papers[paper].is_told]
        new = sum(paper.id < 0 for paper in told)
        updated = sum(paper.id > 0 and paper.is_richer for paper in told)
        return Tally(new=new, updated=updated, unchanged=len(told) - new - updated)


def seniority(paper: Known) -> tuple[bool, Any, int]:
    """Return what orders papers by age: those stored, by when they were first seen, then the others."""
    return paper.id < 0, paper.row["first_seen_at"], abs(paper.id)
