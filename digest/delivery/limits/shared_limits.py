"""Load the counts of the limits, apply a decision, and write the changes.

The rows of a limit stay locked until the caller commits them together with the intents of a window. Therefore
no limit is exceeded even if a worker dies. To prevent deadlocks, rows are locked in the order of their keys, and
tables in this order: rates, warm-up days, conversations, pauses. Callers commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from sqlalchemy import Row, and_, bindparam, delete, literal, null, or_, select, union_all, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Lane
from digest.db.tables.limits import (
    CanaryWait,
    ConversationRow,
    DailyCount,
    DomainPause,
    RateCounter,
    WarmUpDay,
)
from digest.db.tables.service_state import EmergencyStop
from digest.delivery.limits import domain_pauses
from digest.delivery.limits.canary import MIN_LETTERS, Canary
from digest.delivery.limits.conversations import ConversationLease, Conversations
from digest.delivery.limits.decisions import ALL_MAIL, Wait
from digest.delivery.limits.domain_pauses import DomainRecord, LetterReply, Pause, domain_of
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.limiter import Allowance, Limiter, Reservation, Window
from digest.delivery.limits.rates import EPOCH, ONE_DAY, Bucket, Quota
from digest.delivery.limits.warm_up import WarmUp
from digest.delivery.outbox.delivery_listing import count_due

#: How long rows are kept after their pause, conversation or canary has ended: longer than a month, because
#: the canary of a monthly edition is needed for a month.
KEEP_ROWS_FOR = timedelta(days=45)

COUNTERS, DAYS, CONVERSATIONS, PAUSES, CANARIES, STOPS = (
    table.__table__.c
    for table in (RateCounter, WarmUpDay, ConversationRow, DomainPause, CanaryWait, EmergencyStop)
)
Table = type[db.Base]
Rows = dict[tuple[Any, ...], dict[str, Any]]  #: the values of rows, keyed by primary key


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def lock_rows(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> Sequence[Row[Any]]:
    """Create the missing rows among these, lock all of them until the caller commits, and return them."""
    if not rows:
        return []
    keys = key_names(table)
    in_order = sorted(rows, key=lambda row: [row[name] for name in keys])
    insert = db.upsert(session, table)
    unchanged = {keys[0]: insert.excluded[keys[0]]}
    locking = insert.on_conflict_do_update(index_elements=keys, set_=unchanged)
    return session.connection().execute(locking.returning(*table.__table__.c), in_order).all()


def write_changes(session: Session, table: Table, before: Rows, after: Rows) -> None:
    """Delete the rows that `after` lacks, and write the rows that are new or changed in it."""
    keys = key_names(table)
    if gone := sorted(before.keys() - after.keys()):
        is_key = and_(*[table.__table__.c[name] == bindparam(f"the_{name}") for name in keys])
        session.connection().execute(
            delete(table).where(is_key),
            [{f"the_{name}": part for name, part in zip(keys, key, strict=True)} for key in gone],
        )
    changed = [key for key in sorted(after) if after[key] != before.get(key)]
    if changed:
        rows = [dict(zip(keys, key, strict=True)) | after[key] for key in changed]
        insert = db.upsert(session, table)
        values = {name: insert.excluded[name] for name in after[changed[0]]}
        session.connection().execute(insert.on_conflict_do_update(index_elements=keys, set_=values), rows)


def key_names(table: Table) -> list[str]:
    """Return the names of a table's primary key columns."""
    return [column.name for column in table.__table__.primary_key]


# ── reserve and release ─────────────────────────────────────────────────────────────────────────


def reserve(session: Session, rules: SendLimits, window: Window, *, now: datetime) -> Reservation:
    """Take tokens for the letters of a window that may be sent, and return the decision about each letter."""
    domains = set(window.domains.values())
    blocks = load_blocks(session, {*domains, *[share.name for share in rules.servers]}, now)
    before = replace(blocks, servers=rules.servers, hours=rules.hours)
    if rules.are_counted and not before.lane_wait(window, now):
        allowances = load_allowances(session, rules, domains, now)
        conversations = load_conversations(session, rules, domains)
        before = replace(before, allowances=allowances, conversations=conversations)
    reservation = before.reserve(window, now)
    save(session, before, reservation.limiter)
    return reservation


def release(
    session: Session, rules: SendLimits, unsent: Collection[tuple[str, str]], *, now: datetime
) -> None:
    """Give back the tokens of letters that no server received, so that an outage uses up no quota.

    Each letter is given by its address and its assigned server.
    """
    if not (unsent and rules.are_counted):
        return
    letters = [(domain_of(email), server) for email, server in unsent]
    before = Limiter(allowances=load_allowances(session, rules, {domain for domain, _ in letters}, now))
    save(session, before, before.release(letters))


def save(session: Session, before: Limiter, after: Limiter) -> None:
    """Write the differences between two limiters to the database."""
    write_changes(session, RateCounter, counter_rows(before.allowances), counter_rows(after.allowances))
    write_changes(session, WarmUpDay, day_rows(before.allowances), day_rows(after.allowances))
    held = conversation_rows(before.conversations)
    write_changes(session, ConversationRow, held, conversation_rows(after.conversations))


