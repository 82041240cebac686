"""One chunk of subscribers: who is due is gathered, decided on and written, in one transaction.

 rows due ─▶ topics, showings ─▶ decisions ─▶ deliveries ─▶ showings of the new ones ─▶ cuts ─▶ commit

A dozen statements for hundreds of subscribers, plain rows and tuples. Dying anywhere leaves nothing
of the chunk; running it twice, or two at once, finds the editions taken and writes nothing again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

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


def publish_chunk(
    session: Session, press: Press, *, site: Site, after_id: int, limit: int = 500, now: datetime
) -> tuple[Published, int | None]:
    """Publish the next due subscribers after `after_id`; return what came of it and the last one's id.

    None for the id says that nobody is left. Commits.
    """
    desk = desk_of(session, press)
    with garbage.held_off():
        while True:
            db.commit_unhurried(session)
            gathered = gather(session, desk, readers(session, after_id=after_id, limit=limit, now=now), now)
            if not gathered.readers:
                session.commit()
                return Published(), None
            published = apply(session, desk, gathered, site=site, now=now)
            if published is not None:
                failpoints.reach("chunk-written")
                session.commit()
                failpoints.reach("chunk-published")
                return published, gathered.readers[-1].id
            session.rollback()  # a letter showed one of them a paper meanwhile: look again


def apply(session: Session, desk: Desk, gathered: Gathered, *, site: Site, now: datetime) -> Published | None:
    """Decide on everybody and write it; None if a paper was shown by somebody else meanwhile."""
    slots = [(reader, slot_for(reader, now)) for reader in gathered.readers]
    decisions = [
        decide(desk, gathered, reader, slot.open, now, site=site)
        for reader, slot in slots
        if slot.open is not None
    ]
    waiting = {one.reader.id for one in decisions if waits(one)}
    decided = [one for one in decisions if one.reader.id not in waiting]
    written = outbox.put_digests(
        session,
        [row_of(one, desk.press, now) for one in decided],
        same={"key_id": site.signing_key_id, "dated_at": now, "covers_to": now},
    )
    failpoints.reach("digests-written")
    new = [one for one in decided if one.reader.id in written]
    if not put_showings(session, new, written):
        return None
    expired = put_missed(session, slots, now)
    slot_by_id = {reader.id: slot for reader, slot in slots}
    told = put_quiet(session, desk, gathered, new, slot_by_id, site=site, now=now)
    if not put_news(session, new, written | told, now):
        return None
    moving = {reader.id: moved(reader, slot, now) for reader, slot in slots if reader.id not in waiting}
    for one in new:
        moving[one.reader.id] |= ended(one, gathered, desk, now, is_told=one.reader.id in told)
    db.change_many(session, Subscriber, list(moving.values()))
    queued = sum(bool(one.digest.sections) for one in new)
    return Published(
        due=len(decided) + expired,
        queued=queued,
        empty=len(new) - queued,
        already=len(decided) - len(new),
        expired=expired,
    )


def row_of(decision: Decision, press: Press, now: datetime) -> dict[str, Any]:
    """Return the delivery that keeps the decision, without what all of a chunk share."""
    reader, edition = decision.reader, decision.edition
    is_empty = not decision.digest.sections
    return {
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


def put_showings(session: Session, decisions: Iterable[Decision], written: Mapping[int, int]) -> bool:
    """Write what is shown by these new deliveries; False if some of it had been shown already."""
    by_day: dict[Any, list[showings.Showing]] = defaultdict(list)
    for one in decisions:
        subscriber_id = one.reader.id
        delivery_id = written[subscriber_id]
        rows = by_day[one.edition.day]
        for section in one.digest.sections:
            rows += [(subscriber_id, paper_id, delivery_id) for paper_id in section.papers]
    return all(showings.put_new(session, some, shown_on=day) for day, some in by_day.items())


def put_missed(session: Session, slots: Iterable[tuple[Reader, Slot]], now: datetime) -> int:
    """Record the editions whose day was over before anybody published them, and return how many."""
    by_edition: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for reader, slot in slots:
        for edition in slot.missed:
            by_edition[edition.name].append(missed_row(reader, edition, now))
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


def put_quiet(
    session: Session,
    desk: Desk,
    gathered: Gathered,
    new: Iterable[Decision],
    slots: Mapping[int, Slot],
    *,
    site: Site,
    now: datetime,
) -> dict[int, int]:
    """Write the letters of who has nothing to read and is to be told so; return {whom: delivery id}."""
    silent = [
        (one, gathered.topics.get(one.reader.id, ()), slots[one.reader.id].next_due_at)
        for one in new
        if quiet.is_told(one, now)
    ]
    return quiet.put_letters(session, desk, silent, site=site, now=now)


def put_news(session: Session, new: Iterable[Decision], letters: Mapping[int, int], now: datetime) -> bool:
    """Write down who is told what became of earlier papers, by these letters; False if somebody was told it."""
    told = [
        (one.reader.id, letters[one.reader.id], one.pending.news)
        for one in new
        if one.pending is not None and (one.digest.sections or quiet.is_told(one, now))
    ]
    return followups.put(session, told, now=now)


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


def ended(one: Decision, gathered: Gathered, desk: Desk, now: datetime, *, is_told: bool) -> dict[str, Any]:
    """Return what a new decision changes: the next digest begins where this one ended, or a held one began.

    Who was told something, in a digest or in a quiet letter, has heard from us.
    """
    reader, sections = one.reader, one.digest.sections
    changes: dict[str, Any] = {"is_back": False, "cut_at": now, "cut_paper_id": desk.last_id}
    if one.is_held:
        changes = {"cut_at": reader.cut_at or one.covers_from}
    if sections or is_told:
        changes["heard_at"] = now
    if sections:
        topics = gathered.topics.get(reader.id, ())
        changes["full_in_a_row"] = offers.counted(reader.full_in_a_row, topics, sections)
    if one.digest.offer is not None:
        changes["offered_at"] = now
    return changes
