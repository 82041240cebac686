"""One chunk of subscribers: who is due is gathered, decided on and written, in one transaction.

 rows due ─▶ topics, showings ─▶ decisions ─▶ deliveries ─▶ showings of the new ones ─▶ cuts ─▶ commit

A dozen statements for hundreds of subscribers, plain rows and tuples. Dying anywhere leaves nothing
of the chunk; running it twice, or two at once, finds the editions taken and writes nothing again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, time, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from digest import db, editions, garbage, outbox, showings
from digest.composition import TRENDING, Caps, Choice, Digest, Wish, compose, matching
from digest.editions import Cadence, Edition, Schedule
from digest.links import Site
from digest.model import DeliveryState, FilterRow, Meaning, Subscriber, SubscriberState, Subscription
from digest.press import Press, fitted
from digest.publishing import followups, offers, quiet
from digest.publishing.desk import FIRST_LOOK, SECOND_CHANCE, Cut, Desk, start_of_day
from digest.publishing.followups import Pending

#: Back from a leave; of who is still away, the next digest is the one that they come back to.
IS_BACK = or_(Subscriber.is_back, Subscriber.state == SubscriberState.PAUSED).label("is_back")

#: What deciding needs to know of a subscriber.
COLUMNS = (
    *(
        Subscriber.__table__.c[name]
        for name in (
            "id", "email", "cadence", "at", "timezone", "weekday", "not_after", "max_papers", "max_per_topic",
            "min_papers", "max_age_days", "wants_trending", "next_due_at", "cut_at", "cut_paper_id",
            "created_at", "confirmed_at", "heard_at", "wants_quiet_letters", "full_in_a_row", "offered_at",
        )
    ),
    IS_BACK,
)  # fmt: skip

Reader = Row[Any]  #: of `COLUMNS`
Topic = tuple[str, int]  #: its name and the id of its filter

#: A filter's matches take a few kilobytes; who holds a rare one is seldom followed by another who does.
MOST_FILTERS = 20_000

#: Who was on leave for less than this has missed too little to be told so.
AWAY = timedelta(days=3)

NOTHING = Choice(matches=0, order=(), place={}, worth={}, fit={})


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
class Slot:
    """What a schedule says at a moment."""

    open: Edition | None
    missed: tuple[Edition, ...]
    next_due_at: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """What one subscriber is shown in one edition."""

    reader: Reader
    edition: Edition
    digest: Digest
    eligible: int  #: the papers it could show, by number
    covers_from: datetime
    is_held: bool  #: fewer papers than wanted: they stay news for the next edition
    pending: Pending | None = None  #: what became of earlier papers


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that deciding on a chunk needs."""

    readers: Sequence[Reader]
    topics: Mapping[int, Sequence[Topic]]
    shown: Mapping[int, set[int]]  #: subscriber to the numbers of papers
    pending: Mapping[int, Pending]  #: subscriber to what became of papers they were sent


def publish_chunk(
    session: Session, press: Press, *, site: Site, after_id: int, limit: int = 500, now: datetime
) -> tuple[Published, int | None]:
    """Publish the next due subscribers after `after_id`; return what came of it and the last one's id.

    None for the id says that nobody is left. Commits.
    """
    desk = desk_of(press)
    with garbage.held_off():
        while True:
            db.commit_unhurried(session)
            gathered = gather(session, desk, readers(session, after_id=after_id, limit=limit, now=now), now)
            if not gathered.readers:
                session.commit()
                return Published(), None
            published = apply(session, desk, gathered, site=site, now=now)
            if published is not None:
                session.commit()
                return published, gathered.readers[-1].id
            session.rollback()  # a letter showed one of them a paper meanwhile: look again


# ── gathering ───────────────────────────────────────────────────────────────────────────────────


def is_due(now: datetime) -> ColumnElement[bool]:
    """Return the condition for being due: active, and the promised moment has come or none was promised."""
    promised = or_(Subscriber.next_due_at.is_(None), Subscriber.next_due_at <= now)
    return and_(Subscriber.state == SubscriberState.ACTIVE, promised)


