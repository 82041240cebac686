"""Publish one chunk of due subscribers in one transaction: load, decide, write.

 due rows ─▶ topics, shown papers ─▶ decisions ─▶ deliveries, shown, considered_until ─▶ nothing-today letters ─▶ commit

A chunk of hundreds of subscribers takes only a dozen SQL statements, on plain rows and tuples. If the process
crashes, nothing of the chunk is stored. A second or concurrent run finds that the editions are already
decided, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from digest import db, plurals
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import Subscriber
from digest.delivery import shown
from digest.delivery.outbox import enqueue
from digest.editions.schedule import ScheduleStatus
from digest.process import failpoints, gc_control
from digest.publishing import nothing_today, pending_updates
from digest.publishing.decide_digest import coverage_of, decide_digest, schedule_status_of
from digest.publishing.due_readers import lock_due_readers
from digest.publishing.missed_editions import record_missed_editions
from digest.publishing.publication import Publication, gather_inputs
from digest.publishing.reader_values import Decision, GatheredInputs, Reader
from digest.site.site_profile import Site

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


def publish_chunk(
    publication: Publication, *, after_id: int, limit: int = 500
) -> tuple[PublishReport, int | None]:
    """Publish the next due subscribers after `after_id`; return the counts and the last subscriber's id.

    The returned id is None when no due subscriber is left. Commits.
    """
    conflicts = 0
    while True:
        try:
            with gc_control.gc_paused():
                return publish_once(publication, after_id=after_id, limit=limit, conflicts=conflicts)
        except IntegrityError:
            publication.session.rollback()
            conflicts += 1
            if conflicts == MAX_CONFLICTS:
                raise


def publish_once(
    publication: Publication, *, after_id: int, limit: int, conflicts: int
) -> tuple[PublishReport, int | None]:
    """Try to publish the next chunk; `conflicts` is the number of attempts that failed.

    The values of the chunk are freed when this function returns. The garbage collector is enabled only
    afterwards, so it does not traverse them.
    """
    session, now = publication.session, publication.now
    db.commit_asynchronously(session)
    readers = lock_due_readers(session, after_id=after_id, limit=limit, now=now)
    if not readers:
        session.commit()
        return PublishReport(), None
    gathered = gather_inputs(publication, readers)
    # A reader with a promise has not got that edition, unless another run decides it concurrently.
    unsure = [reader.id for reader in readers if conflicts or reader.next_due_at is None]
    decided = enqueue.decided_editions(session, unsure, now) if unsure else {}
    slots = {
        reader.id: schedule_status_of(reader, now, decided.get(reader.id, frozenset())) for reader in readers
    }
    published = decide_and_write(session, publication.site, gathered, slots)
    failpoints.reach("chunk-written")
    session.commit()
    failpoints.reach("chunk-published")
    return published, readers[-1].id


def decide_and_write(
    session: Session, site: Site, gathered: GatheredInputs, slots: Mapping[int, ScheduleStatus]
) -> PublishReport:
    """Decide and write all digests of the chunk; `slots` are the states of the schedules by subscriber id.

    Raises IntegrityError if a reader already has the edition, or if another letter showed the reader one of
    the papers at the same time. Both conflicts are too rare to be checked in advance.
    """
    due = [(reader, slots[reader.id].due) for reader in gathered.readers]
    decisions = [decide_digest(gathered, reader, edition) for reader, edition in due if edition is not None]
    new = dict(zip(enqueue.reserve_ids(session, len(decisions)), decisions, strict=True))
    shared = {"key_id": site.signing_key_id, "dated_at": gathered.now}
    enqueue.queue_new_digests(session, [delivery_row(*one, gathered) for one in new.items()], shared=shared)
    failpoints.reach("digests-written")
    shown.record_new(
        session,
        [
            (one.reader.id, number, one.digest.papers, one.edition.day)
            for number, one in new.items()
            if one.digest.sections
        ],
    )
    changes = {one.id: subscriber_changes(one, slots[one.id], gathered.now) for one in gathered.readers}
    for one in decisions:
        changes[one.reader.id] |= decision_changes(one, gathered)
    db.update_many(session, Subscriber, list(changes.values()))
    expired = record_missed_editions(session, gathered.readers, slots, now=gathered.now)
    write_nothing_today_and_followups(session, site, gathered, slots, new)
    queued = sum(bool(one.digest.sections) for one in decisions)
    return PublishReport(due=len(new) + expired, queued=queued, empty=len(new) - queued, expired=expired)


def delivery_row(number: int, decision: Decision, gathered: GatheredInputs) -> dict[str, Any]:
    """Return the delivery row that stores the decision.

    Columns with the same value in all rows of the chunk are left out.
    """
    reader, edition, checked = decision.reader, decision.edition, decision.digest.checked
    is_empty = not decision.digest.sections
    nothing = f"{plurals.count(checked, 'paper')} checked, none matched" if checked else "no new papers"
    return {
        "id": number,
        "subscriber_id": reader.id,
        "email": reader.email,
        "edition": edition.name,
        "decision": decision.digest.to_json(),
        "press": None if is_empty else gathered.match_index.press.name,
        "covers_from": decision.covered.until,
        "covers_paper_id": decision.covered.paper_id,
        "state": DeliveryState.EMPTY if is_empty else DeliveryState.QUEUED,
        "reason": nothing if is_empty else "",
        "due_at": edition.due_at,
        "expires_at": edition.closes_at,
        "settled_at": gathered.now if is_empty else None,
    }


def write_nothing_today_and_followups(
    session: Session,
    site: Site,
    gathered: GatheredInputs,
    slots: Mapping[int, ScheduleStatus],
    new: Mapping[int, Decision],
) -> None:
    """Write the nothing-today letters, and record in which letter each update was sent."""
    now = gathered.now
    without_digest = [one for one in new.values() if nothing_today.needs_letter(one, now)]
    due_letters = [(one, slots[one.reader.id].upcoming.due_at) for one in without_digest]
    letters = nothing_today.queue_nothing_today_letters(session, gathered, due_letters, site=site)
    db.update_many(session, Subscriber, [{"id": number, "last_mail_at": now} for number in letters])
    got_letter = {one.reader.id for one in without_digest}
    sent_followups = [
        (one.reader.id, letters.get(one.reader.id, number), one.pending.news)
        for number, one in new.items()
        if one.pending is not None and (one.digest.sections or one.reader.id in got_letter)
    ]
    pending_updates.record_followups(session, sent_followups, now=now)


def subscriber_changes(reader: Reader, slot: ScheduleStatus, now: datetime) -> dict[str, Any]:
    """Return the columns to write for every subscriber; most of them keep their values.

    All values except the next due time are usually unchanged. Writing them is safe, because the rows are
    locked, and one statement for all rows is the cheapest.
    """
    considered_until = reader.considered_until
    # Papers that a missed first edition would have shown remain new.
    if slot.missed and considered_until is None:
        considered_until = coverage_of(reader, now).until
    return {
        "id": reader.id,
        "next_due_at": slot.upcoming.due_at,
        "is_resumed": reader.is_resumed,
        "considered_until": considered_until,
        "considered_paper_id": reader.considered_paper_id,
        "last_mail_at": reader.last_mail_at,
    }


def decision_changes(decision: Decision, gathered: GatheredInputs) -> dict[str, Any]:
    """Return the columns that a new decision changes, so that the next digest considers only later papers."""
    return {
        "is_resumed": False,
        "considered_until": gathered.now,
        "considered_paper_id": gathered.match_index.last_id,
        **({"last_mail_at": gathered.now} if decision.digest.sections else {}),
    }
