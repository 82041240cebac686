"""Give back the tokens of letters that no server began, so that an hour's outage does not use up a day.

The same rows are locked as when the tokens were taken. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from digest.delivery.limits import quotas
from digest.delivery.limits.domain_pauses import domain_of
from digest.delivery.limits.limit_rules import Rate, SendLimits
from digest.delivery.limits.quotas import PACE_TABLE, SET_BUCKET_STATEMENT


def release(
    session: Session, rules: SendLimits, unspent: Collection[tuple[str, str]], *, now: datetime
) -> None:
    """Give back the tokens that each of these (address, server) pairs used."""
    rates = [*rules.rates, *[rate for share in rules.servers for rate in share.rates]]
    unsent = [(domain_of(email), server) for email, server in unspent]
    counts = {rate: count for rate in rates if (count := sum(applies_to(rate, *each) for each in unsent))}
    fresh = {rate.name: rate.capacity for rate in counts}
    if rules.warm_up and unsent:
        fresh[quotas.warm_up_name(rules.warm_up)] = 0.0
    rows = quotas.lock_rows(session, fresh, now)
    for rate, count in counts.items():
        if rate.is_quota:
            reduce_latest(session, rate.name, count)
        else:
            tokens, at = rows[rate.name]
            row = {"key": rate.name, "left": min(rate.capacity, tokens + count), "moment": at}
            session.connection().execute(SET_BUCKET_STATEMENT, row)
    if rules.warm_up and unsent:
        reduce_latest(session, quotas.warm_up_name(rules.warm_up), len(unsent))


def applies_to(rate: Rate, domain: str, server: str) -> bool:
    """Return whether a letter to that domain through that server used this rate."""
    if rate.server:
        return rate.server == server
    return not rate.domain or rate.domain == domain


def reduce_latest(session: Session, name: str, count: float) -> None:
    """Reduce the count of what was sent, beginning with the latest part."""
    for part, tokens, _ in reversed(quotas.rows_with_prefix(session, [f"{name} "])):
        less = min(count, tokens)
        if less > 0:
            session.execute(update(PACE_TABLE).where(PACE_TABLE.c.name == part).values(tokens=tokens - less))
            count -= less
