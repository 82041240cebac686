"""Decide which letters of a window may go, and until when and why the others wait.

When this returns, the tokens of the letters that may go are taken, in the transaction that commits the
window's intents. So the limits hold when a worker dies, and a letter that waits uses up no attempt. Nothing
here commits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import String, TextualSelect, bindparam, column, text
from sqlalchemy.orm import Session

from digest import db
from digest.delivery.limits import domain_pauses, quotas
from digest.delivery.limits.domain_pauses import ALL_MAIL, BUSY_DOMAIN_PAUSE, domain_of
from digest.delivery.limits.limit_rules import SendLimits, ServerShare
from digest.delivery.limits.quotas import Quota, Wait

STOP_RECHECK = timedelta(hours=1)  #: until stopped mail is checked again; resuming does not wait for this
STOPPED_PREFIX = "stopped: "  #: prefix of the reason of mail that waits for the operator


def waits_query(among: str) -> TextualSelect:
    """Return the one query for pauses and stops: it runs for every window."""
    query = text(
        f"SELECT name, at, '' AS reason FROM pace WHERE name {among} AND at > :now AND at <= :latest"  # noqa: S608
        " UNION ALL SELECT scope, since, reason FROM emergency_stop WHERE lifted_at IS NULL"
    )
    moments = [bindparam(name, type_=db.UtcDateTime) for name in ("now", "latest")]
    return query.bindparams(*moments).columns(
        column("name", String), column("at", db.UtcDateTime), column("reason", String)
    )


WAITS_QUERY = {
    True: waits_query("= ANY(:names)"),
    False: waits_query("IN (SELECT value FROM json_each(:names))"),
}


@dataclass(kw_only=True)
class Reservation:
    """Which letters of a window wait, and through which server the others go."""

    waits: dict[int, Wait] = field(default_factory=dict)
    servers: dict[int, str] = field(default_factory=dict)
    standstill: Wait | None = None  #: nothing of this lane can go before then
    #: Those of `waits` whose tokens come so soon that the worker can wait itself.
    short: dict[int, Wait] = field(default_factory=dict)
    refill: Wait | None = None  #: the same wait where it holds up the whole lane


def reserve(
    session: Session,
    rules: SendLimits,
    emails: Mapping[int, str],
    *,
    now: datetime,
    is_urgent: bool,
    lease: str = "",
    tried: Collection[int] = (),
) -> Reservation:
    """Take tokens for the letters that may go, and return which ones must wait.

    When the pause of a domain ends, letters in `tried` go ahead of those that were never tried.

    Urgent letters, which somebody is waiting for, are counted but need no token. Only the pause of a domain
    or server, or a stop of all mail, holds them up.
    """
    domains = {number: domain_of(email) for number, email in emails.items()}
    waits = active_waits(session, {*domains.values(), ALL_MAIL, *[each.name for each in rules.servers]}, now)
    result = Reservation(standstill=standstill(waits, is_urgent=is_urgent))
    if result.standstill:
        result.waits = dict.fromkeys(emails, result.standstill)
        return result
    result.waits = {
        number: waits[domain] if number in tried else delay_untried(waits[domain])
        for number, domain in domains.items()
        if domain in waits
    }
    if rules.are_counted and len(result.waits) < len(domains):
        limiter = Limiter(session, rules, waits, domains, result, now=now, is_urgent=is_urgent, lease=lease)
        limiter.reserve_all()
    return result


def delay_untried(wait: Wait) -> Wait:
    """Return the wait of a letter that was never tried: deferred letters go first."""
    return wait._replace(until=wait.until + domain_pauses.RETRY_HEAD_START)


def pause_names(emails: Collection[str]) -> list[str]:
    """Return the names of the pauses that would hold up any of these addresses."""
    return [f"pause {name}" for name in sorted({ALL_MAIL, *map(domain_of, emails)})]


def active_waits(session: Session, names: Collection[str], now: datetime) -> dict[str, Wait]:
    """Return the pauses among `names` and the emergency stops that are active, in one query.

    A pause longer than `MAX_PAUSE` is ignored: a wrong clock wrote it.
    """
    pauses = [f"pause {name}" for name in names]
    is_postgres = session.get_bind().dialect.name == "postgresql"
    parameters = {
        "names": pauses if is_postgres else json.dumps(pauses),
        "now": now,
        "latest": now + domain_pauses.MAX_PAUSE,
    }
    found = {}
    for name, at, reason in session.connection().execute(WAITS_QUERY[is_postgres], parameters):
        paused = name.removeprefix("pause ")
        if paused == name:
            found[f"stop {name}"] = Wait(now + STOP_RECHECK, f"{STOPPED_PREFIX}{reason}")
        else:
            found[paused] = Wait(at, pause_reason(paused))
    return found


def pause_reason(name: str) -> str:
    """Return the reason for the pause of a domain or server."""
    if name == ALL_MAIL:
        return "the mail server does not answer, or asked us to slow down"
    return f"{name} {'does not answer, or ' if '://' in name else ''}asked us to slow down"


def standstill(waits: Mapping[str, Wait], *, is_urgent: bool) -> Wait | None:
    """Return what holds up every letter of a lane, or None."""
    if is_urgent:
        return waits.get("stop all")
    return waits.get("stop all") or waits.get("stop bulk") or waits.get(ALL_MAIL)


class Limiter:
    """Reserves tokens for the letters of one window."""

    def __init__(
        self,
        session: Session,
        rules: SendLimits,
        waits: Mapping[str, Wait],
        domains: Mapping[int, str],
        result: Reservation,
        *,
        now: datetime,
        is_urgent: bool,
        lease: str,
    ):
        self.session, self.rules, self.waits, self.domains = session, rules, waits, domains
        self.result, self.now, self.is_urgent, self.lease = result, now, is_urgent, lease
        self.common_quotas, self.domain_quotas, self.server_quotas = self.open_quotas()
        self.busy_domains = domain_pauses.busy_domains(
            session, rules, set(domains.values()), lease=lease, now=now
        )
        self.credit = {share.name: 0 for share in rules.servers}

    def open_quotas(self) -> tuple[list[Quota], dict[str, list[Quota]], dict[str, list[Quota]]]:  # noqa: PLR0915  (one pass over all limits)
        """Lock and return the quotas of this window: common ones, then by domain, then by server."""
        window_domains = set(self.domains.values())
        rates = [rate for rate in self.rules.rates if not rate.domain or rate.domain in window_domains]
        rates += [rate for share in self.rules.servers for rate in share.rates]
        fresh = {rate.name: rate.capacity for rate in rates}
        fresh |= {
            f"at once {domain}": 0.0 for domain in window_domains if self.rules.conversation_limit(domain)
        }
        prefixes = [f"{rate.name} " for rate in rates if rate.is_quota]
        if warm_up := self.rules.warm_up:
            fresh[quotas.warm_up_name(warm_up)] = 0.0
            prefixes.append(f"{quotas.warm_up_name(warm_up)} ")
        rows = quotas.lock_rows(self.session, fresh, self.now)
        parts = quotas.rows_with_prefix(self.session, prefixes)
        common: list[Quota] = []
        of_domain: dict[str, list[Quota]] = {}
        of_server: dict[str, list[Quota]] = {}
        for rate in rates:
            quota = (
                quotas.quota_of_rate(rate, parts, self.now)
                if rate.is_quota
                else quotas.bucket_of_rate(rate, *rows[rate.name], self.now)
            )
            if rate.server:
                of_server.setdefault(rate.server, []).append(quota)
            elif rate.domain:
                of_domain.setdefault(rate.domain, []).append(quota)
            else:
                common.append(quota)
        if warm_up:
            days = [row for row in parts if row[0].startswith(f"{quotas.warm_up_name(warm_up)} ")]
            today = quotas.warm_up_quota(warm_up, days, self.now)
            common += [today] if today else []
        return common, of_domain, of_server

    def reserve_all(self) -> None:
        """Let each letter go or wait, and store the tokens taken."""
        for number, domain in self.domains.items():
            if number not in self.result.waits and (wait := self.reserve_one(number, domain)):
                self.result.waits[number] = wait
        domains = {domain for number, domain in self.domains.items() if number not in self.result.waits}
        domain_pauses.begin_conversations(self.session, self.rules, domains, lease=self.lease, now=self.now)
        for quota in self.all_quotas():
            quota.save(self.session, quota)

    def all_quotas(self) -> list[Quota]:
        """Return every quota of this window."""
        return [
            *self.common_quotas,
            *[
                quota
                for by_name in (self.domain_quotas, self.server_quotas)
                for quotas_of_name in by_name.values()
                for quota in quotas_of_name
            ],
        ]

    def reserve_one(self, number: int, domain: str) -> Wait | None:
        """Take the tokens of one letter, or return what it waits for."""
        quotas_of_letter = [*self.common_quotas, *self.domain_quotas.get(domain, [])]
        empty = [] if self.is_urgent else [quota for quota in quotas_of_letter if quota.is_empty]
        if empty:
            return self.postpone(number, max(empty, key=lambda quota: quota.next_turn))
        if domain in self.busy_domains and not self.is_urgent:
            return Wait(
                self.now + BUSY_DOMAIN_PAUSE,
                f"{domain} has {self.rules.conversation_limit(domain)} conversations with us",
            )
        if self.rules.servers:
            server = self.next_server(number)
            if isinstance(server, Wait):
                return server
            self.result.servers[number] = server.name
            quotas_of_letter += self.server_quotas.get(server.name, [])
        for quota in quotas_of_letter:
            quota.take()
        return None

    def postpone(self, number: int, quota: Quota, *, is_for_all: bool = False) -> Wait:
        """Return the wait of one more letter for a quota; if the quota is for all mail, everything waits."""
        wait, refill = Wait(quota.next_turn, quota.reason), quota.refill(self.now)
        if quota.is_for_all or is_for_all:
            if self.result.standstill is None:
                self.result.standstill, self.result.refill = wait, refill
            refill = self.result.refill
        quota.waiting += 1
        if refill:
            self.result.short[number] = refill
        return wait

    def next_server(self, number: int) -> ServerShare | Wait:
        """Return the server whose turn it is among those with tokens, or what this letter waits for."""
        shares = [share for share in self.rules.servers if share.name not in self.waits]
        available = [share for share in shares if self.is_urgent or not self.empty_quotas(share)]
        if available:
            for share in available:
                self.credit[share.name] += share.weight
            chosen = max(available, key=lambda share: self.credit[share.name])
            self.credit[chosen.name] -= sum(share.weight for share in available)
            return chosen
        if shares:  # the server that can send soonest
            slowest = [max(self.empty_quotas(share), key=lambda quota: quota.next_turn) for share in shares]
            return self.postpone(number, min(slowest, key=lambda quota: quota.next_turn), is_for_all=True)
        wait = min(self.waits[share.name] for share in self.rules.servers)
        self.result.standstill = self.result.standstill or wait
        return wait

    def empty_quotas(self, share: ServerShare) -> list[Quota]:
        """Return the quotas of a server that have no token."""
        return [quota for quota in self.server_quotas.get(share.name, []) if quota.is_empty]


def canary_waits(
    session: Session, rules: SendLimits, editions: Sequence[str], *, due: int, min_canary: int, now: datetime
) -> dict[str, Wait]:
    """Return until when the rest of each edition waits for the results of its first letters.

    The wait of a new edition begins here, unless so few letters are due that the canary would have fewer
    than `min_canary`. It then begins when enough are due, since readers in other time zones are due later.
    Only the caller knows which letters belong to the canary.
    """
    canary = rules.canary
    if canary is None:
        return {}
    until = now + canary.wait
    names = {f"canary {edition}": edition for edition in editions}
    if due * canary.share >= min_canary:
        found = {
            name: at for name, (_, at) in quotas.lock_rows(session, dict.fromkeys(names, 0.0), until).items()
        }
    else:
        found = {name: at for name, _, at in quotas.rows_with_prefix(session, list(names)) if name in names}
    for name in [name for name, at in found.items() if at > until]:  # written by a wrong clock
        domain_pauses.write_row(session, name, 0.0, until)
        found[name] = until
    return {
        names[name]: Wait(at, f"the first {canary.text} of {names[name]} go ahead, until {at:%H:%M} UTC")
        for name, at in found.items()
    }
