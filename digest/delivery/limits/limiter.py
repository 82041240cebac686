"""Decide which letters of a window may be sent, and why and how long the others wait. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from digest.delivery.limits.conversations import Conversations
from digest.delivery.limits.decisions import ALL, ALL_MAIL, BULK, Allowed, Refill, Wait
from digest.delivery.limits.domain_pauses import Pause
from digest.delivery.limits.limit_rules import ServerShare
from digest.delivery.limits.rates import Bucket, Quota
from digest.delivery.limits.warm_up import WarmUp

#: How long stopped letters wait before they are checked again, unless mail is resumed earlier.
STOP_RECHECK = timedelta(hours=1)
STOPPED_PREFIX = "stopped: "  #: the start of the reason why a stopped letter waits

Allowance = Bucket | Quota | WarmUp
Decision = Allowed | Wait
Shortage = tuple[Allowance, Wait]  #: an allowance that has no token, and the wait until it has one


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The letters that a worker wants to send together.

    Urgent letters, for which somebody is waiting, are counted but need no token. Only the pause of a domain
    or server, or a stop of all mail, delays them.
    """

    domains: Mapping[int, str]  #: the recipient's domain of each letter
    tried: Collection[int] = ()  #: the letters that were attempted before
    is_urgent: bool = False
    lease: str = ""  #: the worker's lease
    can_wait: bool = False  #: whether the worker itself waits for tokens that are available soon


