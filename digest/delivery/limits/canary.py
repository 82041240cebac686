"""Send a small share of an edition first, and the rest after a wait in which failures show. Pure.

DIGEST_CANARY      2% for 30 min
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from digest.delivery.limits.decisions import Wait
from digest.delivery.limits.rates import UNIT_SECONDS
from digest.errors import BadField

MIN_LETTERS = 10  #: minimum number of letters in a canary; a smaller canary is not conclusive
CANARY_PATTERN = re.compile(r"(?P<share>\d+(?:\.\d+)?)\s*%\s+for\s+(?P<amount>[1-9]\d*)\s*(?P<unit>min|h)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """The share of an edition that is sent first, and how long the other letters wait for the results."""

    share: float
    wait: timedelta

    def is_first(self, delivery_id: int) -> bool:
        """Return whether this letter is in the canary; the letter's id decides, so all workers agree."""
        return crc32(f"canary {delivery_id}".encode()) / 2**32 < self.share

    def wait_for(self, edition: str, until: datetime, now: datetime) -> Wait:
        """Return how long the rest of an edition waits, at most the configured time.

        A time stored by a machine with a wrong clock therefore cannot prolong the wait.
        """
        ends_at = min(until, now + self.wait)
        share = f"{self.share * 100:g}%"
        return Wait(ends_at, f"the first {share} of {edition} are a canary until {ends_at:%H:%M} UTC")


def parse_canary(text: str) -> Canary | None:
    """Parse a canary such as `2% for 30 min`, or raise BadField; return None for an empty string."""
    if not text.strip():
        return None
    match = CANARY_PATTERN.fullmatch(text.strip())
    if match is None or not 0 < float(match["share"]) < 100:
        raise BadField("DIGEST_CANARY", f"{text!r} is not a canary; write 2% for 30 min.")
    wait = timedelta(seconds=int(match["amount"]) * UNIT_SECONDS[match["unit"]])
    return Canary(share=float(match["share"]) / 100, wait=wait)
