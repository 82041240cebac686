"""What a source usually brings on a weekday, and by when: values in, values out.

Lists of papers follow the week: nothing on a Saturday, twice as much on a Tuesday. So a day is only
compared with the same weekday of the weeks before it, and where there was nothing, nothing is missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from statistics import median

WEEKS = 8  #: looked back
LEAST = 3  #: days alike that make a custom; for a list to be missed, of the last four
FEW = 0.4  #: a smaller share of what is usual is far below it
LEAST_USUAL = 10  #: of fewer papers, any number is chance
SLACK = timedelta(hours=2)  #: after the usual hour; more for a source that is not on time to the minute
LOOSE = 3  #: times the usual distance from the usual hour


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A list came from a source."""

    source: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Late:
    """A list that should have come."""

    source: str
    day: date
    usual_at: datetime  #: when it would have come
    expected_by: datetime  #: and until when nobody worried
    last_at: datetime  #: when anything came from there

    def __str__(self) -> str:
        return f"{self.source}: nothing yet of {self.day:%A}'s list, which usually comes at {self.usual_at:%H:%M} UTC"


def usual_papers(lists: Mapping[date, int], day: date) -> int | None:
    """Return how many papers are usual on that weekday; None where too few weeks are known."""
    alike = [papers for before, papers in lists.items() if is_alike(before, day)]
    return round(median(alike)) if len(alike) >= LEAST else None


def is_far_below(papers: int, usual: int | None) -> bool:
    """Return whether a list is so much shorter than usual that something must be wrong with it."""
    return usual is not None and usual >= LEAST_USUAL and papers < FEW * usual


def late(arrivals: Iterable[Arrival], *, now: datetime) -> tuple[Late, ...]:
    """Return the lists of today and yesterday that should have come and have not, by source.

    Whatever comes from a source ends its lateness. One that was silent on two of the last four such
    weekdays is not expected any more.
    """
    firsts: dict[str, dict[date, datetime]] = defaultdict(dict)
    for arrival in sorted(arrivals, key=lambda one: one.at):
        moment = arrival.at.astimezone(UTC)
        if moment <= now:
            firsts[arrival.source].setdefault(moment.date(), moment)
    return tuple(missing for source, days in sorted(firsts.items()) for missing in missed(source, days, now))


def missed(source: str, firsts: Mapping[date, datetime], now: datetime) -> Iterator[Late]:
    """Yield the latest list that a source should have brought and has not."""
    today = now.astimezone(UTC).date()
    for day in (today, today - timedelta(days=1)):
        hours = [at - midnight(before) for before, at in firsts.items() if is_alike(before, day)]
        if not is_expected(firsts, day) or any(came >= day for came in firsts):
            continue
        usual = middle(hours)
        distance = middle([abs(hour - usual) for hour in hours])
        by = midnight(day) + usual + max(SLACK, LOOSE * distance)
        if now > by:
            yield Late(
                source=source,
                day=day,
                usual_at=midnight(day) + usual,
                expected_by=by,
                last_at=max(firsts.values()),
            )
            return


def middle(spans: Iterable[timedelta]) -> timedelta:
    """Return the median of some time spans."""
    return timedelta(seconds=median(span.total_seconds() for span in spans))


def is_expected(firsts: Mapping[date, datetime], day: date) -> bool:
    """Return whether a list came on most of the last such weekdays."""
    return sum(day - timedelta(weeks=back) in firsts for back in range(1, LEAST + 2)) >= LEAST


def is_alike(before: date, day: date) -> bool:
    """Return whether an earlier day is the same weekday, not too long ago."""
    distance = (day - before).days
    return 0 < distance <= 7 * WEEKS and distance % 7 == 0


def midnight(day: date) -> datetime:
    """Return the first moment of a day in UTC."""
    return datetime.combine(day, time(), UTC)
