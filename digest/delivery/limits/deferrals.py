"""Recognise which domains greylist single letters and which want less mail for now.

A greylisting server defers each recipient's first try and accepts the second. A server that limits our rate
defers any letter. So one deferral delays only its letter, which backs off by itself. A domain is paused
after several different recipients were deferred in a row. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from digest.delivery.limits.domain_pauses import STRIKES_FORGOTTEN_AFTER, pause_domain, write_row
from digest.delivery.limits.quotas import MAX_CLOCK_SKEW, PACE_TABLE, delete_rows, lock_rows, rows_with_prefix

SLOW_DOWN_RECIPIENTS = 5  #: different recipients deferred in a row after which a domain is paused


class LetterReply(NamedTuple):
    """How a domain's server replied to one letter."""

    recipient: str
    is_taken: bool
    is_first_try: bool
    may_be_greylisting: bool = (
        False  #: the deferral is about this recipient, not about the connection or the text
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainRecord:
    """What is stored about a domain that deferred letters."""

    deferred: frozenset[str] = frozenset()  #: recipients deferred in a row, with none accepted between
    greylists: bool = False  #: it defers first tries and accepts second ones
    is_forgiven: bool = False  #: it has accepted a letter, so earlier strikes no longer count


class TroubledDomains(NamedTuple):
    """The domains with stored deferrals, pauses or greylisting; an accepted letter may change that."""

    strikes: frozenset[str] = frozenset()  #: domains that deferred a letter lately, or were paused
    greylisters: frozenset[str] = frozenset()

    def learn_from(self, domain: str, *, is_first_try: bool) -> bool:
        """Return whether an accepted letter changes what is stored about this domain."""
        return domain in self.strikes or (is_first_try and domain in self.greylisters)


def updated_record(record: DomainRecord, replies: Iterable[LetterReply]) -> DomainRecord:
    """Return the record of a domain after these replies, in the order in which they came."""
    deferred, greylists, is_forgiven = set(record.deferred), record.greylists, record.is_forgiven
    for reply in replies:
        if reply.is_taken:
            deferred.clear()
            greylists, is_forgiven = not reply.is_first_try, True
        elif not (greylists and reply.is_first_try and reply.may_be_greylisting):
            deferred.add(reply.recipient)
    return DomainRecord(deferred=frozenset(deferred), greylists=greylists, is_forgiven=is_forgiven)


def record_replies(session: Session, domain: str, replies: Sequence[LetterReply], *, now: datetime) -> None:
    """Store how a domain's server replied, and pause the domain if it deferred several recipients in a row."""
    strikes, until = lock_rows(session, {f"pause {domain}": 0.0}, now - STRIKES_FORGOTTEN_AFTER)[
        f"pause {domain}"
    ]
    before = load_record(session, domain, now)
    record = updated_record(before, replies)
    if record.is_forgiven and strikes:
        write_row(session, f"pause {domain}", 0.0, until)
    is_slow_down = len(record.deferred) >= SLOW_DOWN_RECIPIENTS
    if is_slow_down:
        pause_domain(session, f"@{domain}", now=now)
    save_deferred(session, domain, before.deferred, frozenset() if is_slow_down else record.deferred, now)
    if record.greylists and not before.greylists:
        write_row(session, f"greylists {domain}", 1.0, now)
    elif before.greylists and not record.greylists:
        delete_rows(session, [f"greylists {domain}"])


def load_record(session: Session, domain: str, now: datetime) -> DomainRecord:
    """Return the record of a domain; old deferrals do not count."""
    prefix = f"deferred {domain} "
    rows = rows_with_prefix(session, [prefix, f"greylists {domain}"])
    return DomainRecord(
        deferred=frozenset(
            name.removeprefix(prefix)
            for name, _, at in rows
            if name.startswith(prefix) and now - STRIKES_FORGOTTEN_AFTER < at <= now + MAX_CLOCK_SKEW
        ),
        greylists=any(name == f"greylists {domain}" for name, _, _ in rows),
    )


def save_deferred(
    session: Session, domain: str, before: frozenset[str], deferred: frozenset[str], now: datetime
) -> None:
    """Store which recipients of a domain were deferred in a row."""
    delete_rows(session, sorted(f"deferred {domain} {recipient}" for recipient in before - deferred))
    for recipient in sorted(deferred - before):
        write_row(session, f"deferred {domain} {recipient}", 1.0, now)


def load_troubled_domains(session: Session, *, now: datetime) -> TroubledDomains:
    """Return the domains about which something is stored."""
    lately = PACE_TABLE.c.at > now - STRIKES_FORGOTTEN_AFTER
    was_paused = and_(PACE_TABLE.c.name.startswith("pause "), PACE_TABLE.c.tokens > 0, lately)
    deferring = and_(PACE_TABLE.c.name.startswith("deferred "), lately)
    which = or_(was_paused, deferring, PACE_TABLE.c.name.startswith("greylists "))
    found = [
        name.split()
        for name in session.connection().execute(select(PACE_TABLE.c.name).where(which)).scalars()
    ]
    return TroubledDomains(
        strikes=frozenset(name[1] for name in found if name[0] != "greylists"),
        greylisters=frozenset(name[1] for name in found if name[0] == "greylists"),
    )
