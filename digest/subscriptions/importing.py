"""Subscribers from a CSV file: bad rows are told with line and reason, good ones go on.

A file can be imported again and again: what it says already stands is left alone. It never brings
back who has left, never overrules a suppression, and never activates anybody without consent.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, TextIO

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from digest import addresses, bounces, db, editions
from digest.editions import Schedule
from digest.errors import BadField, BadFilter, UsageError
from digest.links import Site
from digest.model import Consent, FilterRow, Subscriber, SubscriberState, Subscription
from digest.subscriptions import filters, inviting, people
from digest.subscriptions.filters import Books

COLUMNS = ("email", "name", "cadence", "at", "timezone", "state", "topics", "packs")
AT_ONCE = 500  #: rows looked up and written together

#: What a row may make of somebody who stands here already; anything else keeps them as they are.
ALLOWED = {
    SubscriberState.PENDING: frozenset(SubscriberState),
    SubscriberState.ACTIVE: frozenset({SubscriberState.PAUSED, SubscriberState.UNSUBSCRIBED}),
    SubscriberState.PAUSED: frozenset({SubscriberState.UNSUBSCRIBED}),
    SubscriberState.UNSUBSCRIBED: frozenset[SubscriberState](),
}

Row = Mapping[Any, Any]  #: cells by column; what has no column is under None
Checked = tuple[tuple[str, str, str], ...]  #: topics: (name, canonical filter, filter as typed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A row that was not imported."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class Imported:
    """What became of the rows."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    invited: int = 0  #: of the pending ones; asked once, whatever is imported again
    problems: list[Problem] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """Return how many rows were not imported."""
        return len(self.problems)

    def reject(self, line: int, reason: str) -> None:
        """Keep why a row was not imported."""
        self.problems.append(Problem(line=line, reason=reason))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One row, checked. What is None was not in the file and stays as it stands."""

    line: int
    address: addresses.Address
    state: SubscriberState
    name: str | None
    cadence: str | None
    at: str | None
    timezone: str | None
    topics: Checked | None
    packs: Checked | None = None  #: topics that are filters of packs, as they are


def import_rows(
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None = None,
    invited_by: str = "",
    now: datetime,
) -> Imported:
    """Add and update subscribers from `rows`; `consent` says how the active ones agreed.

    Without it they come in pending, and each is asked once; `invited_by` says who put them on the list.
    Lines are counted as in the file where `rows` can tell (a `csv.DictReader`), else with the header as
    line 1.
    """
    done = Imported()
    pages = Pages(session)
    waiting: dict[str, Wanted] = {}
    for line, row in numbered(rows):
        try:
            wanted = checked(row, line, pages, may_activate=bool(consent))
        except UsageError as error:
            done.reject(line, str(error))
            continue
        if wanted.address.key in waiting or len(waiting) == AT_ONCE:  # twice in one file: in order
            write(session, site, waiting, consent, invited_by, now, done)
            waiting = {}
        waiting[wanted.address.key] = wanted
    write(session, site, waiting, consent, invited_by, now, done)
    done.problems.sort(key=lambda problem: problem.line)
    return done


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def rows_in(file: TextIO) -> csv.DictReader[str]:
    """Return the rows of a CSV file, or raise BadField where its header has no `email`."""
    reader = csv.DictReader(file, restkey=None)
    names = [name.strip().lower().lstrip("\ufeff") for name in reader.fieldnames or ()]
    if "email" not in names:
        raise BadField("line 1", f"no column is called email. The columns are {', '.join(COLUMNS)}.")
    reader.fieldnames = names
    return reader


def numbered(rows: Iterable[Row]) -> Iterator[tuple[int, Row | csv.Error]]:
    """Yield the rows with the line each begins on; one that cannot be read at all as its error."""
    line, iterator = 2, iter(rows)
    for number in itertools.count(2):
        row: Row | csv.Error
        try:
            row = next(iterator)
        except StopIteration:
            return
        except csv.Error as error:
            row = error
        ends = getattr(rows, "line_num", None)
        yield (line if ends else number), row
        line = (ends or 0) + 1


def checked(row: Row | csv.Error, line: int, pages: Pages, *, may_activate: bool) -> Wanted:
    """Return what a row asks for, or raise the error that says which field is wrong."""
    if isinstance(row, csv.Error):
        raise BadField("row", f"it cannot be read: {row}.")
    if row.get(None):
        raise BadField("row", "it has more cells than the header. Quote cells that hold a comma.")
    cells = {name: unescaped(value) for name, value in row.items() if name and value}
    cadence, at, timezone = cells.get("cadence"), cells.get("at"), cells.get("timezone")
    schedule_in(cadence or "daily", at or "08:00", timezone or "UTC")
    topics = pages.topics_in(cells["topics"]) if "topics" in cells else None
    packs = pages.packs_in(cells["packs"]) if "packs" in cells else None
    people.check_names([name for name, _, _ in (*(topics or ()), *(packs or ()))])
    return Wanted(
        line=line,
        address=addresses.checked(cells.get("email", "")),
        state=state_in(cells.get("state", ""), may_activate=may_activate),
        name=people.one_line(cells["name"]) if "name" in cells else None,
        cadence=cadence,
        at=at,
        timezone=timezone,
        topics=topics,
        packs=packs,
    )


def unescaped(cell: Any) -> str:
    """Return a cell's text without the apostrophe that our own export puts before a formula."""
    text = str(cell).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in {"=", "+", "-", "@"} else text


