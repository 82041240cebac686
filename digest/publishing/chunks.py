"""One chunk of subscribers: who is due is gathered, decided on and written, in one transaction.

 rows due ─▶ topics, showings ─▶ decisions ─▶ deliveries, showings, cuts ─▶ letters on quiet days ─▶ commit

A dozen statements for hundreds of subscribers, plain rows and tuples. Dying anywhere leaves nothing
of the chunk; running it twice, or two at once, finds the editions taken and writes nothing again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from digest import db, failpoints, garbage, outbox, showings
from digest.composition import Digest
from digest.editions import Edition
from digest.links import Site
from digest.model import DeliveryState, Subscriber
from digest.press import Press
from digest.publishing import followups, offers, quiet
from digest.publishing.deciding import cut_of, decide, slot_for, waits
from digest.publishing.desk import Desk
from digest.publishing.gathering import desk_of, gather, readers
from digest.publishing.values import Decision, Gathered, Reader, Slot

AT_ONCE = 500  #: readers whose digests are written together, while the next are decided on
MOST_CONFLICTS = 5  #: that a chunk may run into: nobody but a letter is ever faster than us


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What publishing came to, in editions."""

    due: int = 0  #: all of the below
    queued: int = 0  #: digests now in the outbox
    empty: int = 0  #: nothing to say: recorded, nothing will be sent
    already: int = 0  #: still open, and decided before
    expired: int = 0  #: missed: their day was over before anybody published them

    def __add__(self, other: Published) -> Published:
        return Published(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some readers who are due, with all that deciding on them needs."""

    desk: Desk
    gathered: Gathered
    slots: Mapping[int, Slot]  #: what each reader's schedule says
    taken: Set[int]  #: the readers of whom it is known that they have their edition already
    site: Site
    now: datetime


def publish_chunk(
    session: Session, press: Press, *, site: Site, after_id: int, limit: int = 500, now: datetime
) -> tuple[Published, int | None]:
    """Publish the next due subscribers after `after_id`; return what came of it and the last one's id.

    None for the id says that nobody is left. Commits.
    """
    desk, conflicts = desk_of(session, press), 0
    while True:
        try:
            with garbage.held_off():
                return publish_next(
                    session, desk, site=site, after_id=after_id, limit=limit, now=now, conflicts=conflicts
                )
        except IntegrityError:
            session.rollback()
            conflicts += 1
            if conflicts == MOST_CONFLICTS:
                raise


def publish_next(
    session: Session, desk: Desk, *, site: Site, after_id: int, limit: int, now: datetime, conflicts: int
) -> tuple[Published, int | None]:
    """Do so once, after some attempts that ran into conflicts.

    All that a chunk is made of is gone when this returns, so the collector, who comes back then, does not
    walk through it.
    """
    db.commit_unhurried(session)
    gathered = gather(session, desk, readers(session, after_id=after_id, limit=limit, now=now), now)
    if not gathered.readers:
        session.commit()
        return Published(), None
    slots = {reader.id: slot_for(reader, now) for reader in gathered.readers}
    taken = outbox.taken(session, editions_of(slots)) if conflicts else frozenset[int]()
    published = apply(session, Chunk(desk, gathered, slots, taken, site, now))
    failpoints.reach("chunk-written")
    session.commit()
    failpoints.reach("chunk-published")
    return published, gathered.readers[-1].id


def editions_of(slots: Mapping[int, Slot]) -> dict[int, str]:
    """Return the edition that is open for each reader who has one."""
    return {number: slot.open.name for number, slot in slots.items() if slot.open is not None}


def apply(session: Session, chunk: Chunk) -> Published:
    """Decide on everybody and write it; PostgreSQL writes of some while the next are decided on.

    Raises IntegrityError where one of them has the edition already, or was shown one of its papers by a
    letter meanwhile. Both are so rare that nobody is asked beforehand.
    """
    everybody, new = chunk.gathered.readers, dict[int, Decision]()
    numbers = iter(outbox.numbers(session, len(everybody)))
    with db.ahead(session):
        for start in range(0, len(everybody), AT_ONCE):
            new |= put_digests(session, chunk, everybody[start : start + AT_ONCE], numbers)
    expired = put_missed(session, chunk)
    put_told(session, chunk, new)
    queued = sum(bool(one.digest.sections) for one in new.values())
    return Published(
        due=len(new) + len(chunk.taken) + expired,
        queued=queued,
        empty=len(new) - queued,
        already=len(chunk.taken),
        expired=expired,
    )


def put_digests(
    session: Session, chunk: Chunk, some: Sequence[Reader], numbers: Iterator[int]
) -> dict[int, Decision]:
    """Decide on some readers and write it; return the decisions by the numbers of their deliveries."""
    desk, gathered, slots, now = chunk.desk, chunk.gathered, chunk.slots, chunk.now
    decisions = [
        decide(desk, gathered, reader, edition, now, site=chunk.site)
        for reader in some
        if (edition := slots[reader.id].open) is not None and reader.id not in chunk.taken
    ]
    waiting = {one.reader.id for one in decisions if waits(one)}
    decided = [one for one in decisions if one.reader.id not in waiting]
    new = {number: one for one, number in zip(decided, numbers, strict=False)}
    rows = [row_of(number, one, desk.press, now) for number, one in new.items()]
    same = {"key_id": chunk.site.signing_key_id, "dated_at": now, "covers_to": now}
    outbox.put_new_digests(session, rows, same=same)
    failpoints.reach("digests-written")
    put_showings(session, new)
    moving = {one.id: moved(one, slots[one.id], now) for one in some if one.id not in waiting}
    for one in decided:
        moving[one.reader.id] |= ended(one, gathered, desk, now)
    db.change_many(session, Subscriber, list(moving.values()))
    return new


def row_of(number: int, decision: Decision, press: Press, now: datetime) -> dict[str, Any]:
    """Return the delivery that keeps the decision, without what all of a chunk share."""
    reader, edition = decision.reader, decision.edition
    is_empty = not decision.digest.sections
    return {
        "id": number,
        "subscriber_id": reader.id,
        "email": reader.email,
        "edition": edition.name,
        "decision": decision.digest.to_json(),
        "press": press.name if decision.is_held or not is_empty else None,
        "covers_from": decision.covers_from,
        "covers_paper_id": reader.cut_paper_id,
        "state": DeliveryState.EMPTY if is_empty else DeliveryState.QUEUED,
        "reason": empty_because(decision) if is_empty else "",
        "due_at": edition.due_at,
        "expires_at": edition.closes_at,
        "settled_at": now if is_empty else None,
    }


def empty_because(decision: Decision) -> str:
    """Return why there was nothing to say."""
    checked = decision.digest.checked
    if decision.is_held:
        return f"{checked} papers checked, fewer than {decision.reader.min_papers} matched"
    return f"{checked} papers checked, none matched" if checked else "no new papers"


def put_showings(session: Session, new: Mapping[int, Decision]) -> None:
    """Write what is shown by these new deliveries."""
    by_day: dict[date, list[showings.Showing]] = defaultdict(list)
    for number, one in new.items():
        if one.digest.sections:
            by_day[one.edition.day].append((one.reader.id, number, one.digest.papers))
    for day, some in by_day.items():
        showings.put_new(session, some, shown_on=day)


def put_missed(session: Session, chunk: Chunk) -> int:
    """Record the editions whose day was over before anybody published them, and return how many."""
    by_edition: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for reader in chunk.gathered.readers:
        for edition in chunk.slots[reader.id].missed:
            by_edition[edition.name].append(missed_row(reader, edition, chunk.now))
    return sum(len(outbox.put_digests(session, rows)) for rows in by_edition.values())


def missed_row(reader: Reader, edition: Edition, now: datetime) -> dict[str, Any]:
    """Return the record of an edition that was missed. It covers nothing: its papers are news still."""
    return {
        "subscriber_id": reader.id,
        "email": reader.email,
        "edition": edition.name,
        "decision": Digest(sections=(), checked=0).to_json(),
        "dated_at": now,
        "state": DeliveryState.EXPIRED,
        "reason": "nothing was published before it closed; its papers go into the next edition",
        "due_at": edition.due_at,
        "expires_at": edition.closes_at,
        "settled_at": now,
    }


def put_told(session: Session, chunk: Chunk, new: Mapping[int, Decision]) -> None:
    """Write quiet letters, and who is told by which letter what became of earlier papers."""
    silent = {one.reader.id for one in new.values() if quiet.is_told(one, chunk.now)}
    telling = [
        (one, chunk.gathered.topics.get(one.reader.id, ()), chunk.slots[one.reader.id].next_due_at)
        for one in new.values()
        if one.reader.id in silent
    ]
    letters = quiet.put_letters(session, chunk.desk, telling, site=chunk.site, now=chunk.now)
    db.change_many(session, Subscriber, [{"id": number, "heard_at": chunk.now} for number in letters])
    told = [
        (one.reader.id, letters.get(one.reader.id, number), one.pending.news)
        for number, one in new.items()
        if one.pending is not None and (one.digest.sections or one.reader.id in silent)
    ]
    followups.put(session, told, now=chunk.now)


def moved(reader: Reader, slot: Slot, now: datetime) -> dict[str, Any]:
    """Return what is written to every subscriber: when they are due next, and the rest as it was.

    Their rows are locked, and one statement for all costs less than one for each kind of news.
    """
    cut_at = reader.cut_at
    if slot.missed and cut_at is None:  # a missed first look is made up for: its promise moves
        cut_at = cut_of(reader, now)[0]
    return {
        "id": reader.id,
        "next_due_at": slot.next_due_at,
        "is_back": reader.is_back,
        "cut_at": cut_at,
        "cut_paper_id": reader.cut_paper_id,
        "heard_at": reader.heard_at,
        "full_in_a_row": reader.full_in_a_row,
        "offered_at": reader.offered_at,
    }


def ended(one: Decision, gathered: Gathered, desk: Desk, now: datetime) -> dict[str, Any]:
    """Return what a new decision changes: the next digest begins where this one ended, or a held one began."""
    reader, sections = one.reader, one.digest.sections
    changes: dict[str, Any] = {"is_back": False, "cut_at": now, "cut_paper_id": desk.last_id}
    if one.is_held:
        changes = {"cut_at": reader.cut_at or one.covers_from}
    if sections:
        changes["heard_at"] = now
        topics = gathered.topics.get(reader.id, ())
        changes["full_in_a_row"] = offers.counted(reader.full_in_a_row, topics, sections)
    if one.digest.offer is not None:
        changes["offered_at"] = now
    return changes