def reach(session: Session, now: datetime, *, and_for: int | None = None) -> tuple[int, datetime | None]:
    """Return how many are due, and the moment from which on papers may matter to them (and to one more)."""
    wanted = is_due(now) if and_for is None else or_(is_due(now), Subscriber.id == and_for)
    came = case((Subscriber.cut_at.is_(None), func.coalesce(Subscriber.confirmed_at, Subscriber.created_at)))
    promised = case((Subscriber.cut_at.is_(None), Subscriber.next_due_at))
    moments = func.min(Subscriber.cut_at), func.min(came), func.min(promised)
    due, cut, came_at, promised_at = session.execute(select(func.count(), *moments).where(wanted)).one()
    back = (cut, SECOND_CHANCE), (came_at, FIRST_LOOK), (promised_at, FIRST_LOOK)
    return due, min((moment - reaching for moment, reaching in back if moment), default=None)


def readers(session: Session, *, after_id: int, limit: int, now: datetime) -> Sequence[Reader]:
    """Return the next due subscribers, locked: a second publisher waits here, and finds them not due."""
    wanted = select(*COLUMNS).where(is_due(now), Subscriber.id > after_id).order_by(Subscriber.id)
    return session.connection().execute(wanted.limit(limit).with_for_update(key_share=True)).all()


def gather(session: Session, desk: Desk, found: Sequence[Reader], now: datetime) -> Gathered:
    """Return these subscribers with their topics, what they were shown of this press, and news of earlier."""
    ids = [reader.id for reader in found]
    topics = topics_of(session, ids) if ids else {}
    learn(session, desk, {number for some in topics.values() for _, number in some})
    shown: dict[int, set[int]] = defaultdict(set)
    if ids and desk.ids:
        for subscriber_id, paper_id in showings.of(session, ids, since_id=min(desk.ids)):
            number = desk.press.number.get(paper_id)
            if number is not None:
                shown[subscriber_id].add(number)
    return Gathered(found, topics, shown, followups.pending(session, found, now))


def topics_of(session: Session, ids: Sequence[int]) -> Mapping[int, Sequence[Topic]]:
    """Return the topics of each of these subscribers, in their order."""
    topics: dict[int, list[Topic]] = defaultdict(list)
    held = SUBSCRIPTION.c
    wanted = (
        select(held.subscriber_id, held.name, held.filter_id)
        .where(db.among(held.subscriber_id, ids))
        .order_by(held.subscriber_id, held.position, held.id)
    )
    meant = meanings(session)
    for subscriber_id, name, number in session.connection().execute(wanted):
        topics[subscriber_id].append((name, meant.get(number, number)))
    return topics


def meanings(session: Session) -> Mapping[int, int]:
    """Return what filters that use packs stand for now, by id: decisions are made, and kept, on those."""
    found = session.connection().execute(select(MEANING.c.filter_id, MEANING.c.stands_for_id))
    return {row[0]: row[1] for row in found}


def learn(session: Session, desk: Desk, numbers: Iterable[int]) -> None:
    """Let the desk evaluate those of these filters that it does not know."""
    if len(desk.choices) > MOST_FILTERS:
        desk.choices.clear()
        desk.canonicals.clear()
    new = [number for number in numbers if number not in desk.choices]
    if new:
        wanted = select(FILTER.c.id, FILTER.c.canonical).where(db.among(FILTER.c.id, new))
        found = session.connection().execute(wanted)
        desk.learn({row[0]: row[1] for row in found})


def desk_of(press: Press) -> Desk:
    """Return the desk of that press; this process keeps the last two."""
    if press.name not in DESKS:
        DESKS[press.name] = Desk(press)
        while len(DESKS) > 2:
            del DESKS[next(iter(DESKS))]
    return DESKS[press.name]


DESKS: dict[str, Desk] = {}


# ── deciding ────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def slot_of(
    cadence: str,
    at: time,
    timezone: str,
    weekday: int,
    not_after: time | None,
    promised: datetime | None,
    now: datetime,
) -> Slot:
    """Return what a schedule says at `now` to somebody who was promised a digest at `promised`."""
    schedule = Schedule(
        cadence=Cadence(cadence), at=at, timezone=timezone, weekday=weekday, not_after=not_after
    )
    return Slot(
        open=editions.edition_open(schedule, now),
        missed=editions.editions_missed(schedule, promised, now) if promised else (),
        next_due_at=editions.edition_after(schedule, now).due_at,
    )