@lru_cache(maxsize=4096)
def schedule_in(cadence: str, at: str, timezone: str) -> Schedule:
    """Return the schedule of those words; a file has few distinct ones."""
    return editions.schedule_in(cadence=cadence, at=at, timezone=timezone)


def state_in(text: str, *, may_activate: bool) -> SubscriberState:
    """Return the state a row asks for; active is pending where nobody said how they agreed."""
    try:
        state = SubscriberState(text.lower() or SubscriberState.ACTIVE)
    except ValueError:
        raise BadField("state", f"{text!r} is none of {', '.join(SubscriberState)}.") from None
    if state in {SubscriberState.ACTIVE, SubscriberState.PAUSED} and not may_activate:
        return SubscriberState.PENDING
    return state


class Pages:
    """The cells of a file that hold filters: a file has few distinct ones, and each is read once."""

    def __init__(self, session: Session):
        self.books = Books(session)
        self.read: dict[tuple[str, str], Checked] = {}

    def topics_in(self, cell: str) -> Checked:
        """Return the topics of a JSON object {"name": "filter"}."""
        if ("topics", cell) not in self.read:
            self.read["topics", cell] = self.checked("topics", topics_of(cell))
        return self.read["topics", cell]

    def packs_in(self, cell: str) -> Checked:
        """Return the topics of a list of packs, `lab/nlp; lab/robots`: each is called as it is listed."""
        if ("packs", cell) not in self.read:
            self.read["packs", cell] = self.checked("packs", packs_of(cell))
        return self.read["packs", cell]

    def checked(self, column: str, topics: Mapping[str, str]) -> Checked:
        """Return the topics as they are stored, or raise BadField."""
        try:
            return tuple(people.checked_topics(topics, self.books))
        except BadFilter as error:
            raise BadField(column, f"in {error.text!r}: {error}") from error


def topics_of(cell: str) -> dict[str, str]:
    """Return the topics of a JSON object."""
    try:
        topics = json.loads(cell)
    except (ValueError, RecursionError):
        topics = None
    if not isinstance(topics, dict) or not all(isinstance(value, str) for value in topics.values()):
        raise BadField("topics", 'write them as JSON: {"name": "filter"}')
    return topics


def packs_of(cell: str) -> dict[str, str]:
    """Return {lab/nlp: use:lab/nlp} for each pack in a list parted by semicolons."""
    listed = [name.strip().lower().removeprefix("use:") for name in cell.split(";") if name.strip()]
    return {filters.name_of(name): f"use:{name}" for name in listed}


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def write(
    session: Session,
    site: Site,
    waiting: Mapping[str, Wanted],
    consent: str | None,
    invited_by: str,
    now: datetime,
    done: Imported,
) -> None:
    """Write some rows, at most one for each address, and count what became of them."""
    if not waiting:
        return
    barred = bounces.suppressed(session, site, [wanted.address.email for wanted in waiting.values()])
    stands = {row.email_key: row for row in standing(session, waiting)}
    held = topics_held(session, [row.id for row in stands.values()])
    new = []
    for key, wanted in waiting.items():
        there = stands.get(key)
        if wanted.address.email in barred:
            done.reject(wanted.line, f"email: {wanted.address.email} is suppressed; nothing is sent to it.")
        elif there is None:
            new.append(wanted)
        elif there.state == SubscriberState.UNSUBSCRIBED and wanted.state == SubscriberState.ACTIVE:
            done.reject(wanted.line, f"state: {wanted.address.email} has left; only they can come back.")
        elif change(
            session,
            there,
            wanted,
            topics_after(wanted, held.get(there.id, ())),
            held.get(there.id, ()),
            consent,
            now,
        ):
            done.updated += 1
        else:
            done.unchanged += 1
    insert_all(session, new, consent, now)
    done.added += len(new)
    asked = [
        key
        for key, wanted in waiting.items()
        if wanted.state == SubscriberState.PENDING and wanted.address.email not in barred
    ]
    if asked:
        done.invited += inviting.invite(session, site, asked, by=invited_by, now=now)


def standing(session: Session, keys: Iterable[str]) -> list[Any]:
    """Return those who subscribed already, as plain rows."""
    table = Subscriber.__table__
    return list(session.execute(select(table).where(table.c.email_key.in_(list(keys)))))


def topics_held(session: Session, ids: list[int]) -> dict[int, Checked]:
    """Return the topics of each subscriber, in the form in which rows bring them."""
    rows = session.execute(
        select(Subscription.subscriber_id, Subscription.name, FilterRow.canonical, Subscription.typed)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .where(Subscription.subscriber_id.in_(ids))
        .order_by(Subscription.subscriber_id, Subscription.position)
    )
    held: dict[int, Checked] = {}
    for row in rows:
        held[row.subscriber_id] = (*held.get(row.subscriber_id, ()), (row.name, row.canonical, row.typed))
    return held


