"""Parse the limits that the operator sets. Pure.

DIGEST_RATES       50/s, 100000/day, example.org 20/min, 20 at once, example.org 2 at once
DIGEST_MAIL_URL    smtp://relay.example.org:587?rate=14/s,50000/day     rates of one server
DIGEST_SEND_HOURS  06:00-22:00
DIGEST_WARM_UP     2026-11-20, or with your own table: 2026-11-20: 200, 500, 1000
DIGEST_CANARY      2% for 30 min
DIGEST_STOP_AT     bounces 10%, complaints 0.3%, deferred 50%, policy 20%
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from zlib import crc32

from digest.addresses import ascii_domain
from digest.delivery.limits.decisions import Wait
from digest.delivery.limits.rates import BURST_SECONDS, ONE_DAY, UNIT_SECONDS, Rate, WarmUp
from digest.editions.schedule import local_instant, parse_time, zone_of
from digest.errors import BadField

RATE_PATTERN = re.compile(
    r"(?:(?P<domain>[\w.-]+\.[\w-]+)\s+)?(?P<amount>[1-9]\d*)\s*(?:/\s*(?P<unit>s|min|h|day)|(?P<once>at once))"
)
#: Maximum number of letters on each day of a warm-up, unless the operator sets a table. After the last day
#: there is no limit.
DEFAULT_WARM_UP = (
    200, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 25_000, 40_000, 70_000, 100_000, 150_000, 250_000, 400_000,
)  # fmt: skip

ONE_MINUTE = timedelta(minutes=1)
CANARY_PATTERN = re.compile(r"(?P<share>\d+(?:\.\d+)?)\s*%\s+for\s+(?P<amount>[1-9]\d*)\s*(?P<unit>min|h)")
STOP_THRESHOLD_PATTERN = re.compile(
    r"(?P<what>bounces|complaints|deferred|policy)\s+(?P<share>\d+(?:\.\d+)?)\s*%"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerShare:
    """One of several servers: its share of the mail, and its rates."""

    name: str
    weight: int = 1
    rates: tuple[Rate, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SendHours:
    """The hours of the day in which bulk mail is sent."""

    opens: time
    closes: time
    zone: str

    def __str__(self) -> str:
        return f"{self.opens:%H:%M}-{self.closes:%H:%M}"

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """The share of an edition that is sent first, and how long the other letters wait for the results."""

    share: float
    wait: timedelta

    def __str__(self) -> str:
        return f"{self.share * 100:g}% for {self.wait // ONE_MINUTE} min"

    def is_first(self, delivery_id: int) -> bool:
        """Return whether this letter is in the canary; the letter's id decides, so all workers agree."""
        return crc32(f"canary {delivery_id}".encode()) / 2**32 < self.share

    def wait_for(self, edition: str, until: datetime, now: datetime) -> Wait:
        """Return how long the rest of an edition waits, at most the configured time.

        A time stored by a machine with a wrong clock therefore cannot prolong the wait.
        """
        ends_at = min(until, now + self.wait)
        share = f"{self.share * 100:g} %"
        return Wait(ends_at, f"the first {share} of {edition} are a canary until {ends_at:%H:%M} UTC")


@dataclass(frozen=True, kw_only=True, slots=True)
class SendLimits:
    """All limits that the operator set."""

    rates: tuple[Rate, ...] = ()
    #: maximum number of simultaneous conversations, keyed by domain; "" means all other domains
    conversation_limits: Mapping[str, int] = field(default_factory=dict)
    servers: tuple[ServerShare, ...] = ()  #: the servers with their rates; empty if no server has a rate
    hours: SendHours | None = None
    warm_up: WarmUp | None = None
    canary: Canary | None = None
    #: the shares of failed letters at which mail is stopped, keyed by the kind of failure
    stop_thresholds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        at_once = [
            f"{domain} {number} at once".strip() for domain, number in self.conversation_limits.items()
        ]
        return ", ".join([*(rate.text for rate in self.rates), *at_once])

    @property
    def all_rates(self) -> list[Rate]:
        """Return all rates, including the rates of domains and servers."""
        return [*self.rates, *[rate for share in self.servers for rate in share.rates]]

    @property
    def are_counted(self) -> bool:
        """Return whether letters must be counted before a window may be sent."""
        return bool(self.rates or self.conversation_limits or self.servers or self.warm_up)

    def conversation_limit(self, domain: str) -> int | None:
        """Return the maximum number of simultaneous conversations with a domain, or None for no limit."""
        return self.conversation_limits.get(domain, self.conversation_limits.get(""))


