"""Pauses: domains and servers that asked us to wait, and how many conversations a domain has with us."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from digest import db
from digest.model import Pace
from digest.rates.purses import PACE, SKEW, forget, lock, under
from digest.rates.rules import Rules

FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=1)
WEARY = timedelta(hours=2)  #: after so long without another "slow down" a pause begins anew
QUOTA_PAUSE = timedelta(hours=1)  #: after a server said that our day's quota is used up
SPEED_PAUSE = timedelta(seconds=15)  #: after it said that we send too fast
AWAY_PAUSE = timedelta(seconds=60)  #: after it did not answer, while others do
AT_ONCE_PAUSE = timedelta(seconds=10)  #: before a domain is looked at again that speaks with others of us
SLOT_LIFE = timedelta(seconds=900)  #: as long as a lease: who dies holding one gives it back so late

KEPT_FOR = timedelta(days=45)  #: rows that tell of what is over; a monthly edition's canary is not, so long

EVERYTHING = "all"  #: the name under which the one server stands that has no rate of its own

#: What a server says when it is about how much we send there, not about this message (RFC 3463, X.7.X).
SLOW_DOWN = re.compile(r"\b4\.7\.\d+\b")

#: What a provider says when it is about how much we send through it, to whomever (SES and its like).
OUR_SPEED = re.compile(r"throttling failure|maximum send(?:ing)? rate exceeded", re.IGNORECASE)
OUR_QUOTA = re.compile(r"daily (?:message|sending) quota exceeded", re.IGNORECASE)


# ── domains ─────────────────────────────────────────────────────────────────────────────────────


def is_slow_down(code: int | None, reply: str, phase: str) -> bool:
    """Return whether a reply is about how much we send to that domain."""
    return phase in {"rcpt", "data", "dot"} and (code == 421 or bool(SLOW_DOWN.search(reply)))


def pause(session: Session, email: str, *, now: datetime) -> datetime:
    """Let a domain's letters wait: for 5, 10, 20, ... minutes, up to an hour. Return until when."""
    name = f"pause {domain_of(email)}"
    strikes, until = lock(session, {name: 0.0}, now)[name]
    if now < until <= now + LONGEST_PAUSE:
        return until  # another letter of the same window said so
    strikes = strikes + 1 if abs(now - until) < WEARY else 1
    ends_at: datetime = now + min(FIRST_PAUSE * 2 ** min(int(strikes) - 1, 10), LONGEST_PAUSE)
    put(session, name, strikes, ends_at)
    return ends_at


def domain_of(email: str) -> str:
    """Return the domain of an address."""
    return email.rpartition("@")[2].lower()


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def throttled_for(reply: str) -> timedelta | None:
    """Return how long to wait if a server says that we send too much through it; None if it does not."""
    if OUR_QUOTA.search(reply):
        return QUOTA_PAUSE
    return SPEED_PAUSE if OUR_SPEED.search(reply) else None


def pause_server(session: Session, server: str, until: datetime) -> None:
    """Send nothing through a server until then; without a name, through none."""
    put(session, f"pause {server or EVERYTHING}", 1.0, until)


def put(session: Session, name: str, tokens: float, at: datetime) -> None:
    """Write a row, whatever stood there."""
    values = {"tokens": tokens, "at": at}
    writing = db.upsert(session, Pace).values(name=name, **values)
    session.execute(writing.on_conflict_do_update(index_elements=["name"], set_=values))


def tidy(session: Session, *, now: datetime) -> int:
    """Forget pauses, conversations and canaries that were over long ago; return how many."""
    passing = [PACE.c.name.startswith(prefix) for prefix in ("pause ", "slot ", "canary ")]
    gone = session.connection().execute(delete(PACE).where(or_(*passing), PACE.c.at < now - KEPT_FOR))
    return gone.rowcount


def standing(session: Session, *, now: datetime) -> dict[str, datetime]:
    """Return every domain and server that waits now, for people to see."""
    lasting = (Pace.at > now, Pace.at <= now + LONGEST_PAUSE)
    found = session.execute(select(Pace.name, Pace.at).where(Pace.name.startswith("pause "), *lasting))
    names = {row.name.removeprefix("pause "): row.at for row in found}
    return {"the mail server" if name == EVERYTHING else name: at for name, at in names.items()}


# ── conversations with a domain ─────────────────────────────────────────────────────────────────


def crowded(session: Session, rules: Rules, domains: Iterable[str], *, lease: str, now: datetime) -> set[str]:
    """Return the domains that speak with as many others of us as they may.

    The caller has locked each domain's row, so nobody joins between this and `join`.
    """
    limited = {domain: limit for domain in domains if (limit := rules.conversations(domain)) is not None}
    others = [
        name.split()[1]
        for name, _, until in under(session, [f"slot {domain} " for domain in limited])
        if now < until <= now + SLOT_LIFE + SKEW and name != slot(name.split()[1], lease)
    ]
    return {domain for domain, limit in limited.items() if others.count(domain) >= limit}


def join(session: Session, rules: Rules, domains: Iterable[str], *, lease: str, now: datetime) -> None:
    """Say that we speak with these domains until we `leave`, or until our lease would be over."""
    for domain in sorted(set(domains)):
        if rules.conversations(domain) is not None:
            put(session, slot(domain, lease), 1.0, now + SLOT_LIFE)


def leave(session: Session, rules: Rules, emails: Collection[str], *, lease: str) -> None:
    """Make room for others who want to speak with the domains of these addresses."""
    if rules.at_once:
        forget(session, sorted({slot(domain_of(email), lease) for email in emails}))


def slot(domain: str, lease: str) -> str:
    """Return the name of the row that stands for our conversation."""
    return f"slot {domain} {lease[:16]}"