LATELY = bindparam("lately", type_=db.UtcDateTime)
WAITS_QUERY = union_all(
    select(PAUSES.scope, PAUSES.until, PAUSES.strikes, PAUSES.deferred_at, null().label("reason")).where(
        db.one_of(PAUSES.scope, db.values_param("scopes", PAUSES.scope)),
        or_(PAUSES.until > LATELY, PAUSES.deferred_at > LATELY),
    ),
    select(STOPS.scope, STOPS.since, literal(0), null(), STOPS.reason).where(STOPS.lifted_at.is_(None)),
)


def load_blocks(session: Session, scopes: Collection[str], now: datetime) -> Limiter:
    """Return a limiter with the pauses and deferrals of these scopes, and the emergency stops.

    All are read in a single query, because every window needs them.
    """
    given = {"scopes": sorted(scopes), "lately": now - domain_pauses.STRIKES_FORGOTTEN_AFTER}
    rows = session.connection().execute(WAITS_QUERY, given).all()
    return Limiter(
        stops={row.scope: row.reason for row in rows if row.reason is not None},
        pauses={row.scope: Pause(until=row.until) for row in rows if row.reason is None},
        deferring={row.scope for row in rows if row.strikes or row.deferred_at},
    )


def load_allowances(
    session: Session, rules: SendLimits, domains: Collection[str], now: datetime
) -> tuple[Allowance, ...]:
    """Lock and return the allowances (buckets, quotas and warm-up) for letters to these domains."""
    rates = [rate for rate in rules.all_rates if not rate.domain or rate.domain in domains]
    fresh = {
        (rate.scope, rate.seconds): {
            "scope": rate.scope, "seconds": rate.seconds, "part": 0, "tokens": rate.capacity, "used": 0, "counted_at": now,
        }
        for rate in rates
    }  # fmt: skip
    rows = {(row.scope, row.seconds): row for row in lock_rows(session, RateCounter, list(fresh.values()))}
    used = load_quota_parts(session, {rate.scope for rate in rates if rate.is_quota})
    allowances: list[Allowance] = [
        Quota(rate=rate, used=used.get(key, {}))
        if rate.is_quota
        else Bucket(rate=rate, tokens=rows[key].tokens, counted_at=rows[key].counted_at)
        for rate in rates
        for key in [(rate.scope, rate.seconds)]
    ]
    return (*allowances, load_warm_up(session, rules.warm_up)) if rules.warm_up else tuple(allowances)


def load_quota_parts(session: Session, scopes: Collection[str]) -> dict[tuple[str, int], dict[int, int]]:
    """Return the number of letters in each part of the quotas of these scopes."""
    found: dict[tuple[str, int], dict[int, int]] = {}
    if scopes:
        parts = select(RateCounter).where(db.one_of(COUNTERS.scope, sorted(scopes)), COUNTERS.part > 0)
        for row in session.connection().execute(parts):
            found.setdefault((row.scope, row.seconds), {})[row.part] = row.used
    return found


def load_warm_up(session: Session, warm_up: WarmUp) -> WarmUp:
    """Lock a warm-up by the row of its first day, and return it with the letters sent on each of its days."""
    lock_rows(session, WarmUpDay, [{"since": warm_up.since, "day": warm_up.since, "used": 0}])
    days = session.connection().execute(select(DAYS.day, DAYS.used).where(DAYS.since == warm_up.since))
    return replace(warm_up, used={row.day: row.used for row in days})


def counter_rows(allowances: Iterable[Allowance]) -> Rows:
    """Return the database rows of the buckets and quotas among these allowances."""
    found: Rows = {}
    for each in allowances:
        if isinstance(each, Bucket):
            row = {"tokens": each.tokens, "used": 0, "counted_at": each.counted_at}
            found[each.scope, each.rate.seconds, 0] = row
        elif isinstance(each, Quota):
            for part, used in each.used.items():
                found[each.scope, each.rate.seconds, part] = {"tokens": 0.0, "used": used, "counted_at": None}
    return found


def day_rows(allowances: Iterable[Allowance]) -> Rows:
    """Return the database rows of the warm-ups among these allowances."""
    warm_ups = [each for each in allowances if isinstance(each, WarmUp)]
    return {(each.since, day): {"used": used} for each in warm_ups for day, used in each.used.items()}


# ── conversations with a domain ─────────────────────────────────────────────────────────────────


def load_conversations(
    session: Session, rules: SendLimits, domains: Collection[str]
) -> dict[str, Conversations]:
    """Lock and return the conversations with the domains that have a limit, keyed by domain."""
    limits = {domain: limit for domain in domains if (limit := rules.conversation_limit(domain)) is not None}
    if not limits:
        return {}
    locks = [{"domain": domain, "number": 0, "lease": "", "until": EPOCH} for domain in limits]
    lock_rows(session, ConversationRow, locks)
    held: dict[str, dict[int, ConversationLease]] = {domain: {} for domain in limits}
    found = select(ConversationRow).where(db.one_of(CONVERSATIONS.domain, sorted(limits)))
    for row in session.connection().execute(found):
        held[row.domain][row.number] = ConversationLease(row.lease, row.until)
    return {
        domain: Conversations(domain=domain, limit=limits[domain], held=each) for domain, each in held.items()
    }


