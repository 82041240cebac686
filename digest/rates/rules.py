"""What the operator says about how fast mail may go. Pure: words in, values out.

DIGEST_RATES       50/s, 100000/day, example.org 20/min, 20 at once, example.org 2 at once
DIGEST_MAIL_URL    smtp://relay.example.org:587?rate=14/s,50000/day     the same, for one server
DIGEST_SEND_HOURS  06:00-22:00
DIGEST_WARM_UP     2026-11-20, or with a table of your own: 2026-11-20: 200, 500, 1000
DIGEST_CANARY      2% for 30 min
DIGEST_STOP_AT     bounces 10%, complaints 0.5%, deferred 50%, policy 20%
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from zlib import crc32

from digest.addresses import ascii_domain
from digest.editions import instant, time_in, zone_of
from digest.errors import BadField

SECONDS = {"s": 1, "min": 60, "h": 3_600, "day": 86_400}
ONE_DAY = timedelta(days=1)
UNITS = {seconds: unit for unit, seconds in SECONDS.items()}
RULE = re.compile(
    r"(?:(?P<domain>[\w.-]+\.[\w-]+)\s+)?(?P<amount>[1-9]\d*)\s*(?:/\s*(?P<unit>s|min|h|day)|(?P<once>at once))"
)
BURST = 60.0  #: seconds' worth of tokens that a bucket holds

#: Letters on each day of a warm-up, unless the operator has a table of their own; after it there is no limit.
WARM_UP = (
    200, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 25_000, 40_000, 70_000, 100_000, 150_000, 250_000, 400_000,
)  # fmt: skip

CANARY = re.compile(r"(?P<share>\d+(?:\.\d+)?)\s*%\s+for\s+(?P<amount>[1-9]\d*)\s*(?P<unit>min|h)")
BRAKE = re.compile(r"(?P<what>bounces|complaints|deferred|policy)\s+(?P<share>\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """So many letters in so many seconds: to one domain, through one server, or in all.

    By the second or minute it is a speed; by the hour or day a quota, which may be used up at once.
    """

    domain: str = ""
    server: str = ""
    amount: int
    seconds: int

    @property
    def name(self) -> str:
        """Return what its rows are called."""
        return f"{self.server or self.domain or 'all'}/{self.seconds}"

    @property
    def told(self) -> str:
        """Return it as it is written."""
        whose = self.server or self.domain
        return f"{whose} {self.amount}/{UNITS[self.seconds]}".strip()

    @property
    def is_quota(self) -> bool:
        """Return whether it bounds what is sent in any hour or day, and not how fast."""
        return self.seconds >= SECONDS["h"]

    @property
    def is_for_all(self) -> bool:
        """Return whether nothing can go once it is used up."""
        return not (self.domain or self.server)

    @property
    def per_second(self) -> float:
        """Return how fast the bucket fills."""
        return self.amount / self.seconds

    @property
    def room(self) -> float:
        """Return how many tokens the bucket holds."""
        return max(1.0, min(self.amount, self.per_second * BURST))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerShare:
    """One of several servers: how much of the mail it takes, and how fast it lets us."""

    name: str
    weight: int = 1
    rates: tuple[Rate, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Hours:
    """The hours of the day in which bulk mail goes out."""

    opens: time
    closes: time
    zone: str

    def opens_at(self, now: datetime) -> datetime | None:
        """Return when mail may go again; None if it may go now."""
        zone = zone_of(self.zone)
        today = now.astimezone(zone).date()
        for day in (today - ONE_DAY, today):  # moments, not what clocks show: an hour of autumn comes twice
            opens = instant(day, self.opens, zone)
            closes = instant(day if self.opens < self.closes else day + ONE_DAY, self.closes, zone)
            if now < opens:
                return opens
            if now < closes:
                return None
        return instant(today + ONE_DAY, self.opens, zone)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmUp:
    """So many letters on the first day on which mail goes out, so many on the second, and so on."""

    since: date
    table: tuple[int, ...]
    zone: str

    def day_of(self, now: datetime) -> date:
        """Return the operator's local day."""
        return now.astimezone(zone_of(self.zone)).date()

    def begins_at(self, day: date) -> datetime:
        """Return the moment at which a local day begins."""
        return instant(day, time(), zone_of(self.zone))


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """A share of an edition that goes out first, and how long the rest waits for what comes of it."""

    share: float
    wait: timedelta

    def is_first(self, delivery_id: int) -> bool:
        """Return whether this letter is among the first: chance, but the same for every worker."""
        return crc32(f"canary {delivery_id}".encode()) / 2**32 < self.share

    @property
    def told(self) -> str:
        """Return the share as it is written."""
        return f"{self.share * 100:g} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """All that was said."""

    rates: tuple[Rate, ...] = ()
    at_once: Mapping[str, int] = field(default_factory=dict)  #: conversations, by domain; "": any other
    servers: tuple[ServerShare, ...] = ()  #: where one of them has a rate
    hours: Hours | None = None
    warm_up: WarmUp | None = None
    canary: Canary | None = None
    brakes: Mapping[str, float] = field(default_factory=dict)  #: shares at which all is stopped

    @property
    def are_counted(self) -> bool:
        """Return whether anything has to be counted before a window may go."""
        return bool(self.rates or self.at_once or self.servers or self.warm_up)

    def conversations(self, domain: str) -> int | None:
        """Return in how many conversations at once letters may go to a domain; None: in any number."""
        return self.at_once.get(domain, self.at_once.get(""))


# ── as people write them ────────────────────────────────────────────────────────────────────────


def parse(told: str, *, server: str = "", setting: str = "DIGEST_RATES") -> tuple[Rate, ...]:
    """Return the rates of `50/s, 100000/day, example.org 20/min`, or raise BadField."""
    return tuple(
        Rate(
            domain=ascii_domain(rule["domain"] or ""),
            server=server,
            amount=int(rule["amount"]),
            seconds=SECONDS[rule["unit"]],
        )
        for rule in matched(told, setting)
        if rule["unit"]
    )


def at_once_in(told: str) -> dict[str, int]:
    """Return the conversations of `20 at once, example.org 2 at once` by domain, or raise BadField."""
    return {
        ascii_domain(rule["domain"] or ""): int(rule["amount"])
        for rule in matched(told, "DIGEST_RATES")
        if rule["once"]
    }


def matched(told: str, setting: str) -> list[re.Match[str]]:
    """Return every rule of a line, or raise BadField naming the one that is none."""
    found = []
    for rule in filter(None, map(str.strip, told.split(","))):
        match = RULE.fullmatch(rule)
        if match is None:
            raise BadField(
                setting, f"{rule!r} is no rate; write 50/s, 100000/day, example.org 20/min, 5 at once."
            )
        found.append(match)
    return found


def servers_in(told: Sequence[tuple[str, int, str]]) -> tuple[ServerShare, ...]:
    """Return the shares of servers given as (name, weight, rates); none where no server has a rate."""
    shares = tuple(
        ServerShare(name=name, weight=weight, rates=server_rates(rates, name)) for name, weight, rates in told
    )
    return shares if any(share.rates for share in shares) else ()


def server_rates(told: str, server: str) -> tuple[Rate, ...]:
    """Return the rates of one server, or raise BadField: it has them for all letters, whomever they go to."""
    setting = "DIGEST_MAIL_URL, rate"
    if any(rule["domain"] or rule["once"] for rule in matched(told, setting)):
        raise BadField(setting, f"{told!r} is no rate of a server; write rate=14/s,50000/day.")
    return parse(told, server=server, setting=setting)


def hours_in(told: str, zone: str) -> Hours | None:
    """Return the hours of `06:00-22:00`; None for all day."""
    if not told.strip():
        return None
    opens, dash, closes = told.partition("-")
    if not dash:
        raise BadField("DIGEST_SEND_HOURS", f"{told!r} names no hours; write 06:00-22:00.")
    field_name = "DIGEST_SEND_HOURS"
    found = Hours(
        opens=time_in(opens.strip(), field=field_name),
        closes=time_in(closes.strip(), field=field_name),
        zone=zone,
    )
    if found.opens == found.closes:
        raise BadField(field_name, "they are no time at all; leave it empty for all day.")
    return found


def warm_up_in(told: str, zone: str) -> WarmUp | None:
    """Return the warm-up of `2026-11-20` or `2026-11-20: 200, 500`; None for none."""
    day, _, table = told.strip().partition(":")
    if not day:
        return None
    try:
        amounts = tuple(int(part) for part in table.split(",")) if table.strip() else WARM_UP
        found = WarmUp(since=date.fromisoformat(day.strip()), table=amounts, zone=zone)
    except ValueError:
        found = None
    if found is None or min(found.table) < 1:
        raise BadField(
            "DIGEST_WARM_UP",
            f"{told!r} is no warm-up; write its first day, 2026-11-20, or 2026-11-20: 200, 500.",
        )
    return found


def canary_in(told: str) -> Canary | None:
    """Return the canary of `2% for 30 min`; None for none."""
    if not told.strip():
        return None
    match = CANARY.fullmatch(told.strip())
    if match is None or not 0 < float(match["share"]) < 100:
        raise BadField("DIGEST_CANARY", f"{told!r} is no canary; write 2% for 30 min.")
    wait = timedelta(seconds=int(match["amount"]) * SECONDS[match["unit"]])
    return Canary(share=float(match["share"]) / 100, wait=wait)


def brakes_in(told: str) -> dict[str, float]:
    """Return the shares at which mail is stopped, by what they are shares of; `never` names none."""
    found = {}
    for part in filter(None, map(str.strip, told.split(","))) if told.strip() != "never" else ():
        match = BRAKE.fullmatch(part)
        if match is None or not 0 < float(match["share"]) <= 100:
            raise BadField(
                "DIGEST_STOP_AT",
                f"{part!r} is none; write bounces 10%, complaints 0.5%, deferred 50%, policy 20%, or never.",
            )
        found[match["what"]] = float(match["share"]) / 100
    return found
