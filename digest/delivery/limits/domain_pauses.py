"""Pause domains and servers that ask us to slow down, and limit how many conversations a domain has with
us.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Pace
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.limits.quotas import MAX_CLOCK_SKEW, PACE_TABLE, delete_rows, lock_rows, rows_with_prefix

FIRST_PAUSE, MAX_PAUSE = timedelta(minutes=5), timedelta(hours=1)
STRIKES_FORGOTTEN_AFTER = timedelta(
    hours=2
)  #: after this time without another strike, pauses start at 5 minutes again
QUOTA_PAUSE = timedelta(hours=1)  #: after a server said that our daily quota is used up
SPEED_PAUSE = timedelta(seconds=15)  #: after a server said that we send too fast
NO_REPLY_PAUSE = timedelta(seconds=60)  #: after a server did not answer while others did
#: After a pause, deferred letters go this much ahead of the others: they show whether it helped.
RETRY_HEAD_START = timedelta(seconds=90)
BUSY_DOMAIN_PAUSE = timedelta(seconds=10)  #: until a domain is checked again that is busy with other workers
CONVERSATION_LIFE = timedelta(
    seconds=900
)  #: as long as a lease: when a worker dies, its conversations end with its lease

#: How long ended rows are kept: longer than the month for which a monthly edition's canary is needed.
KEEP_ROWS_FOR = timedelta(days=45)

EXPIRING_KINDS = ("pause", "deferred", "greylists", "slot", "canary")  #: first words of those rows' names
ALL_MAIL = "all"  #: the name of the mail server in pauses, where there is only one or it has no rate

#: Codes that are about how much we send to a domain, not about this message (RFC 3463, X.7.X).
SLOW_DOWN = re.compile(r"\b4\.7\.\d+\b")

#: What a provider such as SES says when we send too much through it, whoever the recipient is.
SENDING_TOO_FAST = re.compile(r"throttling failure|maximum send(?:ing)? rate exceeded", re.IGNORECASE)
QUOTA_EXCEEDED = re.compile(r"daily (?:message|sending) quota exceeded", re.IGNORECASE)


# ── domains ─────────────────────────────────────────────────────────────────────────────────────


def is_slow_down(code: int | None, reply: str, phase: str) -> bool:
    """Return whether a reply may be about how much we send to that domain, if several letters in a row get
    it.
    """
    return phase in {"rcpt", "data", "dot"} and (code == 421 or bool(SLOW_DOWN.search(reply)))


def pause_domain(session: Session, email: str, *, now: datetime) -> datetime:
    """Pause the letters to a domain for 5, 10, 20, ... minutes, at most an hour; return the end of the
    pause.
    """
    name = f"pause {domain_of(email)}"
    strikes, until = lock_rows(session, {name: 0.0}, now)[name]
    if now < until <= now + MAX_PAUSE:
        return until  # another letter of the same window has paused it
    strikes = strikes + 1 if abs(now - until) < STRIKES_FORGOTTEN_AFTER else 1
    ends_at: datetime = now + min(FIRST_PAUSE * 2 ** min(int(strikes) - 1, 10), MAX_PAUSE)
    write_row(session, name, strikes, ends_at)
    return ends_at


def may_be_greylisting(code: int | None, phase: str) -> bool:
    """Return whether a deferral is about this recipient; 421 is about the connection."""
    return phase == "rcpt" and code != 421


def domain_of(email: str) -> str:
    """Return the domain of an address."""
    return email.rpartition("@")[2].lower()


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def throttle_pause(reply: str) -> timedelta | None:
    """Return how long to wait if a server says that we send too much through it, else None."""
    if QUOTA_EXCEEDED.search(reply):
        return QUOTA_PAUSE
    return SPEED_PAUSE if SENDING_TOO_FAST.search(reply) else None


def pause_server(session: Session, server: str, until: datetime) -> None:
    """Send nothing through a server until then; without a name, through no server."""
    write_row(session, f"pause {server or ALL_MAIL}", 1.0, until)


def write_row(session: Session, name: str, tokens: float, at: datetime) -> None:
    """Write a row, replacing what it held."""
    values = {"tokens": tokens, "at": at}
    writing = db.upsert(session, Pace).values(name=name, **values)
    session.execute(writing.on_conflict_do_update(index_elements=["name"], set_=values))


def delete_old_limits(session: Session, *, now: datetime) -> int:
    """Delete pauses, deferrals, conversations and canaries that ended long ago; return how many."""
    passing = [PACE_TABLE.c.name.startswith(f"{kind} ") for kind in EXPIRING_KINDS]
    gone = session.connection().execute(
        delete(PACE_TABLE).where(or_(*passing), PACE_TABLE.c.at < now - KEEP_ROWS_FOR)
    )
    return gone.rowcount


def active_pauses(session: Session, *, now: datetime) -> dict[str, datetime]:
    """Return every domain and server that is paused now, with the end of its pause."""
    lasting = (Pace.at > now, Pace.at <= now + MAX_PAUSE)
    found = session.execute(select(Pace.name, Pace.at).where(Pace.name.startswith("pause "), *lasting))
    names = {row.name.removeprefix("pause "): row.at for row in found}
    return {"the mail server" if name == ALL_MAIL else name: at for name, at in names.items()}


# ── conversations with a domain ─────────────────────────────────────────────────────────────────


def busy_domains(
    session: Session, rules: SendLimits, domains: Iterable[str], *, lease: str, now: datetime
) -> set[str]:
    """Return the domains that have as many conversations with other workers as they allow.

    The caller has locked each domain's row, so no conversation begins between this call and
    `begin_conversations`.
    """
    limited = {domain: limit for domain in domains if (limit := rules.conversation_limit(domain)) is not None}
    others = [
        name.split()[1]
        for name, _, until in rows_with_prefix(session, [f"slot {domain} " for domain in limited])
        if now < until <= now + CONVERSATION_LIFE + MAX_CLOCK_SKEW
        and name != conversation_name(name.split()[1], lease)
    ]
    return {domain for domain, limit in limited.items() if others.count(domain) >= limit}


def begin_conversations(
    session: Session, rules: SendLimits, domains: Iterable[str], *, lease: str, now: datetime
) -> None:
    """Record a conversation with these domains, until `end_conversations` or the end of our lease."""
    for domain in sorted(set(domains)):
        if rules.conversation_limit(domain) is not None:
            write_row(session, conversation_name(domain, lease), 1.0, now + CONVERSATION_LIFE)


def end_conversations(session: Session, rules: SendLimits, emails: Collection[str], *, lease: str) -> None:
    """End our conversations with the domains of these addresses, so that other workers can begin theirs."""
    if rules.conversation_limits:
        delete_rows(session, sorted({conversation_name(domain_of(email), lease) for email in emails}))


def conversation_name(domain: str, lease: str) -> str:
    """Return the name of the row that records our conversation with a domain."""
    return f"slot {domain} {lease[:16]}"
