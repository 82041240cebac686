"""How soon a server is asked again: patience that doubles, and what the server itself says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST = timedelta(minutes=5)
LONGEST = timedelta(days=1)
LONGEST_TOLD = timedelta(days=7)  #: a server may ask for more than we would take by ourselves


def again_at(now: datetime, *, failures: int, retry_after: datetime | None) -> datetime:
    """Return when to ask again after so many failures in a row; never before the server says."""
    patience: timedelta = min(FIRST * 2 ** min(max(failures - 1, 0), 20), LONGEST)
    return max(now + patience, min(retry_after or now, now + LONGEST_TOLD))


def retry_after(value: str | None, now: datetime) -> datetime | None:
    """Return the moment that a Retry-After header names (seconds or a date); None if it names none."""
    told = (value or "").strip()
    if told.isascii() and told.isdigit():
        return now + min(timedelta(seconds=int(told[:9])), LONGEST_TOLD)
    try:
        moment = parsedate_to_datetime(told)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
