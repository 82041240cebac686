"""Estimate the usual size and arrival time of each source's list per weekday, and detect late lists.

Lists of papers follow a weekly pattern, such as no list on Saturday and twice as many papers on Tuesday. A
day is therefore compared only with the same weekday of earlier weeks. If a weekday usually has no list, no
list is reported late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from statistics import median

MAX_WEEKS_BACK = 8  #: number of earlier weeks with which a day is compared
MIN_WEEKS = 3  #: minimum number of earlier lists from which a usual size is computed or a list is expected
#: A list with less than this share of the usual number of papers is probably incomplete.
FAR_BELOW_SHARE = 0.4
MIN_USUAL = 10  #: minimum usual number of papers; smaller lists vary too much to be compared
LATENESS_SLACK = timedelta(hours=2)  #: minimum delay after the usual time before a list is late
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WORKING_DAYS = frozenset(range(5))
MIN_USUAL_WEEKS = 2  #: papers usually come on a weekday if they came on it this often in four weeks
MAX_SPREAD_FACTOR = 3  #: a list is late only after this multiple of the median deviation from its usual time


@dataclass(frozen=True, kw_only=True, slots=True)
class ListArrival:
    """The source of a list of papers, and the time at which the list arrived."""

    source: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class LateList:
    """A list that a source usually sends on this day and that has not arrived in time."""

    source: str
    day: date
    usual_at: datetime  #: when the list usually arrives
    expected_by: datetime  #: the list is late after this time
    last_at: datetime  #: when the source's last list arrived

    def __str__(self) -> str:
        return f"{self.source}: {self.day:%A}'s list has not arrived; it usually arrives at {self.usual_at:%H:%M} UTC"


def usual_papers(lists: Mapping[date, int], day: date) -> int | None:
    """Return the median number of papers on the weekday of `day`, or None if too few weeks are known."""
    alike = [papers for before, papers in lists.items() if is_same_weekday(before, day)]
    return round(median(alike)) if len(alike) >= MIN_WEEKS else None


def is_far_below(papers: int, usual: int | None) -> bool:
    """Return whether a list has so much fewer papers than usual that it is probably incomplete."""
    return usual is not None and usual >= MIN_USUAL and papers < FAR_BELOW_SHARE * usual


def late_lists(arrivals: Iterable[ListArrival], *, now: datetime) -> tuple[LateList, ...]:
    """Return the latest overdue list of each source, of today or yesterday, sorted by source.

    After a source has sent any later list, its missing list is no longer reported. A source that skipped this
    weekday in two or more of the last four weeks is not expected to send a list.
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
    """Yield the latest overdue list of a source, if any."""
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
    """Return the median of the time spans."""
    return timedelta(seconds=median(span.total_seconds() for span in spans))


def is_expected(firsts: Mapping[date, datetime], day: date) -> bool:
    """Return whether a list arrived on this weekday in at least three of the last four weeks."""
    return sum(day - timedelta(weeks=back) in firsts for back in range(1, MIN_WEEKS + 2)) >= MIN_WEEKS


def is_same_weekday(before: date, day: date) -> bool:
    """Return whether `before` is within the eight weeks before `day` and on the same weekday."""
    distance = (day - before).days
    return 0 < distance <= 7 * MAX_WEEKS_BACK and distance % 7 == 0


def utc_midnight(day: date) -> datetime:
    """Return midnight UTC at the start of `day`."""
    return datetime.combine(day, time(), UTC)


# ── no papers at all ──


@dataclass(frozen=True, kw_only=True, slots=True)
class Silence:
    """A time in which no papers came although they usually do."""

    last: date | None  #: the last day on which papers came
    usual: frozenset[int]  #: the weekdays on which papers usually come; empty if that is not known

    def __str__(self) -> str:
        if self.last is None:
            return "so far"
        usually = f"; they usually come {weekdays_in_words(self.usual)}" if self.usual else ""
        return f"since {self.last:%A}, {self.last}{usually}"


def silence(days: Collection[date], *, since: date, today: date) -> Silence | None:
    """Return the silence if no papers came on the last two usual days before today, else None.

    While less than two weeks are known, or if no papers came `since` the service or source began, the usual
    days are Monday to Friday, and three of them must have passed.
    """
    last = max(days, default=None)
    start, is_known = last or since, bool(days) and max(days) - min(days) >= timedelta(weeks=MIN_USUAL_WEEKS)
    usual = usual_weekdays(days) if is_known else WORKING_DAYS
    missed = sum(
        (start + timedelta(days=ahead)).weekday() in usual for ahead in range(1, (today - start).days)
    )
    return (
        Silence(last=last, usual=usual if is_known else frozenset())
        if missed >= (2 if is_known else 3)
        else None
    )


def usual_weekdays(days: Collection[date]) -> frozenset[int]:
    """Return the weekdays on which papers came at least twice in the last four weeks with papers."""
    latest = [day.weekday() for day in days if max(days) - day < timedelta(weeks=4)]
    return frozenset(day for day in latest if latest.count(day) >= MIN_USUAL_WEEKS) or WORKING_DAYS


def weekdays_in_words(weekdays: Collection[int]) -> str:
    """Return weekdays as text: every day, on weekdays, or their names."""
    if len(weekdays) == len(WEEKDAYS):
        return "every day"
    return (
        "on weekdays"
        if weekdays == WORKING_DAYS
        else f"on {' and '.join(WEEKDAYS[one] for one in sorted(weekdays))}"
    )
