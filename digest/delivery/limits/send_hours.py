"""Send bulk mail only during the hours of the day that the operator set. Pure.

DIGEST_SEND_HOURS  06:00-22:00
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time

from digest.delivery.limits.rates import ONE_DAY
from digest.editions.schedule import local_instant, parse_time
from digest.editions.time_zones import zone_of
from digest.errors import BadField


@dataclass(frozen=True, kw_only=True, slots=True)
class SendHours:
    """The hours of the day in which bulk mail is sent."""

    opens: time
    closes: time
    zone: str

    def opens_at(self, now: datetime) -> datetime | None:
        """Return when mail may be sent again, or None if it may be sent now."""
        zone = zone_of(self.zone)
        today = now.astimezone(zone).date()
        for day in (today - ONE_DAY, today):  # compare UTC times: one local hour in autumn occurs twice
            opens = local_instant(day, self.opens, zone)
            closes = local_instant(day if self.opens < self.closes else day + ONE_DAY, self.closes, zone)
            if now < opens:
                return opens
            if now < closes:
                return None
        return local_instant(today + ONE_DAY, self.opens, zone)


def parse_send_hours(text: str, zone: str) -> SendHours | None:
    """Parse hours such as `06:00-22:00`, or raise BadField; return None for an empty string."""
    if not text.strip():
        return None
    opens, dash, closes = text.partition("-")
    if not dash:
        raise BadField("DIGEST_SEND_HOURS", f"{text!r} is not a range of hours; write 06:00-22:00.")
    begin, end = (parse_time(part.strip(), field="DIGEST_SEND_HOURS") for part in (opens, closes))
    if begin == end:
        raise BadField("DIGEST_SEND_HOURS", "the hours are empty; to send all day, leave the setting empty.")
    return SendHours(opens=begin, closes=end, zone=zone)
