"""Store what may still be sent, so that all workers share the same limits.

A bucket is one row that fills with time. A quota has a row for each 24th of its hour or day; the rows are
summed over a sliding hour or day, so none sees more, wherever it begins. A warm-up has a row for each day
on which mail went out. A reservation locks the rows until the caller commits them together with the
intents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Pace
from digest.delivery.limits.limit_rules import Rate, WarmUp

PACE_TABLE: Any = Pace.__table__
MAX_CLOCK_SKEW = timedelta(seconds=60)  #: how far the clocks of two workers may differ
QUOTA_PARTS = 24  #: parts of an hour or day in which a quota is counted
SET_BUCKET_STATEMENT = (
    update(PACE_TABLE)
    .where(PACE_TABLE.c.name == bindparam("key"))
    .values(tokens=bindparam("left"), at=bindparam("moment"))
)

#: How long a worker waits for a token itself; a letter that must wait longer is queued again.
MAX_TOKEN_WAIT = timedelta(seconds=10)


class Wait(NamedTuple):
    """Until when something waits, and why."""

    until: datetime
    reason: str


NextTurn = Callable[[float], datetime]


@dataclass(kw_only=True)
class Quota:
    """What is left of one limit, and when more becomes available."""

    reason: str  #: why a letter waits when this is empty
    tokens_left: float
    next_moment: NextTurn  #: when the given number of missing tokens will be available
    is_for_all: bool  #: nothing can be sent while it is empty
    save: Callable[[Session, Quota], None]
    #: The same to the fraction of a second, for rates that a worker can wait for.
    exact_turn: NextTurn | None = None
    taken: int = 0
    waiting: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no token is left."""
        return self.tokens_left < 1

    def take(self) -> None:
        """Take a token; the balance may become negative."""
        self.tokens_left -= 1
        self.taken += 1

    @property
    def next_turn(self) -> datetime:
        """Return when the next waiting letter may go."""
        return self.next_moment(self.waiting + 1 - self.tokens_left)

    def refill(self, now: datetime) -> Wait | None:
        """Return the wait for the next token if it is short enough for the worker to wait, else None."""
        if self.exact_turn is None:
            return None
        until = self.exact_turn(self.waiting + 1 - self.tokens_left)
        return Wait(until, self.reason) if until - now <= MAX_TOKEN_WAIT else None


def lock_rows(
    session: Session, fresh: Mapping[str, float], now: datetime
) -> dict[str, tuple[float, datetime]]:
    """Lock these rows until the caller commits, creating missing ones, and return {name: (tokens, moment)}.

    Rows are created and locked in the order of their names, so that two workers cannot deadlock.
    """
    if not fresh:
        return {}
    names = sorted(fresh)
    rows = [{"name": name, "tokens": fresh[name], "at": now} for name in names]
    session.execute(db.upsert(session, Pace).values(rows).on_conflict_do_nothing())
    found = session.connection().execute(
        select(PACE_TABLE.c.name, PACE_TABLE.c.tokens, PACE_TABLE.c.at)
        .where(db.one_of(PACE_TABLE.c.name, names))
        .order_by(PACE_TABLE.c.name)
        .with_for_update()
    )
    return {row.name: (row.tokens, row.at) for row in found}


def rows_with_prefix(session: Session, prefixes: Collection[str]) -> list[tuple[str, float, datetime]]:
    """Return (name, tokens, moment) of every row whose name begins with one of the prefixes, oldest first."""
    if not prefixes:
        return []
    begins = or_(*[PACE_TABLE.c.name.startswith(prefix, autoescape=True) for prefix in prefixes])
    found = session.connection().execute(
        select(PACE_TABLE.c.name, PACE_TABLE.c.tokens, PACE_TABLE.c.at)
        .where(begins)
        .order_by(PACE_TABLE.c.at)
    )
    return [(row.name, row.tokens, row.at) for row in found]


# ── rates ─────────────────────────────────────────────────────────────────────────────────────


