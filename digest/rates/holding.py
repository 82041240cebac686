"""Holding: which letters of a window must wait, until when, and because of what.

What may go has been paid for when this returns: in the transaction that keeps the window's intents, so
the limits hold whoever dies, and what waits has burnt no attempt. Nothing here commits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import String, TextualSelect, bindparam, column, text
from sqlalchemy.orm import Session

from digest import db
from digest.rates import pausing, purses
from digest.rates.pausing import AT_ONCE_PAUSE, EVERYTHING, domain_of
from digest.rates.purses import Purse
from digest.rates.rules import Rules, ServerShare

STOPPED_FOR = timedelta(hours=1)  #: before stopped mail is looked at again; a resume does not wait for it
STOPPED = "stopped: "  #: how the reason begins of what waits for a resume


def look(among: str) -> TextualSelect:
    """Return the one look at pauses and stops; it is taken for every window, so it is written but once."""
    spelled = text(
        f"SELECT name, at, '' AS said FROM pace WHERE name {among} AND at > :now AND at <= :latest"  # noqa: S608
        " UNION ALL SELECT covers, since, said FROM stop WHERE lifted_at IS NULL"
    )
    moments = [bindparam(name, type_=db.UtcDateTime) for name in ("now", "latest")]
    return spelled.bindparams(*moments).columns(
        column("name", String), column("at", db.UtcDateTime), column("said", String)
    )


WAITS = {True: look("= ANY(:names)"), False: look("IN (SELECT value FROM json_each(:names))")}


class Wait(NamedTuple):
    """Until when something waits, and why."""

    until: datetime
    reason: str


@dataclass(kw_only=True)
class Held:
    """What becomes of a window: who waits, through which server the others go, whether all mail waits."""

    late: dict[int, Wait] = field(default_factory=dict)
    servers: dict[int, str] = field(default_factory=dict)
    standstill: Wait | None = None  #: nothing of this lane can go before that


def held(
    session: Session,
    rules: Rules,
    emails: Mapping[int, str],
    *,
    now: datetime,
    is_urgent: bool,
    lease: str = "",
) -> Held:
    """Pay for the letters that may go, and return which must wait.

    Urgent letters, which somebody waits for, are counted like all others and wait for no token; only a
    domain that asked us to wait, and a stop that covers all, hold them up.
    """
    domains = {number: domain_of(email) for number, email in emails.items()}
    waits = standing(session, {*domains.values(), EVERYTHING, *[each.name for each in rules.servers]}, now)
    result = Held(standstill=standstill(waits, is_urgent=is_urgent))
    if result.standstill:
        result.late = dict.fromkeys(emails, result.standstill)
        return result
    result.late = {number: waits[domain] for number, domain in domains.items() if domain in waits}
    if rules.are_counted and len(result.late) < len(domains):
        till = Till(session, rules, waits, domains, result, now=now, is_urgent=is_urgent, lease=lease)
        till.count()
    return result


def pauses(emails: Collection[str]) -> list[str]:
    """Return the names of the pauses that would hold any of these up."""
    return [f"pause {name}" for name in sorted({EVERYTHING, *map(domain_of, emails)})]


def standing(session: Session, names: Collection[str], now: datetime) -> dict[str, Wait]:
    """Return which of these wait, and the stops that stand: in one look.

    A pause that would last longer than any does was made by a clock that is wrong.
    """
    pauses = [f"pause {name}" for name in names]
    is_postgres = session.get_bind().dialect.name == "postgresql"
    told = {
        "names": pauses if is_postgres else json.dumps(pauses),
        "now": now,
        "latest": now + pausing.LONGEST_PAUSE,
    }
    found = {}
    for name, at, said in session.connection().execute(WAITS[is_postgres], told):
        paused = name.removeprefix("pause ")
        if paused == name:
            found[f"stop {name}"] = Wait(now + STOPPED_FOR, f"{STOPPED}{said}")
        else:
            found[paused] = Wait(at, asked(paused))
    return found


def asked(name: str) -> str:
    """Return why a pause is made."""
    if name == EVERYTHING:
        return "the mail server does not answer, or asked us to slow down"
    return f"{name} {'does not answer, or ' if '://' in name else ''}asked us to slow down"


def standstill(waits: Mapping[str, Wait], *, is_urgent: bool) -> Wait | None:
    """Return what keeps all letters of a lane waiting."""
    if is_urgent:
        return waits.get("stop all")
    return waits.get("stop all") or waits.get("stop bulk") or waits.get(EVERYTHING)


class Till:
    """Draws from the purses for one window."""

    def __init__(
        self,
        session: Session,
        rules: Rules,
        waits: Mapping[str, Wait],
        domains: Mapping[int, str],
        result: Held,
        *,
        now: datetime,
        is_urgent: bool,
        lease: str,
    ):
        self.session, self.rules, self.waits, self.domains = session, rules, waits, domains
        self.result, self.now, self.is_urgent, self.lease = result, now, is_urgent, lease
        self.common, self.of_domain, self.of_server = self.opened()
        self.crowded = pausing.crowded(session, rules, set(domains.values()), lease=lease, now=now)
        self.credit = {share.name: 0 for share in rules.servers}

    def opened(self) -> tuple[list[Purse], dict[str, list[Purse]], dict[str, list[Purse]]]:
        """Open the purses that this window draws from: everybody's, by domain, by server; all are locked."""
        theirs = set(self.domains.values())
        rates = [rate for rate in self.rules.rates if not rate.domain or rate.domain in theirs]
        rates += [rate for share in self.rules.servers for rate in share.rates]
        fresh = {rate.name: rate.room for rate in rates}
        fresh |= {f"at once {domain}": 0.0 for domain in theirs if self.rules.conversations(domain)}
        prefixes = [f"{rate.name} " for rate in rates if rate.is_quota]
        if warm_up := self.rules.warm_up:
            fresh[purses.warm_up_name(warm_up)] = 0.0
            prefixes.append(f"{purses.warm_up_name(warm_up)} ")
        rows = purses.lock(self.session, fresh, self.now)
        parts = purses.under(self.session, prefixes)
        common: list[Purse] = []
        of_domain: dict[str, list[Purse]] = {}
        of_server: dict[str, list[Purse]] = {}
        for rate in rates:
            purse = (
                purses.quota(rate, parts, self.now)
                if rate.is_quota
                else purses.bucket(rate, *rows[rate.name], self.now)
            )
            if rate.server:
                of_server.setdefault(rate.server, []).append(purse)
            elif rate.domain:
                of_domain.setdefault(rate.domain, []).append(purse)
            else:
                common.append(purse)
        if warm_up:
            days = [row for row in parts if row[0].startswith(f"{purses.warm_up_name(warm_up)} ")]
            today = purses.warming(warm_up, days, self.now)
            common += [today] if today else []
        return common, of_domain, of_server

    def count(self) -> None:
        """Let each letter go or wait, and keep what was drawn."""
        for number, domain in self.domains.items():
            if number not in self.result.late and (wait := self.pay(number, domain)):
                self.result.late[number] = wait
        going = {domain for number, domain in self.domains.items() if number not in self.result.late}
        pausing.join(self.session, self.rules, going, lease=self.lease, now=self.now)
        for purse in self.all_purses():
            purse.keep(self.session, purse)

    def all_purses(self) -> list[Purse]:
        """Return every purse that is open."""
        return [
            *self.common,
            *[purse for some in (self.of_domain, self.of_server) for each in some.values() for purse in each],
        ]

    def pay(self, number: int, domain: str) -> Wait | None:
        """Take the tokens of one letter, or return what it waits for."""
        asked = [*self.common, *self.of_domain.get(domain, [])]
        empty = [] if self.is_urgent else [purse for purse in asked if purse.is_empty]
        if empty:
            return self.put_off(max(empty, key=lambda purse: purse.next_turn))
        if domain in self.crowded and not self.is_urgent:
            return Wait(
                self.now + AT_ONCE_PAUSE,
                f"{domain} has {self.rules.conversations(domain)} conversations with us",
            )
        if self.rules.servers:
            server = self.server()
            if isinstance(server, Wait):
                return server
            self.result.servers[number] = server.name
            asked += self.of_server.get(server.name, [])
        for purse in asked:
            purse.take()
        return None

    def put_off(self, purse: Purse) -> Wait:
        """Return the wait of one more letter for a purse; where it is everybody's, all waits."""
        wait = Wait(purse.next_turn, purse.reason)
        purse.waiting += 1
        if purse.is_for_all and self.result.standstill is None:
            self.result.standstill = wait
        return wait

    def server(self) -> ServerShare | Wait:
        """Return the server whose turn it is among those that have tokens, or what this letter waits for."""
        shares = [share for share in self.rules.servers if share.name not in self.waits]
        able = [share for share in shares if self.is_urgent or not self.empty(share)]
        if able:
            for share in able:
                self.credit[share.name] += share.weight
            chosen = max(able, key=lambda share: self.credit[share.name])
            self.credit[chosen.name] -= sum(share.weight for share in able)
            return chosen
        if shares:  # the one that can soonest
            slowest = [max(self.empty(share), key=lambda purse: purse.next_turn) for share in shares]
            wait = self.put_off(min(slowest, key=lambda purse: purse.next_turn))
        else:
            wait = min(self.waits[share.name] for share in self.rules.servers)
        self.result.standstill = self.result.standstill or wait
        return wait

    def empty(self, share: ServerShare) -> list[Purse]:
        """Return the purses of a server that have no token."""
        return [purse for purse in self.of_server.get(share.name, []) if purse.is_empty]


def waiting_editions(
    session: Session, rules: Rules, editions: Sequence[str], *, due: int, least: int, now: datetime
) -> dict[str, Wait]:
    """Return until when the rest of each edition waits for what comes of its first letters.

    The waiting of a new one begins here, unless so few are due that the first would be fewer than `least`: it
    begins when more are, whose morning comes later. Only the caller knows which letters are the first.
    """
    canary = rules.canary
    if canary is None:
        return {}
    until = now + canary.wait
    names = {f"canary {edition}": edition for edition in editions}
    if due * canary.share >= least:
        found = {name: at for name, (_, at) in purses.lock(session, dict.fromkeys(names, 0.0), until).items()}
    else:
        found = {name: at for name, _, at in purses.under(session, list(names)) if name in names}
    for name in [name for name, at in found.items() if at > until]:  # a clock was wrong
        pausing.put(session, name, 0.0, until)
        found[name] = until
    return {
        names[name]: Wait(at, f"the first {canary.told} of {names[name]} go ahead, until {at:%H:%M} UTC")
        for name, at in found.items()
    }
