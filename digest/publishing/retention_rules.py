"""Define how long old rows and files are kept, and how long readers may be inactive. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from digest import plurals
from digest.errors import BadField

FIELD = "DIGEST_KEEP"
FORM = "attempts 90 days, deliveries 400 days, dumps 30 days, inactive readers 24 months (or never)"
PART = re.compile(r"(?P<what>[a-z]+) (?P<days>\d{1,5}) days?")
INACTIVE = re.compile(r"inactive readers (?:(?P<months>[1-9]\d{0,2}) months?|never)")
DAYS_PER_MONTH = 30.44
MIN_DAYS = {
    "attempts": 30,
    "deliveries": 200,
    "dumps": 1,
}  #: minimum days that each kind is kept; `digest why` needs the deliveries of the last 180 days
MAX_DAYS = 36_500
#: A paper shown before that cannot be new again: a digest covers 100 days at most.
KEEP_SHOWN_FOR = timedelta(days=180)
#: How long the press of a digest is stored; without the press, the digest's web page cannot be shown.
KEEP_PRESSES_FOR = timedelta(days=60)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How long old rows and files are kept."""

    attempts: timedelta = timedelta(days=90)
    deliveries: timedelta = timedelta(days=400)
    dumps: timedelta = timedelta(days=30)  #: files in `done/`
    #: How long readers may be inactive before they are asked whether they still read; None: forever.
    inactive: timedelta | None = timedelta(days=round(24 * DAYS_PER_MONTH))

    def __str__(self) -> str:
        spans = [f"{name} {getattr(self, name).days} days" for name in MIN_DAYS]
        months = self.inactive and plurals.count(round(self.inactive.days / DAYS_PER_MONTH), "month")
        return ", ".join([*spans, f"inactive readers {months or 'never'}"])


def parse_retention(text: str) -> Retention:
    """Parse DIGEST_KEEP, with defaults for kinds that it does not name; raise BadField if it is invalid."""
    found: dict[str, timedelta | None] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        if inactive := INACTIVE.fullmatch(part):
            months = inactive["months"]
            found["inactive"] = timedelta(days=round(int(months) * DAYS_PER_MONTH)) if months else None
            continue
        match = PART.fullmatch(part)
        if match is None or match["what"] not in MIN_DAYS:
            raise BadField(FIELD, f"{part!r} is not of the form: {FORM}")
        what, days = match["what"], int(match["days"])
        if not MIN_DAYS[what] <= days <= MAX_DAYS:
            raise BadField(FIELD, f"{what} are kept for {MIN_DAYS[what]} to {MAX_DAYS} days")
        found[what] = timedelta(days=days)
    kept = Retention(**found)  # type: ignore[arg-type]  # only `inactive` may be None
    if kept.attempts > kept.deliveries:
        raise BadField(FIELD, "attempts cannot be kept longer than their deliveries")
    return kept