def slot_for(reader: Reader, now: datetime) -> Slot:
    """Return what the reader's schedule says at `now`."""
    return slot_of(
        reader.cadence, reader.at, reader.timezone, reader.weekday, reader.not_after, reader.next_due_at, now
    )


def decide(
    desk: Desk, gathered: Gathered, reader: Reader, edition: Edition, now: datetime, *, site: Site
) -> Decision:
    """Return what this reader is shown in this edition. The one place where that is decided."""
    cut = cut_of(reader, now)
    eligible = desk.eligible(cut, start_of_day(reader.created_at), now)
    if reader.max_age_days is not None:
        eligible &= desk.young(reader.max_age_days, edition.day)
    caps = caps_of(reader.max_papers, reader.max_per_topic, reader.min_papers)
    topics = gathered.topics.get(reader.id, ())
    wishes = wishes_of(desk, reader, topics)
    shown = gathered.shown.get(reader.id, ())
    sections = compose(wishes, eligible=eligible, ids=desk.ids, shown=shown, caps=caps)
    is_catch_up = bool(reader.is_back) and now - cut[0] >= AWAY
    pending = gathered.pending.get(reader.id)
    digest = Digest(
        sections=sections,
        checked=eligible.bit_count(),
        is_catch_up=is_catch_up,
        matched=matching(wishes, eligible, shown) if is_catch_up else 0,
        news=pending.news if pending and sections else (),
        offer=offers.offer(desk, reader, topics, sections, now) if reader.full_in_a_row else None,
    )
    return Decision(
        reader=reader,
        edition=edition,
        digest=fitted(desk.press, site, digest, desk.canonicals),
        eligible=eligible,
        covers_from=cut[0],
        is_held=not sections and caps.at_least > 1,
        pending=pending,
    )


def cut_of(reader: Reader | Subscriber, now: datetime) -> Cut:
    """Return up to where papers were considered for this reader.

    The first look of a new one goes back a day from the edition they were promised first; if nobody
    published that one, to when they came.
    """
    if reader.cut_at is not None:
        return reader.cut_at, reader.cut_paper_id
    came = reader.confirmed_at or reader.created_at
    return min(came, min(now, reader.next_due_at or now) - FIRST_LOOK), reader.cut_paper_id


@lru_cache(maxsize=1024)
def caps_of(papers: int, per_topic: int, at_least: int) -> Caps:
    """Return how much a reader wants to read."""
    return Caps(papers=papers, per_topic=per_topic, at_least=at_least)


def wishes_of(desk: Desk, reader: Reader, topics: Sequence[Topic]) -> list[Wish]:
    """Return what the reader asked for: their topics, and what trends if they want it or named none."""
    wishes = [Wish(name, number, desk.choices.get(number, NOTHING)) for name, number in topics]
    if reader.wants_trending or not wishes:
        wishes.append(Wish(TRENDING, None, desk.trending))
    return wishes


# ── applying ────────────────────────────────────────────────────────────────────────────────────


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
    written = outbox.put_digests(session, [row_of(one, desk.press, site, now) for one in decided])
    new = [one for one in decided if one.reader.id in written]
    if not put_showings(session, new, written):
        return None
    expired = put_missed(session, slots, now)
    keep_first_looks(session, slots, now)
    slot_by_id = {reader.id: slot for reader, slot in slots}
    told = put_quiet(session, desk, gathered, new, slot_by_id, site=site, now=now)
    if not put_news(session, new, written | told, now):
        return None
    promised = move_cuts(session, gathered, new, desk, now, told=told, slots=slot_by_id)
    promise(session, [pair for pair in slots if pair[0].id not in waiting | promised])
    queued = sum(bool(one.digest.sections) for one in new)
    return Published(
        due=len(decided) + expired,
        queued=queued,
        empty=len(new) - queued,
        already=len(decided) - len(new),
        expired=expired,
    )


