"""Decide which letters of a window may be sent, and why and how long the others wait. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zlib import crc32

from digest.delivery.limits.conversations import Conversations
from digest.delivery.limits.decisions import ALL, ALL_MAIL, BULK, Allowed, Refill, Wait
from digest.delivery.limits.domain_pauses import Pause
from digest.delivery.limits.limit_rules import ServerShare
from digest.delivery.limits.rates import Bucket, Quota
from digest.delivery.limits.send_hours import SendHours
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
    or server, or a stop of all mail, delays them. Alarms wait for a server only.
    """

    domains: Mapping[int, str]  #: the recipient's domain of each letter
    tried: Collection[int] = ()  #: the letters that were attempted before
    alarms: Collection[int] = ()
    is_urgent: bool = False
    lease: str = ""  #: the worker's lease
    can_wait: bool = False  #: whether the worker itself waits for tokens that are available soon


@dataclass(frozen=True, kw_only=True, slots=True)
class Limiter:
    """All limits on a window, with their current counts."""

    servers: tuple[ServerShare, ...] = (ServerShare(),)
    hours: SendHours | None = None
    stops: Mapping[str, str] = field(default_factory=dict)  #: the reasons of emergency stops, keyed by scope
    pauses: Mapping[str, Pause] = field(default_factory=dict)  #: pauses, keyed by domain or server
    deferring: Collection[
        str
    ] = ()  #: the domains with counted deferrals or pauses, which an accepted letter cancels
    allowances: tuple[Allowance, ...] = ()
    conversations: Mapping[str, Conversations] = field(
        default_factory=dict
    )  #: conversations, keyed by domain, for domains with a limit
    standstill: Wait | None = None  #: a wait for all letters of this lane

    def reserve(self, window: Window, now: datetime) -> Reservation:
        """Take one token of every limit for each letter that may be sent; the other letters wait."""
        decisions: dict[int, Decision] = {}
        wait = self.lane_wait(window, now)
        limiter = replace(self, allowances=tuple(each.at(now) for each in self.allowances), standstill=wait)
        awake = [share for share in self.servers if not self.pause_wait(share.name, now)]
        for number, domain in window.domains.items():
            if number in window.alarms:
                decisions[number] = self.choose_server(number, awake, now)
            elif wait:
                decisions[number] = wait
            else:
                limiter, decisions[number] = limiter.reserve_one(number, domain, window, awake, now)
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
        if self.hours and not window.is_urgent and (opens_at := self.hours.opens_at(now)):
            return Wait(opens_at, f"digests are sent from {self.hours.opens:%H:%M} on")
        return None

    def pause_wait(self, scope: str, now: datetime, *, is_tried: bool = True) -> Wait | None:
        """Return the wait until the pause of a domain or server ends, or None if it is not paused."""
        pause = self.pauses.get(scope)
        return pause.wait(scope, is_tried=is_tried) if pause and pause.is_active(now) else None

    def reserve_one(  # noqa: PLR0911  (one return for each reason to wait)
        self, number: int, domain: str, window: Window, awake: Sequence[ServerShare], now: datetime
    ) -> tuple[Limiter, Decision]:
        """Return the decision about one letter, and the updated limiter; `awake` are the servers without a pause."""
        if paused := self.pause_wait(domain, now, is_tried=number in window.tried):
            return self, paused
        short: dict[str, Shortage] = {}
        if not window.is_urgent:
            if shortage := self.shortage({ALL_MAIL, domain}, window, now):
                return self.postpone(*shortage, is_for_all=shortage[0].scope == ALL_MAIL)
            conversations = self.conversations.get(domain)
            if conversations and (busy := conversations.wait(window.lease, now)):
                return self, busy
            short = {
                share.name: found for share in awake if (found := self.shortage({share.name}, window, now))
            }
        ready = [share for share in awake if share.name not in short] if short else awake
        decision = self.choose_server(number, ready, now)
        if isinstance(decision, Allowed):
            return self.take(decision.server, domain, window, now), decision
        if short:
            return self.postpone(*min(short.values(), key=lambda each: each[1].until), is_for_all=True)
        return replace(self, standstill=self.standstill or decision), decision

    def choose_server(self, number: int, ready: Sequence[ServerShare], now: datetime) -> Decision:
        """Return one of the servers that are `ready`, or how long all servers are paused.

        The letter's id chooses, so that each server gets its share by weight.
        """
        if not ready:
            pauses = [self.pause_wait(share.name, now) for share in self.servers]
            return min((wait for wait in pauses if wait), default=Wait(now, ""))
        place = crc32(b"server %d" % number) % sum(share.weight for share in ready)
        for share in ready:
            place -= share.weight
            if place < 0:
                break
        return Allowed(share.name)

    def shortage(self, scopes: Collection[str], window: Window, now: datetime) -> Shortage | None:
        """Return the allowance in `scopes` with the longest wait, and the wait; None if all have tokens."""
        if not self.allowances:
            return None
        waits = [
            (each, each.wait(now, can_wait=window.can_wait))
            for each in self.allowances
            if each.scope in scopes
        ]
        return max(
            [(each, wait) for each, wait in waits if wait], key=lambda each: each[1].until, default=None
        )

    def take(self, server: str, domain: str, window: Window, now: datetime) -> Limiter:
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
        """Return the waits of the letters that may not be sent now; a worker holds a letter during a `Refill`."""
        return {number: each for number, each in self.decisions.items() if isinstance(each, Wait)}

    @property
    def servers(self) -> dict[int, str]:
        """Return the server of each letter that may be sent."""
        return {number: each.server for number, each in self.decisions.items() if isinstance(each, Allowed)}

    @property
    def standstill(self) -> Wait | None:
        """Return the wait of the whole lane, or None; if the wait is a `Refill`, the worker itself waits."""
        return self.limiter.standstill
