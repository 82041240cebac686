"""Define how long old rows and files are kept, and how long readers may be inactive. Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import timedelta

from digest import plurals
from digest.errors import BadField

FIELD = "DIGEST_KEEP"
PART = re.compile(r"(?P<what>[a-z]+) (?P<days>\d{1,5}) days?")
MIN_DAYS = {
    "attempts": 30,
    "deliveries": 200,
    "dumps": 1,
}  #: minimum days that each kind is kept; `digest why` needs the deliveries of the last 180 days
MAX_DAYS = 36_500
#: A press, from which digests are made, has papers of at most the last 100 days, so a paper shown before that
#: can never be new again.
KEEP_SHOWN_FOR = timedelta(days=180)
#: How long the press of a digest is stored; without the press, the digest's web page cannot be shown.
KEEP_PRESSES_FOR = timedelta(days=60)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How long old rows and files are kept."""

    attempts: timedelta = timedelta(days=90)
    deliveries: timedelta = timedelta(days=400)
    dumps: timedelta = timedelta(days=30)  #: files in `done/`

    def __str__(self) -> str:
        return ", ".join(f"{name} {span.days} days" for name, span in asdict(self).items())


def parse_retention(text: str) -> Retention:
    """Parse DIGEST_KEEP, with defaults for kinds that it does not name; raise BadField if it is invalid."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = PART.fullmatch(part)
        if match is None or match["what"] not in MIN_DAYS:
            raise BadField(
                FIELD, f"{part!r} is not of the form: attempts 90 days, deliveries 400 days, dumps 30 days"
            )
        what, days = match["what"], int(match["days"])
        if not MIN_DAYS[what] <= days <= MAX_DAYS:
            raise BadField(FIELD, f"{what} are kept for {MIN_DAYS[what]} to {MAX_DAYS} days")
        found[what] = timedelta(days=days)
    kept = Retention(**found)
    if kept.attempts > kept.deliveries:
        raise BadField(FIELD, "attempts cannot be kept longer than their deliveries")
    return kept


# ── inactive readers ───────────────────────────────────────────────────────────────────────────

DAYS_PER_MONTH = 30.44
MONTHS = re.compile(r"([1-9]\d{0,2}) months?")


def parse_still_reading(text: str) -> timedelta | None:
    """Parse DIGEST_STILL_READING, such as `24 months` or `never` (None); raise BadField for other text."""
    if text.strip() == "never":
        return None
    found = MONTHS.fullmatch(text.strip())
    if found is None:
        raise BadField("DIGEST_STILL_READING", "write a number of months, such as 24 months, or never")
    return timedelta(days=round(int(found[1]) * DAYS_PER_MONTH))


def still_reading_text(span: timedelta | None) -> str:
    """Return DIGEST_STILL_READING as the operator writes it, such as `24 months` or `never`."""
    return plurals.count(round(span.days / DAYS_PER_MONTH), "month") if span else "never"