def change(
    session: Session,
    there: Any,
    wanted: Wanted,
    topics: Checked,
    held: Checked,
    consent: str | None,
    now: datetime,
) -> bool:
    """Bring somebody who stands here to what the row says; return whether anything changed."""
    values = differing(there, wanted)
    if wanted.state != there.state and wanted.state in ALLOWED[SubscriberState(there.state)]:
        values |= moved(wanted.state, now)
        if "confirmed_at" in values:
            session.add(Consent(subscriber_id=there.id, given_at=now, how=consent or ""))
    if values:
        session.execute(update(Subscriber).where(Subscriber.id == there.id).values(**values))
    if topics == held:
        return bool(values)
    session.execute(delete(Subscription).where(Subscription.subscriber_id == there.id))
    put_topics(session, {there.id: topics})
    return True


def topics_after(wanted: Wanted, held: Checked) -> Checked:
    """Return the topics of somebody who holds some: each column replaces its kind, packs stand last."""
    if wanted.topics is None and wanted.packs is None:
        return held
    are_packs = [filters.is_pack(name, canonical) for name, canonical, _ in held]
    own = wanted.topics or ()
    shared = wanted.packs or ()
    if wanted.topics is None:
        own = without([topic for topic, is_pack in zip(held, are_packs, strict=True) if not is_pack], shared)
    if wanted.packs is None:
        shared = without([topic for topic, is_pack in zip(held, are_packs, strict=True) if is_pack], own)
    return (*own, *shared)


def without(topics: Iterable[tuple[str, str, str]], others: Checked) -> Checked:
    """Return topics but those called as one of the others."""
    taken = {name.casefold() for name, _, _ in others}
    return tuple(topic for topic in topics if topic[0].casefold() not in taken)


def differing(there: Any, wanted: Wanted) -> dict[str, Any]:
    """Return the columns in which the row differs from what stands."""
    stands = Schedule(
        cadence=editions.Cadence(there.cadence), at=there.at, timezone=there.timezone, weekday=there.weekday
    )
    schedule = schedule_in(
        wanted.cadence or editions.cadence_spelling(stands),
        wanted.at or f"{there.at:%H:%M}",
        wanted.timezone or there.timezone,
    )
    values: dict[str, Any] = {}
    if schedule != stands:
        values = people.columns(schedule) | {"not_after": there.not_after, "next_due_at": None}
    if wanted.name is not None and wanted.name != there.name:
        values["name"] = wanted.name
    return values


def moved(state: SubscriberState, now: datetime) -> dict[str, Any]:
    """Return the columns of somebody who comes to another state."""
    values: dict[str, Any] = {"state": state}
    if state == SubscriberState.UNSUBSCRIBED:
        values["left_at"] = now
    elif state != SubscriberState.PENDING:
        values["confirmed_at"] = now
    return values


def insert_all(session: Session, new: list[Wanted], consent: str | None, now: datetime) -> None:
    """Add those who were not here, with their topics and the proof of their consent."""
    if not new:
        return
    rows = [as_row(wanted, now) for wanted in new]
    returning = db.upsert(session, Subscriber).returning(Subscriber.id, Subscriber.email_key)
    ids = {row.email_key: row.id for row in session.execute(returning, rows)}
    put_topics(
        session,
        {
            ids[wanted.address.key]: topics_after(wanted, ())
            for wanted in new
            if wanted.topics or wanted.packs
        },
    )
    proofs = [
        {"subscriber_id": ids[row["email_key"]], "given_at": now, "how": consent or ""}
        for row in rows
        if row["confirmed_at"]
    ]
    if proofs:
        session.execute(insert(Consent), proofs)


def as_row(wanted: Wanted, now: datetime) -> dict[str, Any]:
    """Return a new subscriber as the columns to insert."""
    agreed = wanted.state in {SubscriberState.ACTIVE, SubscriberState.PAUSED}
    return {
        "email": wanted.address.email,
        "email_key": wanted.address.key,
        "name": wanted.name or "",
        "state": wanted.state,
        "created_at": now,
        "confirmed_at": now if agreed else None,
        "left_at": now if wanted.state == SubscriberState.UNSUBSCRIBED else None,
        **people.columns(
            schedule_in(wanted.cadence or "daily", wanted.at or "08:00", wanted.timezone or "UTC")
        ),
    }


def put_topics(session: Session, topics: Mapping[int, Checked]) -> None:
    """Add the topics of many subscribers."""
    wanted = {canonical for theirs in topics.values() for _, canonical, _ in theirs}
    numbers = filters.filter_ids(session, wanted)
    rows = [
        {
            "subscriber_id": subscriber_id,
            "position": position,
            "name": name,
            "filter_id": numbers[canonical],
            "typed": typed,
        }
        for subscriber_id, theirs in topics.items()
        for position, (name, canonical, typed) in enumerate(theirs)
    ]
    if rows:
        session.execute(insert(Subscription), rows)