@dataclass(frozen=True, kw_only=True, slots=True)
class Limiter:
    """All limits on a window, with their current counts."""

    servers: tuple[ServerShare, ...] = ()  #: the servers with their rates; empty if no server has a rate
    stops: Mapping[str, str] = field(default_factory=dict)  #: the reasons of emergency stops, keyed by scope
    pauses: Mapping[str, Pause] = field(default_factory=dict)  #: pauses, keyed by domain or server
    allowances: tuple[Allowance, ...] = ()
    conversations: Mapping[str, Conversations] = field(
        default_factory=dict
    )  #: conversations, keyed by domain, for domains with a limit
    #: credit of each server, which grows by its weight; the server with the most credit sends the next letter
    credit: Mapping[str, int] = field(default_factory=dict)
    standstill: Wait | None = None  #: a wait for all letters of this lane

    def reserve(self, window: Window, now: datetime) -> Reservation:
        """Take one token of every limit for each letter that may be sent; the other letters wait."""
        if standstill := self.lane_wait(window, now):
            stopped = replace(self, standstill=standstill)
            return Reservation(decisions=dict.fromkeys(window.domains, standstill), limiter=stopped)
        decisions: dict[int, Decision] = {}
        limiter = replace(self, allowances=tuple(each.at(now) for each in self.allowances))
        for number in window.domains:
            limiter, decisions[number] = limiter.reserve_one(number, window, now)
        return Reservation(decisions=decisions, limiter=limiter)

    def release(self, unsent: Collection[tuple[str, str]]) -> Limiter:
        """Release the tokens of letters that no server received; each letter is given as (domain, server)."""
        scopes = [{ALL_MAIL, *letter} for letter in unsent]
        released = [
            each.release(sum(each.scope in of_letter for of_letter in scopes)) for each in self.allowances
        ]
        return replace(self, allowances=tuple(released))

    def lane_wait(self, window: Window, now: datetime) -> Wait | None:
        """Return the wait that applies to all letters of the window's lane, or None."""
        for scope in (ALL,) if window.is_urgent else (ALL, BULK):
            if scope in self.stops:
                return Wait(now + STOP_RECHECK, f"{STOPPED_PREFIX}{self.stops[scope]}")
        return None if window.is_urgent else self.pause_wait(ALL_MAIL, now)

    def pause_wait(self, scope: str, now: datetime, *, is_tried: bool = True) -> Wait | None:
        """Return the wait until the pause of a domain or server ends, or None if it is not paused."""
        pause = self.pauses.get(scope)
        return pause.wait(scope, is_tried=is_tried) if pause and pause.is_active(now) else None

    def reserve_one(self, number: int, window: Window, now: datetime) -> tuple[Limiter, Decision]:
        """Return the decision about one letter, and the updated limiter."""
        domain = window.domains[number]
        if paused := self.pause_wait(domain, now, is_tried=number in window.tried):
            return self, paused
        if not window.is_urgent:
            if shortage := self.shortage({ALL_MAIL, domain}, window, now):
                return self.postpone(*shortage, is_for_all=shortage[0].scope == ALL_MAIL)
            conversations = self.conversations.get(domain)
            if conversations and (busy := conversations.wait(window.lease, now)):
                return self, busy
        if self.servers:
            return self.assign(domain, window, now)
        return self.take(domain, "", window, now), Allowed()

    def assign(self, domain: str, window: Window, now: datetime) -> tuple[Limiter, Decision]:
        """Assign a letter to the next server in turn that has tokens."""
        pauses = {share.name: self.pause_wait(share.name, now) for share in self.servers}
        shares = [share for share in self.servers if pauses[share.name] is None]
        if not shares:
            wait = min(pause for pause in pauses.values() if pause)
            return replace(self, standstill=self.standstill or wait), wait
        short = {share: self.shortage({share.name}, window, now) for share in shares}
        ready = [share for share in shares if window.is_urgent or not short[share]]
        if not ready:
            soonest = min((each for each in short.values() if each), key=lambda each: each[1].until)
            return self.postpone(*soonest, is_for_all=True)
        credit = {share.name: self.credit.get(share.name, 0) + share.weight for share in ready}
        chosen = max(ready, key=lambda share: credit[share.name]).name
        credit[chosen] -= sum(share.weight for share in ready)
        after = replace(self, credit={**self.credit, **credit})
        return after.take(domain, chosen, window, now), Allowed(chosen)

    def shortage(self, scopes: Collection[str], window: Window, now: datetime) -> Shortage | None:
        """Return the allowance in `scopes` with the longest wait, and the wait; None if all have tokens."""
        waits = [
            (each, each.wait(now, can_wait=window.can_wait))
            for each in self.allowances
            if each.scope in scopes
        ]
        return max(
            [(each, wait) for each, wait in waits if wait], key=lambda each: each[1].until, default=None
        )

    def take(self, domain: str, server: str, window: Window, now: datetime) -> Limiter:
        """Return the limiter after one letter is sent."""
        if not (self.allowances or self.conversations):
            return self
        scopes, conversations = {ALL_MAIL, domain, server}, self.conversations
        if domain in conversations:
            conversations = {**conversations, domain: conversations[domain].begin(window.lease, now)}
        taken = tuple([each.take(now) if each.scope in scopes else each for each in self.allowances])
        return replace(self, allowances=taken, conversations=conversations)

    def postpone(self, short: Allowance, wait: Wait, *, is_for_all: bool) -> tuple[Limiter, Decision]:
        """Return the updated limiter, and the decision that a letter waits for a token of an allowance.

        With `is_for_all`, all letters of the lane wait.
        """
        longer = replace(short, waiting=short.waiting + 1)
        allowances = tuple(longer if each is short else each for each in self.allowances)
        limiter = replace(self, allowances=allowances)
        if not is_for_all:
            return limiter, wait
        standstill = self.standstill or wait
        return replace(limiter, standstill=standstill), standstill if isinstance(standstill, Refill) else wait


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """The decision about each letter of a window."""

    decisions: Mapping[int, Decision]
    limiter: Limiter = field(default_factory=Limiter)  #: the limiter after the decisions

    @property
    def waits(self) -> dict[int, Wait]:
        """Return the waits of the letters that are requeued."""
        return {number: each for number, each in self.decisions.items() if type(each) is Wait}

    @property
    def short(self) -> dict[int, Wait]:
        """Return the waits of the letters that the worker holds until tokens are available."""
        return {number: each for number, each in self.decisions.items() if isinstance(each, Refill)}

    @property
    def servers(self) -> dict[int, str]:
        """Return the assigned server of each letter, if servers have rates."""
        allowed = {number: each for number, each in self.decisions.items() if isinstance(each, Allowed)}
        return {number: each.server for number, each in allowed.items() if each.server}

    @property
    def standstill(self) -> Wait | None:
        """Return the wait of the whole lane, or None; if the wait is a `Refill`, the worker itself waits."""
        return self.limiter.standstill