def parse_shared_limits(text: str) -> SendLimits:
    """Parse limits such as `50/s, 100000/day, example.org 20/min, 20 at once`, or raise BadField."""
    return SendLimits(rates=parse_rates(text), conversation_limits=parse_conversation_limits(text))


def parse_rates(
    text: str, *, server: str = "", setting: str = "DIGEST_RATES", burst: float = BURST_SECONDS
) -> tuple[Rate, ...]:
    """Parse rates such as `50/s, 100000/day, example.org 20/min`, or raise BadField."""
    return tuple(
        Rate(
            domain=ascii_domain(rule["domain"] or ""),
            server=server,
            amount=int(rule["amount"]),
            seconds=UNIT_SECONDS[rule["unit"]],
            burst=burst,
        )
        for rule in match_rules(text, setting)
        if rule["unit"]
    )


def parse_conversation_limits(text: str) -> dict[str, int]:
    """Parse limits such as `20 at once, example.org 2 at once`, keyed by domain, or raise BadField."""
    return {
        ascii_domain(rule["domain"] or ""): int(rule["amount"])
        for rule in match_rules(text, "DIGEST_RATES")
        if rule["once"]
    }


def match_rules(text: str, setting: str) -> list[re.Match[str]]:
    """Return the regex match of each rule; raise BadField for the first rule that is invalid or repeated."""
    found = dict[tuple[str, str], re.Match[str]]()
    for rule in filter(None, map(str.strip, text.split(","))):
        match = RATE_PATTERN.fullmatch(rule)
        if match is None:
            raise BadField(
                setting, f"{rule!r} is not a rate; write 50/s, 100000/day, example.org 20/min, 5 at once."
            )
        scope = ascii_domain(match["domain"] or ""), match["unit"] or match["once"]
        if scope in found:
            raise BadField(
                setting, f"{found[scope][0]!r} and {rule!r} set the same limit; remove one of them."
            )
        found[scope] = match
    return list(found.values())


def parse_server_rates(text: str, server: str, burst: float) -> tuple[Rate, ...]:
    """Return the rates of one server; raise BadField for other limits and for invalid rates."""
    setting = "DIGEST_MAIL_URL, rate"
    if any(rule["domain"] or rule["once"] for rule in match_rules(text, setting)):
        raise BadField(setting, f"{text!r} is not a server rate; write rate=14/s,50000/day.")
    return parse_rates(text, server=server, setting=setting, burst=burst)


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


def parse_warm_up(text: str, zone: str) -> WarmUp | None:
    """Parse a warm-up such as `2026-11-20` or `2026-11-20: 200, 500`; return None for an empty string.

    Raises BadField if the text cannot be parsed, or if an amount is below 1.
    """
    day, _, table = text.strip().partition(":")
    if not day:
        return None
    try:
        amounts = tuple(int(part) for part in table.split(",")) if table.strip() else DEFAULT_WARM_UP
        found = WarmUp(since=date.fromisoformat(day.strip()), table=amounts, zone=zone)
    except ValueError:
        found = None
    if found is None or min(found.table) < 1:
        raise BadField(
            "DIGEST_WARM_UP",
            f"{text!r} is not a warm-up; write its first day, 2026-11-20, or 2026-11-20: 200, 500.",
        )
    return found


def parse_canary(text: str) -> Canary | None:
    """Parse a canary such as `2% for 30 min`, or raise BadField; return None for an empty string."""
    if not text.strip():
        return None
    match = CANARY_PATTERN.fullmatch(text.strip())
    if match is None or not 0 < float(match["share"]) < 100:
        raise BadField("DIGEST_CANARY", f"{text!r} is not a canary; write 2% for 30 min.")
    wait = timedelta(seconds=int(match["amount"]) * UNIT_SECONDS[match["unit"]])
    return Canary(share=float(match["share"]) / 100, wait=wait)


def parse_stop_thresholds(text: str) -> dict[str, float]:
    """Parse stop thresholds, keyed by name, or raise BadField; return {} for `never` and for no text."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))) if text.strip() != "never" else ():
        match = STOP_THRESHOLD_PATTERN.fullmatch(part)
        if match is None or not 0 < float(match["share"]) <= 100:
            raise BadField(
                "DIGEST_STOP_AT",
                f"{part!r} is not a threshold; write bounces 10%, complaints 0.3%, deferred 50%, policy 20%, or never.",
            )
        found[match["what"]] = float(match["share"]) / 100
    return found


def thresholds_text(thresholds: Mapping[str, float]) -> str:
    """Return thresholds as text, in the form in which the operator writes them."""
    return ", ".join(f"{name} {share * 100:g}%" for name, share in thresholds.items()) or "never"
