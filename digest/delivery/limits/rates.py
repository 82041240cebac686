"""Count sent letters in token buckets (per second or minute) and in quotas (per hour or day). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import TypeVar

from digest.delivery.limits.decisions import ALL_MAIL, MAX_CLOCK_SKEW, Refill, Wait, is_ahead

UNIT_SECONDS = {"s": 1, "min": 60, "h": 3_600, "day": 86_400}
UNIT_NAMES = {seconds: unit for unit, seconds in UNIT_SECONDS.items()}
QUOTA_PARTS = 24  #: number of parts into which a quota divides its hour or day
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)
#: Maximum time that a worker itself waits for a token; a letter that must wait longer is requeued.
MAX_TOKEN_WAIT = timedelta(seconds=10)
#: Capacity of a bucket, in seconds of its rate. Workers wait for tokens, so the capacity only needs to cover
#: short delays of a worker.
BURST_SECONDS = 2.0

Part = TypeVar("Part", int, date)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """The maximum number of letters per period: to one domain, through one server, or in total.

    A rate per second or minute is enforced by a token bucket. A rate per hour or day is a quota, which may be
    used up at once.
    """

    domain: str = ""
    server: str = ""
    amount: int
    seconds: int
    burst: float = BURST_SECONDS

    @property
    def scope(self) -> str:
        """Return the scope of the rate: a domain, a server or all mail."""
        return self.server or self.domain or ALL_MAIL

    @property
    def text(self) -> str:
        """Return the rate as text, in the form in which the operator writes it."""
        return f"{self.server or self.domain} {self.amount}/{UNIT_NAMES[self.seconds]}".strip()

    @property
    def is_quota(self) -> bool:
        """Return whether the rate is per hour or day."""
        return self.seconds >= UNIT_SECONDS["h"]

    @property
    def per_second(self) -> float:
        """Return the number of tokens added to the bucket per second."""
        return self.amount / self.seconds

    @property
    def capacity(self) -> float:
        """Return the maximum number of tokens in the bucket."""
        return max(1.0, self.per_second * self.burst)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """The token bucket of a rate per second or minute, whose balance may become negative."""

    rate: Rate
    tokens: float
    counted_at: datetime
    waiting: int = 0  #: number of letters that wait for a token

    @property
    def scope(self) -> str:
        """Return the scope of the rate."""
        return self.rate.scope

    def at(self, now: datetime) -> Bucket:
        """Return the bucket with the tokens added until `now`.

        A clock that was set back adds no tokens. A stored time up to `MAX_CLOCK_SKEW` ahead is kept:
        otherwise two workers with different clocks would both add tokens for the difference between their
        clocks.
        """
        passed = max(0.0, (now - self.counted_at).total_seconds())
        tokens = min(self.rate.capacity, self.tokens + passed * self.rate.per_second)
        is_skewed = is_ahead(self.counted_at, now, at_most=MAX_CLOCK_SKEW)
        return replace(self, tokens=tokens, counted_at=self.counted_at if is_skewed else now)

    def wait(self, now: datetime, *, can_wait: bool = False) -> Wait | None:
        """Return the wait for the next token, or None if there is one.

        A wait of at most `MAX_TOKEN_WAIT` is exact if the worker itself can wait; any other wait is rounded up
        to whole seconds.
        """
        if self.tokens >= 1:
            return None
        seconds = (self.waiting + 1 - self.tokens) / self.rate.per_second
        until, reason = (
            self.counted_at + timedelta(seconds=seconds),
            f"the rate of {self.rate.text} is used up",
        )
        if can_wait and until - now <= MAX_TOKEN_WAIT:
            return Refill(until, reason)
        return Wait(self.counted_at + timedelta(seconds=ceil(round(seconds, 6))), reason)

    def take(self, _now: datetime) -> Bucket:
        """Return the bucket with one token fewer."""
        return replace(self, tokens=self.tokens - 1)

    def release(self, count: int) -> Bucket:
        """Return the bucket with `count` more tokens, up to its capacity."""
        return replace(self, tokens=min(self.rate.capacity, self.tokens + count))


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """The letters sent in each part of the last hour or day.

    The parts are summed over a sliding window, so no hour or day exceeds the rate, whenever it begins.
    """

    rate: Rate
    used: Mapping[int, int]  #: number of letters sent in each part; parts are numbered from 1970 on
    waiting: int = 0  #: number of letters that wait

    @property
    def scope(self) -> str:
        """Return the scope of the rate."""
        return self.rate.scope

    @property
    def length(self) -> timedelta:
        """Return the length of one part of the quota's hour or day."""
        return timedelta(seconds=self.rate.seconds / QUOTA_PARTS)

    def at(self, now: datetime) -> Quota:
        """Return the quota without old parts, and without parts written by a clock that is far ahead."""
        part = (now - EPOCH) // self.length
        return replace(
            self, used={each: n for each, n in self.used.items() if abs(each - part) <= QUOTA_PARTS}
        )

    def wait(self, now: datetime, *, can_wait: bool = False) -> Wait | None:
        """Return the wait until the sliding window allows another letter, or None if it already does.

        The letter is always requeued; a worker does not wait for a quota.
        """
        left = self.rate.amount - sum(self.used.values())
        if left >= 1:
            return None
        missing, part = self.waiting + 1 - left, (now - EPOCH) // self.length
        for part in sorted(self.used):
            missing -= self.used[part]
            if missing <= 0:
                break
        until = EPOCH + (part + 1 + QUOTA_PARTS) * self.length
        return Wait(until, f"the quota of {self.rate.text} is used up")

    def take(self, now: datetime) -> Quota:
        """Return the quota with one more letter counted as sent."""
        part = (now - EPOCH) // self.length
        return replace(self, used={**self.used, part: self.used.get(part, 0) + 1})

    def release(self, count: int) -> Quota:
        """Return the quota with `count` fewer letters counted as sent."""
        return replace(self, used=reduce_latest(self.used, count))


def reduce_latest(used: Mapping[Part, int], count: int) -> dict[Part, int]:
    """Return the counts reduced by a total of `count`, beginning with the latest part."""
    reduced = dict(used)
    for part in sorted(used, reverse=True):
        less = min(count, used[part])
        reduced[part] -= less
        count -= less
    return reduced
