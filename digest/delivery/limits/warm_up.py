"""Allow a new sender more letters on each day with mail, as its reputation grows. Pure.

DIGEST_WARM_UP     2026-11-20, or with your own table: 2026-11-20: 200, 500, 1000
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time

from digest.delivery.limits.decisions import ALL_MAIL, Wait
from digest.delivery.limits.rates import ONE_DAY, reduce_latest
from digest.editions.schedule import local_instant
from digest.editions.time_zones import zone_of
from digest.errors import BadField

#: Maximum number of letters on each day of a warm-up, unless the operator sets a table. After the last day
#: there is no limit.
DEFAULT_WARM_UP = (
    200, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 25_000, 40_000, 70_000, 100_000, 150_000, 250_000, 400_000,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmUp:
    """The number of letters allowed on the first day with mail, on the second, and so on.

    Days without mail do not count, because they do not improve the sender's reputation.
    """

    since: date
    table: tuple[int, ...]
    zone: str
    used: Mapping[date, int] = field(default_factory=dict)
    waiting: int = 0  #: number of letters that wait
    scope = ALL_MAIL

    def day_of(self, now: datetime) -> date:
        """Return the date at `now` in the operator's time zone."""
        return now.astimezone(zone_of(self.zone)).date()

    def at(self, now: datetime) -> WarmUp:
        """Return the warm-up unchanged, because its counts do not depend on the time."""
        return self

    def wait(self, now: datetime, *, can_wait: bool = False) -> Wait | None:
        """Return the wait until tomorrow, or None if more letters may be sent today."""
        today = self.day_of(now)
        place = self.place(today)
        if place is None or self.used.get(today, 0) < self.table[place]:
            return None
        reason = f"all {self.table[place]} letters of day {place + 1} of the warm-up were sent"
        return Wait(local_instant(today + ONE_DAY, time(), zone_of(self.zone)), reason)

    def place(self, today: date) -> int | None:
        """Return the number of days with mail before today, or None before and after the warm-up."""
        place = sum(day < today and used > 0 for day, used in self.used.items())
        return place if today >= self.since and place < len(self.table) else None

    def take(self, now: datetime) -> WarmUp:
        """Return the warm-up with one more letter counted today; outside the warm-up, return it unchanged."""
        today = self.day_of(now)
        if self.place(today) is None:
            return self
        return replace(self, used={**self.used, today: self.used.get(today, 0) + 1})

    def release(self, count: int) -> WarmUp:
        """Return the warm-up with `count` fewer letters counted."""
        return replace(self, used=reduce_latest(self.used, count))


def parse_warm_up(text: str, zone: str) -> WarmUp | None:
    """Parse a warm-up such as `2026-11-20` or `2026-11-20: 200, 500`; return None for an empty string.

    Raises BadField if the text cannot be parsed, or if an amount is below 1.
    """
    day, _, table = text.strip().partition(":")
    if not day:
        return None
    try:
        amounts = tuple(int(part) for part in table.split(",")) if table.strip() else DEFAULT_WARM_UP
        found = WarmUp(since=date.fromisoformat(day.strip()), table=amounts, zone=zone)
    except ValueError:
        found = None
    if found is None or min(found.table) < 1:
        raise BadField(
            "DIGEST_WARM_UP",
            f"{text!r} is not a warm-up; write its first day, 2026-11-20, or 2026-11-20: 200, 500.",
        )
    return found