def conversation_rows(conversations: Mapping[str, Conversations]) -> Rows:
    """Return the database rows of these conversations."""
    return {
        (domain, number): each._asdict()
        for domain, of_domain in conversations.items()
        for number, each in of_domain.held.items()
    }


def end_conversations(session: Session, rules: SendLimits, emails: Collection[str], *, lease: str) -> None:
    """End this worker's conversations with the domains of these addresses, so that others can begin."""
    before = load_conversations(session, rules, {domain_of(email) for email in emails})
    after = {domain: each.end(lease) for domain, each in before.items()}
    write_changes(session, ConversationRow, conversation_rows(before), conversation_rows(after))


# ── domains that defer letters, and pauses ──────────────────────────────────────────────────────


def record_replies(session: Session, replies: Mapping[str, Sequence[LetterReply]], *, now: datetime) -> None:
    """Store the replies of domains, and pause each domain that deferred several recipients in succession."""
    never = Pause(until=now - domain_pauses.STRIKES_FORGOTTEN_AFTER)
    fresh = pause_rows({domain: DomainRecord(pause=never) for domain in replies})
    rows = lock_rows(session, DomainPause, [{"scope": key[0]} | values for key, values in fresh.items()])
    before = {
        row.scope: DomainRecord(
            pause=Pause(until=row.until, strikes=row.strikes),
            deferred=frozenset(row.deferred), deferred_at=row.deferred_at,
        )
        for row in rows
    }  # fmt: skip
    after = {domain: record.after(replies[domain], now) for domain, record in before.items()}
    write_changes(session, DomainPause, pause_rows(before), pause_rows(after))


def pause_rows(records: Mapping[str, DomainRecord]) -> Rows:
    """Return the database rows of these domain records."""
    return {
        (scope,): {
            "until": each.pause.until, "strikes": each.pause.strikes,
            "deferred": sorted(each.deferred), "deferred_at": each.deferred_at,
        }
        for scope, each in records.items()
    }  # fmt: skip


def pause_server(session: Session, server: str, until: datetime) -> None:
    """Pause a server until the time `until`."""
    pause = DomainRecord(pause=Pause(until=until))
    write_changes(session, DomainPause, {}, pause_rows({server: pause}))


def active_pauses(session: Session, *, now: datetime) -> dict[str, datetime]:
    """Return each paused domain and server, with the end of its pause."""
    lasting = (PAUSES.until > now, PAUSES.until <= now + domain_pauses.MAX_PAUSE)
    found = session.connection().execute(select(PAUSES.scope, PAUSES.until).where(*lasting))
    return {"the mail server" if row.scope == ALL_MAIL else row.scope: row.until for row in found}


def end_pauses(session: Session, *, now: datetime) -> None:
    """End the pauses of all domains and servers; the next pause of each is as long as if they had ended by themselves."""
    session.connection().execute(update(DomainPause).where(PAUSES.until > now).values(until=now))


def canary_waits(
    session: Session, canary: Canary, editions: Set[str], *, claimed: int, now: datetime
) -> dict[str, Wait]:
    """Return when each edition's wait for the results of its canary ends.

    This call begins the wait of each new edition, unless the canary would have too few letters to be
    conclusive: the claimed ones, and those that are still due. In that case the wait begins when enough letters are
    due, because letters to other time zones become due later.
    """
    known = select(CanaryWait).where(db.one_of(CANARIES.edition, sorted(editions)))
    rows = list(session.connection().execute(known).all())
    new, enough = editions - {row.edition for row in rows}, MIN_LETTERS / canary.share
    if new and claimed + count_due(session, lane=Lane.BULK, now=now, limit=ceil(enough)) >= enough:
        rows += lock_rows(
            session, CanaryWait, [{"edition": edition, "until": now + canary.wait} for edition in new]
        )
    waits = {row.edition: canary.wait_for(row.edition, row.until, now) for row in rows}
    before: Rows = {(row.edition,): {"until": row.until} for row in rows}
    after: Rows = {(edition,): {"until": wait.until} for edition, wait in waits.items()}
    write_changes(session, CanaryWait, before, after)
    return waits


def delete_old_limits(session: Session, *, now: datetime) -> int:
    """Delete pauses, conversations and canaries that ended long ago; return the number of deleted rows."""
    connection, before = session.connection(), now - KEEP_ROWS_FOR
    ends = (PAUSES.until, CONVERSATIONS.until, CANARIES.until)
    connection.execute(delete(DailyCount).where(DailyCount.day < (now - ONE_DAY).date()))
    return sum(connection.execute(delete(each.table).where(each < before)).rowcount for each in ends)