def waits(decision: Decision) -> bool:
    """Return whether an edition without papers may wait for today's dump: its reader gave it an hour."""
    return not decision.digest.sections and decision.reader.not_after is not None


def row_of(decision: Decision, press: Press, site: Site, now: datetime) -> dict[str, Any]:
    """Return the delivery that keeps the decision."""
    reader, edition = decision.reader, decision.edition
    is_empty = not decision.digest.sections
    return {
        "subscriber_id": reader.id,
        "email": reader.email,
        "edition": edition.name,
        "decision": decision.digest.to_json(),
        "press": press.name if decision.is_held or not is_empty else None,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "covers_from": decision.covers_from,
        "covers_to": now,
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
        by_day[one.edition.day].extend(
            [(subscriber_id, paper_id, delivery_id) for paper_id in one.digest.papers]
        )
    return all(showings.put(session, some, shown_on=day) == len(some) for day, some in by_day.items())


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


def keep_first_looks(session: Session, slots: Iterable[tuple[Reader, Slot]], now: datetime) -> None:
    """Let a new reader's missed first edition be made up for: the promise it hangs on is about to move."""
    for reader, slot in slots:
        if slot.missed and reader.cut_at is None:
            change(session, [reader.id], {"cut_at": cut_of(reader, now)[0]})


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


def move_cuts(
    session: Session,
    gathered: Gathered,
    new: Sequence[Decision],
    desk: Desk,
    now: datetime,
    *,
    told: Collection[int],
    slots: Mapping[int, Slot],
) -> set[int]:
    """Let the next digests of these begin where this one ended, or where a held one began.

    Who was told something, in a digest or in a quiet letter, has heard from us. Whom a digest goes to is
    promised the next one in the same breath: their ids are returned.
    """
    done = {"is_back": False, "cut_at": now, "cut_paper_id": max(desk.ids, default=0)}
    heard = [
        one.reader.id for one in new if not one.digest.sections and one.reader.id in told and not one.is_held
    ]
    read: dict[tuple[str, bool, datetime], list[int]] = defaultdict(list)
    for one in new:
        if one.digest.sections:
            reader, due_at = one.reader, slots[one.reader.id].next_due_at
            topics = gathered.topics.get(reader.id, ())
            full = offers.counted(reader.full_in_a_row, topics, one.digest.sections)
            read[full, one.digest.offer is not None, due_at].append(reader.id)
    for (full, is_offered, due_at), ids in read.items():
        moved = {**done, "heard_at": now, "full_in_a_row": full, "next_due_at": due_at}
        change(session, ids, moved | ({"offered_at": now} if is_offered else {}))
    silent = [
        one.reader.id for one in new if not (one.digest.sections or one.is_held or one.reader.id in told)
    ]
    change(session, heard, {**done, "heard_at": now})
    change(session, silent, done)
    change(
        session, [one.reader.id for one in new if one.is_held and one.reader.id in told], {"heard_at": now}
    )
    for one in new:
        if one.is_held and one.reader.cut_at is None:
            change(session, [one.reader.id], {"cut_at": one.covers_from})
    return {number for ids in read.values() for number in ids}


def promise(session: Session, slots: Iterable[tuple[Reader, Slot]]) -> None:
    """Write down when everybody is due next."""
    by_moment: dict[datetime, list[int]] = defaultdict(list)
    for reader, slot in slots:
        by_moment[slot.next_due_at].append(reader.id)
    for moment, ids in by_moment.items():
        change(session, ids, {"next_due_at": moment})


def change(session: Session, ids: Sequence[int], values: Mapping[str, Any]) -> None:
    """Write the same values to all of these subscribers."""
    if ids:
        chosen = db.among(SUBSCRIBER.c.id, ids)
        session.connection().execute(update(SUBSCRIBER).where(chosen).values(**values))


#: The tables themselves: what goes through the mapping looks at every object.
SUBSCRIBER: Any = Subscriber.__table__
SUBSCRIPTION: Any = Subscription.__table__
FILTER: Any = FilterRow.__table__
MEANING: Any = Meaning.__table__
