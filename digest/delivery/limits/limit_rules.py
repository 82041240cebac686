"""Parse the rates and stop thresholds that the operator sets, and hold all limits in one value. Pure.

DIGEST_RATES       50/s, 100000/day, example.org 20/min, 20 at once, example.org 2 at once
DIGEST_MAIL_URL    smtp://relay.example.org:587?rate=14/s,50000/day     rates of one server
DIGEST_STOP_AT     bounces 10%, complaints 0.3%, deferred 50%, policy 20%
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from digest.delivery.limits.canary import Canary
from digest.delivery.limits.decisions import ALL_MAIL
from digest.delivery.limits.rates import BURST_SECONDS, UNIT_SECONDS, Rate
from digest.delivery.limits.send_hours import SendHours
from digest.delivery.limits.warm_up import WarmUp
from digest.errors import BadField
from digest.mail.addresses import ascii_domain

RATE_PATTERN = re.compile(
    r"(?:(?P<domain>[\w.-]+\.[\w-]+)\s+)?(?P<amount>[1-9]\d*)\s*(?:/\s*(?P<unit>s|min|h|day)|(?P<once>at once))"
)

STOP_THRESHOLD_PATTERN = re.compile(
    r"(?P<what>bounces|complaints|deferred|policy)\s+(?P<share>\d+(?:\.\d+)?)\s*%"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerShare:
    """One of the servers: its share of the mail, and its rates."""

    name: str = ALL_MAIL
    weight: int = 1
    rates: tuple[Rate, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SendLimits:
    """All limits that the operator set."""

    rates: tuple[Rate, ...] = ()
    #: maximum number of simultaneous conversations, keyed by domain; "" means all other domains
    conversation_limits: Mapping[str, int] = field(default_factory=dict)
    servers: tuple[ServerShare, ...] = (ServerShare(),)
    hours: SendHours | None = None
    warm_up: WarmUp | None = None
    canary: Canary | None = None
    #: the shares of failed letters at which mail is stopped, keyed by the kind of failure
    stop_thresholds: Mapping[str, float] = field(default_factory=dict)

    @property
    def all_rates(self) -> list[Rate]:
        """Return all rates, including the rates of domains and servers."""
        return [*self.rates, *[rate for share in self.servers for rate in share.rates]]

    @property
    def are_counted(self) -> bool:
        """Return whether letters must be counted before a window may be sent."""
        return bool(self.all_rates or self.conversation_limits or self.warm_up)

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


def parse_stop_thresholds(text: str) -> dict[str, float]:
    """Parse stop thresholds, keyed by name, or raise BadField; return {} for `never` or an empty string."""
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
