"""Refunds: what was paid for a letter that no server began is given back, or an hour's outage would use up a day.

It is drawn from the same locked rows as it was paid into. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from digest.rates import purses
from digest.rates.pausing import domain_of
from digest.rates.purses import PACE, SETTING
from digest.rates.rules import Rate, Rules


def refund(session: Session, rules: Rules, unspent: Collection[tuple[str, str]], *, now: datetime) -> None:
    """Give back what each of these (address, server) had paid."""
    rates = [*rules.rates, *[rate for share in rules.servers for rate in share.rates]]
    went = [(domain_of(email), server) for email, server in unspent]
    owed = {rate: count for rate in rates if (count := sum(concerns(rate, *each) for each in went))}
    fresh = {rate.name: rate.room for rate in owed}
    if rules.warm_up and went:
        fresh[purses.warm_up_name(rules.warm_up)] = 0.0
    rows = purses.lock(session, fresh, now)
    for rate, count in owed.items():
        if rate.is_quota:
            take_back(session, rate.name, count)
        else:
            tokens, at = rows[rate.name]
            row = {"key": rate.name, "left": min(rate.room, tokens + count), "moment": at}
            session.connection().execute(SETTING, row)
    if rules.warm_up and went:
        take_back(session, purses.warm_up_name(rules.warm_up), len(went))


def concerns(rate: Rate, domain: str, server: str) -> bool:
    """Return whether a letter to that domain, through that server, had paid for this."""
    if rate.server:
        return rate.server == server
    return not rate.domain or rate.domain == domain


def take_back(session: Session, name: str, count: float) -> None:
    """Let so many count no longer as sent, from the latest on."""
    for part, tokens, _ in reversed(purses.under(session, [f"{name} "])):
        less = min(count, tokens)
        if less > 0:
            session.execute(update(PACE).where(PACE.c.name == part).values(tokens=tokens - less))
            count -= less
