"""Watching over the house: its figures, what is wrong with it, and the letter that tells the operator.

A trouble has a cause, and a cause is written about once a day. Whoever watches may do so at the same
moment as others: the letter's key keeps it one letter. Figures are counts and moments, never addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from digest import bounces, catalog, db, expectations, outbox, rates
from digest.bounces import Kind
from digest.links import Site
from digest.model import (
    Attempt,
    BounceRow,
    Delivery,
    DeliveryState,
    DumpRow,
    DumpState,
    Heartbeat,
    Lane,
    MailIn,
    MailState,
    PaperRow,
    SourceRow,
    Subscriber,
    SubscriberState,
    Suppression,
)
from digest.transport import Verdict

SILENCE = timedelta(minutes=3)  #: without a sign of life for so long, a role has stopped
ROLES = ("scheduler", "worker")  #: where one of them is, the other must be
NAMES = {"inbound": "inbound door"}
FORGOTTEN = timedelta(days=7)  #: then a role that a house can do without was switched off
OVERDUE = {Lane.PROMPT: timedelta(minutes=30), Lane.BULK: timedelta(hours=3)}
DAY = timedelta(days=1)
TELLING, RECENT = 5, timedelta(hours=2)  #: so many letters, tried since, say how a mail server is
LOOKED_AT = 500  #: attempts among which they are looked for
LATER = frozenset({Verdict.DEFERRED, Verdict.IN_DOUBT})
FEW = 3  #: broken domains that are each written about; more are one trouble
MOST_NAMED = 20
GIVEN_UP = 6  #: failures of a source in a row, patience doubling from five minutes: some three hours


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """One thing that is wrong, and how to mend it."""

    cause: str  #: what makes two troubles the same
    wrong: str
    mend: str
    since: datetime | None = None
    facts: tuple[str, ...] = ()


# ── signs of life ───────────────────────────────────────────────────────────────────────────────


def beat(session: Session, role: str, now: datetime) -> None:
    """Write down that a role is alive."""
    row = {"role": role, "at": now}
    adding = db.upsert(session, Heartbeat).values(row)
    session.execute(adding.on_conflict_do_update(index_elements=["role"], set_=row))
    session.commit()


def heartbeats(session: Session) -> dict[str, datetime]:
    """Return when each role last showed a sign of life."""
    return {row.role: row.at for row in session.execute(select(Heartbeat.role, Heartbeat.at))}


def silent(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield the roles that have stopped. A house without any, run by cron, has none that could."""
    beats = heartbeats(session)
    others = sorted(role for role, at in beats.items() if role not in ROLES and now - at < FORGOTTEN)
    for role in [*ROLES, *others] if beats else []:
        last = beats.get(role)
        if last is None or now - last > SILENCE:
            name = NAMES.get(role, role)
            yield Trouble(
                cause=f"silent-{role}",
                wrong=f"The {name} has stopped" if last else f"There is no {name}",
                mend=f"Start it again: digest up, or digest {role}. Its log says why it ended.",
                since=last,
            )


# ── troubles ────────────────────────────────────────────────────────────────────────────────────


def troubles(session: Session, *, now: datetime) -> list[Trouble]:
    """Return everything in the database that an operator should see to."""
    return [
        *idle(session, now),
        *stopped(session),
        *stuck(session, now),
        *refused_by_policy(session, now),
        *broken_domains(session, now),
        *held_dumps(session, now),
        *late_lists(session, now),
        *failing_sources(session),
    ]


def idle(session: Session, now: datetime) -> list[Trouble]:
    """Return who does not do their work, as far as the database tells: what turns /readyz red."""
    return [*silent(session, now), *late(session, now), *put_off(session, now)]


def stopped(session: Session) -> Iterator[Trouble]:
    """Yield that mail is stopped, and waits for the operator's word."""
    for stop in rates.stopped(session):
        yield Trouble(
            cause=f"stop-{stop.id}",
            wrong="All mail is stopped" if stop.covers == rates.ALL else "Digests are stopped",
            mend="See what went wrong: digest bounces list, and digest deliveries. Then go on: digest deliveries resume.",
            since=stop.since,
            facts=(stop.said,),
        )


