"""Purses: what may still be sent by now, kept in the database so that all workers draw from the same.

A bucket is one row that fills with time. A quota is a row for each 24th of its hour or day, summed
over the whole of it, so that no hour or day, wherever it begins, sees more. A warm-up is a row for
each day on which mail went out. Whoever draws has locked them until the caller commits, together with
the intents that were paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.model import Pace
from digest.rates.rules import Rate, WarmUp

PACE: Any = Pace.__table__
SKEW = timedelta(seconds=60)  #: by which the clocks of two workers may differ
PARTS = 24  #: of the hour or day of a quota
SETTING = (
    update(PACE)
    .where(PACE.c.name == bindparam("key"))
    .values(tokens=bindparam("left"), at=bindparam("moment"))
)

Turn = Callable[[float], datetime]


@dataclass(kw_only=True)
class Purse:
    """What is left of one limit, and when there is more."""

    reason: str  #: why a letter waits that finds it empty
    left: float
    turn: Turn  #: when that many tokens more than are left are there
    is_for_all: bool  #: nothing can go while it is empty
    keep: Callable[[Session, Purse], None]
    taken: int = 0
    waiting: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether it has no token."""
        return self.left < 1

    def take(self) -> None:
        """Take a token, whether there is one or not."""
        self.left -= 1
        self.taken += 1

    @property
    def next_turn(self) -> datetime:
        """Return when the next letter that waits has its turn."""
        return self.turn(self.waiting + 1 - self.left)


def lock(session: Session, fresh: Mapping[str, float], now: datetime) -> dict[str, tuple[float, datetime]]:
    """Return (tokens, moment) of these rows, made where they are missing, ours until the caller commits.

    They are made and locked in the order of their names, or two workers could wait for each other.
    """
    if not fresh:
        return {}
    names = sorted(fresh)
    rows = [{"name": name, "tokens": fresh[name], "at": now} for name in names]
    session.execute(db.upsert(session, Pace).values(rows).on_conflict_do_nothing())
    found = session.connection().execute(
        select(PACE.c.name, PACE.c.tokens, PACE.c.at)
        .where(db.among(PACE.c.name, names))
        .order_by(PACE.c.name)
        .with_for_update()
    )
    return {row.name: (row.tokens, row.at) for row in found}


def under(session: Session, prefixes: Collection[str]) -> list[tuple[str, float, datetime]]:
    """Return (name, tokens, moment) of every row whose name begins like that, oldest first."""
    if not prefixes:
        return []
    begins = or_(*[PACE.c.name.startswith(prefix, autoescape=True) for prefix in prefixes])
    found = session.connection().execute(
        select(PACE.c.name, PACE.c.tokens, PACE.c.at).where(begins).order_by(PACE.c.at)
    )
    return [(row.name, row.tokens, row.at) for row in found]


# ── a speed ─────────────────────────────────────────────────────────────────────────────────────


def bucket(rate: Rate, tokens: float, at: datetime, now: datetime) -> Purse:
    """Return the bucket of a speed; a clock that was set back fills nothing.

    The time of another worker, if its clock is a little ahead, stands: or each of us would fill what it filled.
    """
    passed = max(0.0, (now - at).total_seconds())
    counted_at = at if now < at <= now + SKEW else now

    def keep(session: Session, purse: Purse) -> None:
        row = {"key": rate.name, "left": purse.left, "moment": counted_at}
        session.connection().execute(SETTING, row)

    return Purse(
        reason=f"the rate of {rate.told} is used up",
        left=min(rate.room, tokens + passed * rate.per_second),
        turn=lambda missing: counted_at + timedelta(seconds=ceil(round(missing / rate.per_second, 6))),
        is_for_all=rate.is_for_all,
        keep=keep,
    )


# ── a quota ─────────────────────────────────────────────────────────────────────────────────────


def quota(rate: Rate, parts: Iterable[tuple[str, float, datetime]], now: datetime) -> Purse:
    """Return the purse of a quota, from what was sent in each part of the time it looks back on."""
    whole, part = timedelta(seconds=rate.seconds), timedelta(seconds=rate.seconds / PARTS)
    mine = [row for row in parts if row[0].startswith(f"{rate.name} ")]
    stands = {name: at + part + whole > now and at <= now + whole for name, _, at in mine}
    counted = [(tokens, at) for name, tokens, at in mine if stands[name]]
    over = [name for name in stands if not stands[name]]  # or kept by a clock that was far ahead

    def turn(missing: float) -> datetime:
        freed = 0.0
        for tokens, at in counted:
            freed += tokens
            if freed >= missing:
                return at + part + whole
        return now + part + whole

    def keep(session: Session, purse: Purse) -> None:
        began = datetime.fromtimestamp(now.timestamp() // part.total_seconds() * part.total_seconds(), UTC)
        if purse.taken:
            add(session, f"{rate.name} {began:%Y-%m-%dT%H:%M:%S}", purse.taken, began)
        forget(session, over)

    return Purse(
        reason=f"the quota of {rate.told} is used up",
        left=rate.amount - sum(tokens for tokens, _ in counted),
        turn=turn,
        is_for_all=rate.is_for_all,
        keep=keep,
    )


# ── a warm-up ───────────────────────────────────────────────────────────────────────────────────


def warm_up_name(warm_up: WarmUp) -> str:
    """Return what its rows are called: another first day begins another warm-up."""
    return f"warm-up {warm_up.since}"


def warming(warm_up: WarmUp, days: Sequence[tuple[str, float, datetime]], now: datetime) -> Purse | None:
    """Return the purse of today, from what was sent on the days before; None before and after the warm-up.

    Days on which nothing was sent do not count: whoever receives our mail learns nothing on them.
    """
    today = warm_up.day_of(now)
    name = f"{warm_up_name(warm_up)} {today}"
    place = sum(day < name and tokens > 0 for day, tokens, _ in days)  # the names are ordered as the days are
    if today < warm_up.since or place >= len(warm_up.table):
        return None
    used = sum(tokens for day, tokens, _ in days if day == name)

    def keep(session: Session, purse: Purse) -> None:
        if purse.taken:
            add(session, name, purse.taken, warm_up.begins_at(today))

    return Purse(
        reason=f"the {warm_up.table[place]} letters of day {place + 1} of the warm-up are sent",
        left=warm_up.table[place] - used,
        turn=lambda _missing: warm_up.begins_at(today + timedelta(days=1)),
        is_for_all=True,
        keep=keep,
    )


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def add(session: Session, name: str, amount: int, at: datetime) -> None:
    """Add what was taken to a row."""
    adding = db.upsert(session, Pace).values(name=name, tokens=float(amount), at=at)
    session.execute(
        adding.on_conflict_do_update(
            index_elements=["name"], set_={"tokens": Pace.tokens + adding.excluded.tokens}
        )
    )


def forget(session: Session, names: Collection[str]) -> None:
    """Drop rows that count no longer."""
    if names:
        session.connection().execute(delete(PACE).where(db.among(PACE.c.name, names)))