def bucket_of_rate(rate: Rate, tokens: float, at: datetime, now: datetime) -> Quota:
    """Return the bucket of a rate per second or minute, filled up to `now`.

    A clock that was set back fills nothing. Where the stored moment is up to `MAX_CLOCK_SKEW` ahead, it is
    kept: otherwise two workers with different clocks would both count the time between.
    """
    passed = max(0.0, (now - at).total_seconds())
    counted_at = at if now < at <= now + MAX_CLOCK_SKEW else now

    def save(session: Session, quota: Quota) -> None:
        row = {"key": rate.name, "left": quota.tokens_left, "moment": counted_at}
        session.connection().execute(SET_BUCKET_STATEMENT, row)

    return Quota(
        reason=f"the rate of {rate.text} is used up",
        tokens_left=min(rate.capacity, tokens + passed * rate.per_second),
        next_moment=lambda missing: counted_at + timedelta(seconds=ceil(round(missing / rate.per_second, 6))),
        is_for_all=rate.is_for_all,
        save=save,
        exact_turn=lambda missing: counted_at + timedelta(seconds=missing / rate.per_second),
    )


# ── quotas ─────────────────────────────────────────────────────────────────────────────────────


def quota_of_rate(rate: Rate, parts: Iterable[tuple[str, float, datetime]], now: datetime) -> Quota:
    """Return what is left of a quota per hour or day, from what was sent in each part of it."""
    whole, part = timedelta(seconds=rate.seconds), timedelta(seconds=rate.seconds / QUOTA_PARTS)
    rows = [row for row in parts if row[0].startswith(f"{rate.name} ")]
    is_current = {name: at + part + whole > now and at <= now + whole for name, _, at in rows}
    counted = [(tokens, at) for name, tokens, at in rows if is_current[name]]
    expired = [
        name for name in is_current if not is_current[name]
    ]  # or written by a clock that was far ahead

    def turn(missing: float) -> datetime:
        freed = 0.0
        for tokens, at in counted:
            freed += tokens
            if freed >= missing:
                return at + part + whole
        return now + part + whole

    def save(session: Session, quota: Quota) -> None:
        began = datetime.fromtimestamp(now.timestamp() // part.total_seconds() * part.total_seconds(), UTC)
        if quota.taken:
            add_tokens(session, f"{rate.name} {began:%Y-%m-%dT%H:%M:%S}", quota.taken, began)
        delete_rows(session, expired)

    return Quota(
        reason=f"the quota of {rate.text} is used up",
        tokens_left=rate.amount - sum(tokens for tokens, _ in counted),
        next_moment=turn,
        is_for_all=rate.is_for_all,
        save=save,
    )


# ── warm-up ───────────────────────────────────────────────────────────────────────────────────


def warm_up_name(warm_up: WarmUp) -> str:
    """Return the name of a warm-up's rows; a new first day starts a new warm-up."""
    return f"warm-up {warm_up.since}"


def warm_up_quota(
    warm_up: WarmUp, days: Sequence[tuple[str, float, datetime]], now: datetime
) -> Quota | None:
    """Return what is left of today's warm-up allowance, or None before and after the warm-up.

    Days on which nothing was sent do not count: receiving servers learn nothing from them.
    """
    today = warm_up.day_of(now)
    name = f"{warm_up_name(warm_up)} {today}"
    place = sum(day < name and tokens > 0 for day, tokens, _ in days)  # names sort in the order of days
    if today < warm_up.since or place >= len(warm_up.table):
        return None
    used = sum(tokens for day, tokens, _ in days if day == name)

    def save(session: Session, quota: Quota) -> None:
        if quota.taken:
            add_tokens(session, name, quota.taken, warm_up.begins_at(today))

    return Quota(
        reason=f"the {warm_up.table[place]} letters of day {place + 1} of the warm-up are sent",
        tokens_left=warm_up.table[place] - used,
        next_moment=lambda _missing: warm_up.begins_at(today + timedelta(days=1)),
        is_for_all=True,
        save=save,
    )


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def add_tokens(session: Session, name: str, amount: int, at: datetime) -> None:
    """Add an amount to a row, creating it if it is missing."""
    insert = db.upsert(session, Pace).values(name=name, tokens=float(amount), at=at)
    session.execute(
        insert.on_conflict_do_update(
            index_elements=["name"], set_={"tokens": Pace.tokens + insert.excluded.tokens}
        )
    )


def delete_rows(session: Session, names: Collection[str]) -> None:
    """Delete rows that no longer count."""
    if names:
        session.connection().execute(delete(PACE_TABLE).where(db.one_of(PACE_TABLE.c.name, names)))