def late(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield the lanes in which nobody takes up what is due."""
    for lane, patience in OVERDUE.items():
        if count := outbox.waiting(session, lane=lane, now=now - patience, at_most=10_000):
            yield Trouble(
                cause=f"late-{lane}",
                wrong=f"{count:,} {'letters wait' if count > 1 else 'letter waits'} longer than they should",
                mend="See what the mail server says: digest deliveries --state queued, and digest doctor.",
                since=now - patience,
            )


def put_off(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield that the mail server answers, and takes nothing: it put off every one since the last letters came to it.

    What it put off before and puts off again says nothing: a few full mailboxes are no broken server.
    """
    latest = session.execute(
        select(Attempt.delivery_id, Attempt.verdict, Attempt.began_at, Attempt.code)
        .where(Attempt.verdict.is_not(None))
        .order_by(Attempt.id.desc())
        .limit(LOOKED_AT)
    ).all()
    firsts = sorted({row.delivery_id: place for place, row in enumerate(latest)}.values())[:TELLING]
    recent = latest[: firsts[-1] + 1] if len(firsts) == TELLING else []
    if recent and now - recent[0].began_at < RECENT and all(row.verdict in LATER for row in recent):
        codes = sorted({str(row.code) for row in recent if row.code})
        yield Trouble(
            cause="mail-takes-nothing",
            wrong="The mail server takes no letter",
            mend="It puts off or leaves open every one. Its words: digest deliveries --state queued, and digest trace.",
            since=recent[-1].began_at,
            facts=tuple(f"it says {code}" for code in codes),
        )


def stuck(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield the letters of which nobody can know whether they arrived."""
    found = session.scalars(
        select(Delivery.id)
        .where(Delivery.state == DeliveryState.STUCK, Delivery.settled_at > now - DAY)
        .order_by(Delivery.id)
        .limit(10)
    ).all()
    if found:
        yield Trouble(
            cause="stuck",
            wrong="Letters are stuck: nobody can know whether they arrived",
            mend="Look at each with digest trace, and ask whoever runs the mail server.",
            facts=tuple(f"digest trace {number}" for number in found),
        )


def refused_by_policy(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield that our mail is refused for reasons that are ours to mend; no reader is dropped for it."""
    told = session.execute(
        select(BounceRow.domain, BounceRow.status, func.count(), func.max(BounceRow.said))
        .where(BounceRow.kind == Kind.POLICY, BounceRow.at > now - DAY, BounceRow.forgiven_at.is_(None))
        .group_by(BounceRow.domain, BounceRow.status)
        .order_by(func.count().desc(), BounceRow.domain)
        .limit(10)
    ).all()
    if told:
        yield Trouble(
            cause="policy",
            wrong="Mail is refused because of how we send it",
            mend="No reader is dropped for this. Check SPF, DKIM, DMARC and the reverse name of the server: digest doctor.",
            facts=tuple(
                f"{domain}: {said if status in said else f'{status} {said}'} ({count})"
                for domain, status, count, said in told
            ),
        )


def broken_domains(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield the domains where a mass of addresses failed at once, or where they are many that so many are."""
    broken = bounces.frozen_domains(session, since=now - DAY)
    if len(broken) > FEW:
        yield Trouble(
            cause="frozen-many",
            wrong=f"Addresses of {len(broken)} domains failed within a day",
            mend=(
                "So many at once break where all our mail passes, so nothing is held against anybody. If it is over:"
                " digest bounces forgive --domain DOMAIN. If they are gone: digest bounces accept --domain DOMAIN."
            ),
            facts=tuple(f"{domain} ({count})" for domain, count in list(broken.items())[:MOST_NAMED]),
        )
        return
    for domain, count in broken.items():
        yield Trouble(
            cause=f"frozen-{domain}"[:60],
            wrong=f"{count} addresses of {domain} failed within a day",
            mend=(
                "That is rarely true of so many readers at once, so nothing is held against them. If it is over:"
                f" digest bounces forgive --domain {domain}. If they are gone: digest bounces accept --domain {domain}."
            ),
        )


def held_dumps(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield that dumps wait for the operator's word, since they came short."""
    held = session.execute(
        select(DumpRow.id, DumpRow.path, DumpRow.reason)
        .where(DumpRow.state == DumpState.HELD, DumpRow.read_at > now - DAY)
        .order_by(DumpRow.id)
        .limit(10)
    ).all()
    if held:
        yield Trouble(
            cause="held-dumps",
            wrong="A list came short, and nothing of it was loaded",
            mend="Get it whole, or load it as far as it goes: digest dumps retry ID --incomplete-ok.",
            facts=tuple(f"dump {number}, {Path(path).name}: {reason}" for number, path, reason in held),
        )


def late_lists(session: Session, now: datetime) -> Iterator[Trouble]:
    """Yield that a list has not come which usually has by this hour of this weekday."""
    if missing := expectations.late(catalog.arrivals(session, until=now), now=now):
        yield Trouble(
            cause="late-lists",
            wrong="A list of papers is late",
            mend="Look at what came last: digest dumps list, digest sources list. Ask a source again: digest sources poll SOURCE.",
            since=min(one.expected_by for one in missing),
            facts=tuple(f"{one} (the last came {one.last_at:%Y-%m-%d %H:%M} UTC)" for one in missing),
        )


def failing_sources(session: Session) -> Iterator[Trouble]:
    """Yield the sources that have not answered for hours."""
    failing = session.execute(
        select(SourceRow.name, SourceRow.failures, SourceRow.result)
        .where(SourceRow.is_on, SourceRow.failures >= GIVEN_UP)
        .order_by(SourceRow.name)
    ).all()
    if failing:
        yield Trouble(
            cause="failing-sources",
            wrong="A source of papers cannot be read",
            mend="Try it with digest sources poll SOURCE; one that is gone for good: digest sources remove SOURCE.",
            facts=tuple(f"{name}: {result} ({failures} times)" for name, failures, result in failing),
        )


def write_to_operator(
    session: Session, found: Iterable[Trouble], *, site: Site, operator: str, now: datetime
) -> int:
    """Write one letter a day about each trouble, and return how many were new; commits.

    The letter's key holds off who writes at the same moment. Midnight does not make a trouble new: it is told
    again when the letter of the day before is a day old.
    """
    written = 0
    for trouble in found if operator else ():
        if was_told(session, trouble.cause, now):
            continue
        decision = {
            "wrong": trouble.wrong,
            "mend": trouble.mend,
            "since": f"{trouble.since:%Y-%m-%d %H:%M} UTC" if trouble.since else "",
            "facts": list(trouble.facts),
        }
        number = outbox.put_letter(
            session, letter="alarm", subscriber_id=None, email=operator, decision=decision,
            dedupe_key=alarm_key(trouble.cause, now), site=site, now=now, expires_at=now + DAY,
        )  # fmt: skip
        written += number is not None
    session.commit()
    return written


def was_told(session: Session, cause: str, now: datetime) -> bool:
    """Return whether a letter about it is not yet a day old."""
    keys = [alarm_key(cause, moment) for moment in (now - DAY, now)]
    told = select(Delivery.id).where(Delivery.dedupe_key.in_(keys), Delivery.dated_at > now - DAY)
    return session.scalar(told.limit(1)) is not None


def alarm_key(cause: str, now: datetime) -> str:
    """Return the key of the one letter that is written about a trouble on a day."""
    return f"alarm-{cause}-{now.date()}"


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What can be counted of a house."""

    deliveries: Mapping[str, int]  #: by state
    subscribers: Mapping[str, int]  #: by state
    waiting: Mapping[str, int]  #: due now, by lane
    waiting_since: Mapping[str, datetime]  #: the oldest of them, by lane
    bounces: Mapping[str, int]  #: of the last day, by kind
    suppressions: Mapping[str, int]  #: by reason
    stops: Mapping[str, int]  #: that stand, by what they cover
    mail_in: Mapping[str, int]  #: by state
    papers: int
    last_dump_at: datetime | None
    heartbeats: Mapping[str, datetime]


def figures(session: Session, *, now: datetime) -> Figures:
    """Count."""
    oldest = session.execute(
        select(Delivery.lane, func.count(), func.min(Delivery.due_at))
        .where(outbox.is_due(now))
        .group_by(Delivery.lane)
    ).all()
    return Figures(
        deliveries=named(outbox.counts(session)),
        subscribers=by(session, Subscriber.state, SubscriberState),
        waiting={lane.value: 0 for lane in Lane} | {row[0]: row[1] for row in oldest},
        waiting_since={row[0]: row[2] for row in oldest},
        bounces=by(session, BounceRow.kind, Kind, BounceRow.at > now - DAY),
        suppressions=by(session, Suppression.reason, bounces.Reason),
        stops=stops(session),
        mail_in=by(session, MailIn.state, MailState),
        papers=session.scalar(select(func.count()).where(PaperRow.merged_into.is_(None))) or 0,
        last_dump_at=session.scalar(select(func.max(DumpRow.read_at))),
        heartbeats=heartbeats(session),
    )


def stops(session: Session) -> dict[str, int]:
    """Return how many stops stand, by what they cover."""
    standing = [stop.covers for stop in rates.stopped(session)]
    return {covers: standing.count(covers) for covers in (rates.ALL, rates.BULK)}


def by(
    session: Session,
    column: InstrumentedAttribute[Any],
    names: Iterable[str],
    *conditions: ColumnElement[bool],
) -> dict[str, int]:
    """Return how many rows have each value of a column; every name is named."""
    found = session.execute(select(column, func.count()).where(*conditions).group_by(column)).all()
    return {str(name): 0 for name in names} | {str(value): number for value, number in found}


def named(counts: Mapping[DeliveryState, int]) -> dict[str, int]:
    """Return counts by plain names."""
    return {state.value: number for state, number in counts.items()}
