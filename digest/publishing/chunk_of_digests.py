"""Publish one chunk of due subscribers in one transaction: load, decide, write.

 due rows ─▶ topics, shown papers ─▶ decisions ─▶ deliveries, shown, considered_until ─▶ nothing-today letters ─▶ commit

A chunk of hundreds of subscribers takes only a dozen SQL statements, on plain rows and tuples. If the process
crashes, nothing of the chunk is stored. A second or concurrent run finds that the editions are already
decided, and writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from digest import db, plurals
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import Subscriber
from digest.delivery import outbox
from digest.editions import shown
from digest.editions.schedule import ScheduleStatus
from digest.letters.press.press_value import Press
from digest.process import failpoints, gc_control
from digest.process.caches import Caches
from digest.publishing import nothing_today, pending_updates
from digest.publishing.decide_digest import considered_until_of, decide_digest, schedule_status_of
from digest.publishing.due_readers import gather_inputs, lock_due_readers, match_index_of
from digest.publishing.match_index import MatchIndex
from digest.publishing.missed_editions import record_missed_editions
from digest.publishing.reader_values import Decision, GatheredInputs, Reader
from digest.site.site_profile import Site

#: Number of readers whose digests are decided and then written together.
SUBSCRIBERS_PER_WRITE = 500
#: Maximum attempts per chunk; an attempt fails only if another process writes a letter at the same time.
MAX_CONFLICTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishReport:
    """The numbers of editions that a run published, by outcome."""

    due: int = 0  #: number of due editions, which is the sum of the counts below
    queued: int = 0  #: number of digests that were written to the outbox
    empty: int = 0  #: number of editions without papers, which are recorded but not sent
    already: int = 0  #: number of open editions that an earlier run had decided
    expired: int = 0  #: number of editions that closed before any run published them

    def __add__(self, other: PublishReport) -> PublishReport:
        return PublishReport(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@dataclass(frozen=True, slots=True)
class SubscriberChunk:
    """A chunk of due readers, and the values needed to decide their digests."""

    match_index: MatchIndex
    gathered: GatheredInputs
    #: The state of each reader's schedule at `now`, keyed by subscriber id.
    slots: Mapping[int, ScheduleStatus]
    site: Site
    now: datetime


def publish_chunk(
    session: Session,
    press: Press,
    *,
    site: Site,
    caches: Caches,
    after_id: int,
    limit: int = 500,
    now: datetime,
) -> tuple[PublishReport, int | None]:
    """Publish the next due subscribers after `after_id`; return the counts and the last subscriber's id.

    The returned id is None when no due subscriber is left. Commits.
    """
    match_index, conflicts = match_index_of(session, press, caches), 0
    while True:
        try:
            with gc_control.gc_paused():
                return publish_once(
                    session,
                    match_index,
                    site=site,
                    after_id=after_id,
                    limit=limit,
                    now=now,
                    conflicts=conflicts,
                )
        except IntegrityError:
            session.rollback()
            conflicts += 1
            if conflicts == MAX_CONFLICTS:
                raise


def publish_once(
    session: Session,
    match_index: MatchIndex,
    *,
    site: Site,
    after_id: int,
    limit: int,
    now: datetime,
    conflicts: int,
) -> tuple[PublishReport, int | None]:
    """Try to publish the next chunk; `conflicts` is the number of attempts that failed.

    The values of the chunk are freed when this function returns. The garbage collector is enabled only
    afterwards, so it does not traverse them.
    """
    db.commit_asynchronously(session)
    gathered = gather_inputs(
        session, match_index, lock_due_readers(session, after_id=after_id, limit=limit, now=now), now
    )
    if not gathered.readers:
        session.commit()
        return PublishReport(), None
    # A reader with a promise has not got that edition, unless another run decides it concurrently.
    unsure = [reader.id for reader in gathered.readers if conflicts or reader.next_due_at is None]
    decided = outbox.decided_editions(session, unsure, now) if unsure else {}
    slots = {
        reader.id: schedule_status_of(reader, now, decided.get(reader.id, frozenset()))
        for reader in gathered.readers
    }
    chunk = SubscriberChunk(match_index, gathered, slots, site, now)
    published = decide_and_write(session, chunk)
    failpoints.reach("chunk-written")
    session.commit()
    failpoints.reach("chunk-published")
    return published, gathered.readers[-1].id


def decide_and_write(session: Session, chunk: SubscriberChunk) -> PublishReport:
    """Decide and write all digests of the chunk.

    Raises IntegrityError if a reader already has the edition, or if another letter showed the reader one of
    the papers at the same time. Both conflicts are too rare to be checked in advance.
    """
    readers, new = chunk.gathered.readers, dict[int, Decision]()
    delivery_ids = iter(outbox.reserve_ids(session, len(readers)))
    for start in range(0, len(readers), SUBSCRIBERS_PER_WRITE):
        new |= write_digests(session, chunk, readers[start : start + SUBSCRIBERS_PER_WRITE], delivery_ids)
    expired = record_missed_editions(session, chunk.gathered.readers, chunk.slots, now=chunk.now)
    write_nothing_today_and_followups(session, chunk, new)
    queued = sum(bool(one.digest.sections) for one in new.values())
    return PublishReport(
        due=len(new) + expired,
        queued=queued,
        empty=len(new) - queued,
        expired=expired,
    )


def write_digests(
    session: Session, chunk: SubscriberChunk, readers: Sequence[Reader], delivery_ids: Iterator[int]
) -> dict[int, Decision]:
    """Decide and write the digests of these readers; return the decisions, keyed by delivery id."""
    match_index, gathered, slots, now = chunk.match_index, chunk.gathered, chunk.slots, chunk.now
    decisions = [
        decide_digest(match_index, gathered, reader, edition, now)
        for reader in readers
        if (edition := slots[reader.id].due) is not None
    ]
    new = {number: one for one, number in zip(decisions, delivery_ids, strict=False)}
    rows = [delivery_row(number, one, match_index.press, now) for number, one in new.items()]
    shared = {"key_id": chunk.site.signing_key_id, "dated_at": now, "covers_to": now}
    outbox.queue_new_digests(session, rows, shared=shared)
    failpoints.reach("digests-written")
    write_shown(session, new)
    changes = {one.id: subscriber_changes(one, slots[one.id], now) for one in readers}
    for one in decisions:
        changes[one.reader.id] |= decision_changes(one, match_index, now)
    db.update_many(session, Subscriber, list(changes.values()))
    return new


def delivery_row(number: int, decision: Decision, press: Press, now: datetime) -> dict[str, Any]:
    """Return the delivery row that stores the decision.

    Columns with the same value in all rows of the chunk are left out.
    """
    reader, edition = decision.reader, decision.edition
    is_empty = not decision.digest.sections
    return {
        "id": number,
        "subscriber_id": reader.id,
        "email": reader.email,
        "edition": edition.name,
        "decision": decision.digest.to_json(),
        "press": None if is_empty else press.name,
        "covers_from": decision.covers_from,
        "covers_paper_id": reader.considered_paper_id,
        "state": DeliveryState.EMPTY if is_empty else DeliveryState.QUEUED,
        "reason": empty_reason(decision) if is_empty else "",
        "due_at": edition.due_at,
        "expires_at": edition.closes_at,
        "settled_at": now if is_empty else None,
    }


def empty_reason(decision: Decision) -> str:
    """Return the reason why the edition has no papers."""
    checked = decision.digest.checked
    return f"{plurals.count(checked, 'paper')} checked, none matched" if checked else "no new papers"


def write_shown(session: Session, new: Mapping[int, Decision]) -> None:
    """Record, for each new delivery, that its reader was shown its papers."""
    by_day: dict[date, list[shown.ShownPapers]] = defaultdict(list)
    for number, one in new.items():
        if one.digest.sections:
            by_day[one.edition.day].append((one.reader.id, number, one.digest.papers))
    for day, some in by_day.items():
        shown.record_new(session, some, shown_on=day)


def write_nothing_today_and_followups(
    session: Session, chunk: SubscriberChunk, new: Mapping[int, Decision]
) -> None:
    """Write the nothing-today letters, and record in which letter each update was sent."""
    without_digest = {one.reader.id for one in new.values() if nothing_today.needs_letter(one, chunk.now)}
    due_letters = [
        (one, chunk.slots[one.reader.id].upcoming.due_at)
        for one in new.values()
        if one.reader.id in without_digest
    ]
    letters = nothing_today.queue_nothing_today_letters(
        session, chunk.match_index, chunk.gathered, due_letters, site=chunk.site, now=chunk.now
    )
    db.update_many(session, Subscriber, [{"id": number, "last_mail_at": chunk.now} for number in letters])
    sent_followups = [
        (one.reader.id, letters.get(one.reader.id, number), one.pending.news)
        for number, one in new.items()
        if one.pending is not None and (one.digest.sections or one.reader.id in without_digest)
    ]
    pending_updates.record_followups(session, sent_followups, now=chunk.now)


def subscriber_changes(reader: Reader, slot: ScheduleStatus, now: datetime) -> dict[str, Any]:
    """Return the columns to write for every subscriber; most of them keep their values.

    All values except the next due time are usually unchanged. Writing them is safe, because the rows are
    locked, and one statement for all rows is the cheapest.
    """
    considered_until = reader.considered_until
    # Papers that a missed first edition would have shown remain new.
    if slot.missed and considered_until is None:
        considered_until = considered_until_of(reader, now)[0]
    return {
        "id": reader.id,
        "next_due_at": slot.upcoming.due_at,
        "is_resumed": reader.is_resumed,
        "considered_until": considered_until,
        "considered_paper_id": reader.considered_paper_id,
        "last_mail_at": reader.last_mail_at,
    }


def decision_changes(decision: Decision, match_index: MatchIndex, now: datetime) -> dict[str, Any]:
    """Return the columns that a new decision changes, so that the next digest considers only later papers."""
    changes: dict[str, Any] = {
        "is_resumed": False,
        "considered_until": now,
        "considered_paper_id": match_index.last_id,
    }
    if decision.digest.sections:
        changes["last_mail_at"] = now
    return changes
