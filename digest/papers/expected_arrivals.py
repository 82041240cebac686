"""Compute how many papers a source usually brings on a weekday and by when, and which lists are late.

Lists of papers follow the week: none on Saturday, twice as many on Tuesday. So a day is compared only
with the same weekday of earlier weeks. A weekday that usually has no list has none missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from statistics import median

MAX_WEEKS_BACK = 8  #: weeks compared
MIN_WEEKS = 3  #: same weekdays needed for a usual figure; for a list to be expected, of the last four
FAR_BELOW_SHARE = 0.4  #: a list below this share of the usual size is far below it
MIN_USUAL = 10  #: papers; below this usual size, any number may be chance
LATENESS_SLACK = timedelta(
    hours=2
)  #: after the usual hour; more for a source that is not on time to the minute
MAX_SPREAD_FACTOR = 3  #: times the median distance from the usual hour


@dataclass(frozen=True, kw_only=True, slots=True)
class ListArrival:
    """The arrival of a list from a source."""

    source: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class LateList:
    """A list that should have arrived."""

    source: str
    day: date
    usual_at: datetime  #: when it usually arrives
    expected_by: datetime  #: after this it is late
    last_at: datetime  #: when the source last brought a list

    def __str__(self) -> str:
        return f"{self.source}: nothing yet of {self.day:%A}'s list, which usually comes at {self.usual_at:%H:%M} UTC"


def usual_papers(lists: Mapping[date, int], day: date) -> int | None:
    """Return the median number of papers on that weekday; None if too few weeks are known."""
    alike = [papers for before, papers in lists.items() if is_same_weekday(before, day)]
    return round(median(alike)) if len(alike) >= MIN_WEEKS else None


def is_far_below(papers: int, usual: int | None) -> bool:
    """Return whether a list is so short that it is probably incomplete."""
    return usual is not None and usual >= MIN_USUAL and papers < FAR_BELOW_SHARE * usual


def late_lists(arrivals: Iterable[ListArrival], *, now: datetime) -> tuple[LateList, ...]:
    """Return the lists of today and yesterday that should have arrived and have not, by source.

    Any list from a source ends its lateness. After two of the last four such weekdays without a list, none
    is expected any more.
    """
    firsts: dict[str, dict[date, datetime]] = defaultdict(dict)
    for arrival in sorted(arrivals, key=lambda one: one.at):
        moment = arrival.at.astimezone(UTC)
        if moment <= now:
            firsts[arrival.source].setdefault(moment.date(), moment)
    return tuple(
        missing for source, days in sorted(firsts.items()) for missing in missed_lists(source, days, now)
    )


def missed_lists(source: str, firsts: Mapping[date, datetime], now: datetime) -> Iterator[LateList]:
    """Yield the latest list that a source should have brought and has not, if any."""
    today = now.astimezone(UTC).date()
    for day in (today, today - timedelta(days=1)):
        hours = [at - utc_midnight(before) for before, at in firsts.items() if is_same_weekday(before, day)]
        if not is_expected(firsts, day) or any(arrived >= day for arrived in firsts):
            continue
        usual = median_span(hours)
        distance = median_span([abs(hour - usual) for hour in hours])
        by = utc_midnight(day) + usual + max(LATENESS_SLACK, MAX_SPREAD_FACTOR * distance)
        if now > by:
            yield LateList(
                source=source,
                day=day,
                usual_at=utc_midnight(day) + usual,
                expected_by=by,
                last_at=max(firsts.values()),
            )
            return


def median_span(spans: Iterable[timedelta]) -> timedelta:
    """Return the median of some time spans."""
    return timedelta(seconds=median(span.total_seconds() for span in spans))


def is_expected(firsts: Mapping[date, datetime], day: date) -> bool:
    """Return whether a list came on at least three of the last four such weekdays."""
    return sum(day - timedelta(weeks=back) in firsts for back in range(1, MIN_WEEKS + 2)) >= MIN_WEEKS


def is_same_weekday(before: date, day: date) -> bool:
    """Return whether `before` is the same weekday in the eight weeks before `day`."""
    distance = (day - before).days
    return 0 < distance <= 7 * MAX_WEEKS_BACK and distance % 7 == 0


def utc_midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime.combine(day, time(), UTC)
