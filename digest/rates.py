"""How fast mail may go: token buckets that hold across all workers, and domains that asked us to wait.

A bucket is one row. A window's tokens are taken in one go, in the transaction that keeps its intents,
so what goes out has been paid for whoever dies. It holds a minute's worth at most: after a quiet night
nothing bursts. Nothing here commits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.errors import BadField
from digest.model import Pace

SECONDS = {"s": 1, "min": 60, "h": 3_600, "day": 86_400}
RULE = re.compile(r"(?:(?P<domain>[\w.-]+\.\w+)\s+)?(?P<amount>\d+)/(?P<unit>s|min|h|day)")
BURST = 60.0  #: seconds' worth of tokens that a bucket holds
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=1)
WEARY = timedelta(hours=2)  #: after so long without another "slow down" a domain's pauses begin anew

#: What a server says when it is about how much we send there, not about this message (RFC 3463, X.7.X).
SLOW_DOWN = re.compile(r"\b4\.7\.\d+\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """So many letters in so many seconds: to one domain, or in all (`domain` is empty)."""

    domain: str = ""
    amount: int
    seconds: int

    @property
    def name(self) -> str:
        """Return what its bucket is called."""
        return f"{self.domain or 'all'}/{self.seconds}"

    @property
    def per_second(self) -> float:
        """Return how fast the bucket fills."""
        return self.amount / self.seconds

    @property
    def room(self) -> float:
        """Return how many tokens the bucket holds."""
        return max(1.0, min(self.amount, self.per_second * BURST))


def parse(told: str) -> tuple[Rate, ...]:
    """Return the rates of `50/s, 100000/day, example.org 20/min`, or raise BadField."""
    found = []
    for rule in filter(None, map(str.strip, told.split(","))):
        match = RULE.fullmatch(rule)
        if match is None or not int(match["amount"]):
            raise BadField(
                "DIGEST_RATES", f"{rule!r} is no rate; write 50/s, 100000/day, example.org 20/min."
            )
        found.append(
            Rate(
                domain=(match["domain"] or "").lower(),
                amount=int(match["amount"]),
                seconds=SECONDS[match["unit"]],
            )
        )
    return tuple(found)


# ── taking ──────────────────────────────────────────────────────────────────────────────────────


def held(
    session: Session, rates: Sequence[Rate], emails: Mapping[int, str], *, now: datetime, is_urgent: bool
) -> dict[int, tuple[datetime, str]]:
    """Take the tokens for these letters, and return those that must wait, with the moment and the reason.

    Urgent letters, which somebody waits for, take what they need and never wait for tokens.
    """
    domains = {number: domain_of(email) for number, email in emails.items()}
    waiting = paused(session, set(domains.values()), now=now)
    late = {
        number: (waiting[domain], f"{domain} asked us to slow down")
        for number, domain in domains.items()
        if domain in waiting
    }
    ours = [rate for rate in rates if not rate.domain or rate.domain in domains.values()]
    buckets = opened(session, ours, now=now) if ours and len(late) < len(domains) else {}
    queued = Counter[str]()
    for number, domain in domains.items():
        asked = [rate for rate in ours if rate.domain in {"", domain}]
        if number in late or not buckets:
            continue
        empty = [rate for rate in asked if buckets[rate.name] < 1]
        if empty and not is_urgent:
            slowest = min(empty, key=lambda rate: rate.per_second)
            queued[slowest.name] += 1
            seconds = (queued[slowest.name] - buckets[slowest.name]) / slowest.per_second
            late[number] = now + timedelta(seconds=seconds), f"the rate of {slowest.name} is used up"
            continue
        for rate in asked:
            buckets[rate.name] -= 1
    for name, tokens in buckets.items():
        session.merge(Pace(name=name, tokens=tokens, at=now))
    session.flush()
    return late


def opened(session: Session, rates: Iterable[Rate], *, now: datetime) -> dict[str, float]:
    """Return how many tokens each bucket holds by now, locked until the caller commits."""
    by_name = {rate.name: rate for rate in rates}
    fresh = [{"name": rate.name, "tokens": rate.room, "at": now} for rate in by_name.values()]
    session.execute(db.upsert(session, Pace).values(fresh).on_conflict_do_nothing())
    found = session.execute(
        select(Pace.name, Pace.tokens, Pace.at)
        .where(Pace.name.in_(by_name))
        .order_by(Pace.name)
        .with_for_update()
    )
    return {row.name: filled(row, by_name[row.name], now) for row in found}


def filled(row: Any, rate: Rate, now: datetime) -> float:
    """Return the tokens of a bucket at `now`; a clock that was set back fills nothing."""
    passed = max(0.0, (now - row.at).total_seconds())
    tokens: float = min(rate.room, row.tokens + passed * rate.per_second)
    return tokens


# ── domains that asked us to wait ───────────────────────────────────────────────────────────────


def is_slow_down(code: int | None, reply: str, phase: str) -> bool:
    """Return whether a reply is about how much we send to that domain."""
    return phase in {"rcpt", "data", "dot"} and (code == 421 or bool(SLOW_DOWN.search(reply)))


def pause(session: Session, email: str, *, now: datetime) -> datetime:
    """Let a domain's letters wait: for 5, 10, 20, ... minutes, up to an hour. Return until when."""
    name = f"pause {domain_of(email)}"
    kept = session.get(Pace, name, populate_existing=True)
    if kept is not None and kept.at > now:
        standing_until: datetime = kept.at
        return standing_until  # another letter of the same window said so
    strikes = int(kept.tokens) + 1 if kept is not None and now - kept.at < WEARY else 1
    until: datetime = now + min(FIRST_PAUSE * 2 ** min(strikes - 1, 10), LONGEST_PAUSE)
    session.merge(Pace(name=name, tokens=float(strikes), at=until))
    session.flush()
    return until


def paused(session: Session, domains: Iterable[str], *, now: datetime) -> dict[str, datetime]:
    """Return which of these domains wait, and until when."""
    names = {f"pause {domain}": domain for domain in domains}
    found = session.execute(select(Pace.name, Pace.at).where(Pace.name.in_(names), Pace.at > now))
    return {names[row.name]: row.at for row in found}


def domain_of(email: str) -> str:
    """Return the domain of an address."""
    return email.rpartition("@")[2].lower()


def standing(session: Session, *, now: datetime) -> dict[str, datetime]:
    """Return every domain that waits now, for people to see."""
    found = session.execute(select(Pace.name, Pace.at).where(Pace.name.startswith("pause "), Pace.at > now))
    return {row.name.removeprefix("pause "): row.at for row in found}
