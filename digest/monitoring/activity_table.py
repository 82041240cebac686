"""Describe recent activity as rows with small charts, for `digest status --since` and the weekly letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from digest import plurals

if TYPE_CHECKING:
    from digest.monitoring.activity import Activity, Series

BARS = "▁▂▃▄▅▆▇█"
NO_BAR = "·"
NOTHING = "Nothing happened in this period."


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivityRow:
    """The displayed values of one kind of event."""

    name: str
    total: int
    before: str  #: the total of the preceding period, and the change in percent
    chart: str  #: a bar for each day
    most: int  #: the highest number on one day


def rows(found: Activity) -> list[ActivityRow]:
    """Return a row for each kind of event that happened in this period or the preceding one."""
    return [
        ActivityRow(
            name=one.name,
            total=one.total,
            before=change_text(one),
            chart=chart(one.per_day),
            most=max(one.per_day),
        )
        for one in found.series
        if one.total or one.before
    ]


def period(found: Activity) -> str:
    """Return the period in words: the number of days, the first day and the last day."""
    return f"{plurals.count(len(found.days), 'day')}, {found.days[0]} to {found.days[-1]}"


def summary(found: Activity) -> str:
    """Return sentences about the subscribers now and the letters in doubt."""
    active = f"{plurals.count(found.active, 'active subscriber')} now."
    if not found.doubts:
        return f"{active} No letters in doubt."
    return f"{active} {plurals.count(found.doubts, 'letter')} in doubt: the mail server did not answer every attempt."


def change_text(one: Series) -> str:
    """Return the total of the preceding period, and the change in percent."""
    if not one.before:
        return "0"
    change = round(100 * (one.total - one.before) / one.before)
    return f"{one.before:,} ({change:+d}%)".replace("-", "−") if change else f"{one.before:,}"


def chart(counts: Sequence[int], *, width: int = 31) -> str:
    """Return a bar for each count, relative to the highest.

    If there are many days, each bar is the sum of several days.
    """
    size = -(-len(counts) // width)
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    highest = max(sums)
    if not highest:
        return NO_BAR * len(sums)
    return "".join(NO_BAR if not one else BARS[(one * (len(BARS) - 1)) // highest] for one in sums)
