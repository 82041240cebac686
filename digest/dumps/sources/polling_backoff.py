"""Compute when to poll a server again, from its consecutive failures and its Retry-After header."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST_BACKOFF = timedelta(minutes=5)
MAX_BACKOFF = timedelta(days=1)
MAX_RETRY_AFTER = timedelta(days=7)  #: the longest wait that a Retry-After header can cause


def next_request_at(now: datetime, *, failures: int, retry_after: datetime | None) -> datetime:
    """Return when to poll again after this many consecutive failures, but not before `retry_after`."""
    backoff: timedelta = min(FIRST_BACKOFF * 2 ** min(max(failures - 1, 0), 20), MAX_BACKOFF)
    return max(now + backoff, min(retry_after or now, now + MAX_RETRY_AFTER))


def parse_retry_after(value: str | None, now: datetime) -> datetime | None:
    """Return the time in a Retry-After header (seconds or a date); None without a valid header."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return now + min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
