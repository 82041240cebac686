"""Distinguish domains that greylist from domains that limit our rate, and pause the latter.

Pure. A greylisting server defers the first try for each recipient and accepts the second. A server that
limits our rate may defer any letter. A deferral of a recipient therefore counts from the second try of the letter
on, and a domain is paused after letters to several different recipients were deferred in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from digest.delivery.limits.decisions import ALL_MAIL, MAX_CLOCK_SKEW, Wait, is_ahead

SLOW_DOWN_RECIPIENTS = 5  #: number of different recipients deferred in a row after which a domain is paused
FIRST_PAUSE, MAX_PAUSE = timedelta(minutes=5), timedelta(hours=1)
#: How long a deferral, or the end of a pause, counts; after this time the next pause is 5 minutes again.
STRIKES_FORGOTTEN_AFTER = timedelta(hours=2)
QUOTA_PAUSE = timedelta(hours=1)  #: pause after a server replied that our daily quota is used up
SPEED_PAUSE = timedelta(seconds=15)  #: pause after a server replied that we send too quickly
NO_REPLY_PAUSE = timedelta(seconds=60)  #: pause of a server that did not respond
#: After a pause, deferred letters are sent this much earlier than others, to test whether the domain accepts
#: mail again.
RETRY_HEAD_START = timedelta(seconds=90)

#: Temporary refusals by policy (RFC 3463, 4.7.X). Servers use them for greylisting and to limit our rate;
#: several in a row suggest a rate limit.
SLOW_DOWN = re.compile(r"\b4\.7\.\d+\b")
#: Replies by which a provider such as SES limits all our mail, not mail to one recipient.
SENDING_TOO_FAST = re.compile(r"throttling failure|maximum send(?:ing)? rate exceeded", re.IGNORECASE)
QUOTA_EXCEEDED = re.compile(r"daily (?:message|sending) quota exceeded", re.IGNORECASE)


class LetterReply(NamedTuple):
    """The reply of a domain's server to one letter."""

    recipient: str
    is_taken: bool


def is_slow_down(code: int | None, reply: str, phase: str) -> bool:
    """Return whether several replies like this one would mean that we send too much to a domain."""
    return phase in {"rcpt", "data", "dot"} and (code == 421 or bool(SLOW_DOWN.search(reply)))


def may_be_greylisting(code: int | None, phase: str) -> bool:
    """Return whether a deferral is about its recipient; the code 421 is about the connection."""
    return phase == "rcpt" and code != 421


def throttle_pause(reply: str) -> timedelta | None:
    """Return how long to pause a server whose reply says that we send too much, else None."""
    if QUOTA_EXCEEDED.search(reply):
        return QUOTA_PAUSE
    return SPEED_PAUSE if SENDING_TOO_FAST.search(reply) else None


def domain_of(email: str) -> str:
    """Return the domain of an address."""
    return email.rpartition("@")[2].lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A time until which a domain or server gets no letters."""

    until: datetime
    strikes: int = 0  #: number of consecutive pauses

    def is_active(self, now: datetime) -> bool:
        """Return whether the pause is in force.

        A pause longer than `MAX_PAUSE` was stored by a machine with a wrong clock, and is ignored.
        """
        return is_ahead(self.until, now, at_most=MAX_PAUSE)

    def strike(self, now: datetime) -> Pause:
        """Return the next pause: 5, 10, 20, ... minutes, at most an hour; an active pause stays unchanged."""
        if self.is_active(now):  # another letter of the same window began the pause
            return self
        strikes = self.strikes + 1 if abs(now - self.until) < STRIKES_FORGOTTEN_AFTER else 1
        return Pause(until=now + min(FIRST_PAUSE * 2 ** min(strikes - 1, 10), MAX_PAUSE), strikes=strikes)

    def wait(self, scope: str, *, is_tried: bool = True) -> Wait:
        """Return the wait that the pause imposes on a letter; deferred letters wait less than new letters."""
        return Wait(self.until if is_tried else self.until + RETRY_HEAD_START, pause_reason(scope))


def pause_reason(scope: str) -> str:
    """Return the reason for the pause of a domain or server."""
    if scope == ALL_MAIL:
        return "the mail server does not respond, or asked us to slow down"
    return f"{scope} {'does not respond, or ' if '://' in scope else ''}asked us to slow down"


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainRecord:
    """The stored record of a domain that deferred letters."""

    pause: Pause
    deferred: frozenset[str] = frozenset()  #: recipients deferred since the last accepted letter
    deferred_at: datetime | None = None  #: the time of the last deferral

    def after(self, replies: Iterable[LetterReply], now: datetime) -> DomainRecord:
        """Return the record after these replies, in order of arrival; old deferrals do not count."""
        since, until = now - STRIKES_FORGOTTEN_AFTER, now + MAX_CLOCK_SKEW
        is_recent = self.deferred_at and since < self.deferred_at <= until
        record = self if is_recent else replace(self, deferred=frozenset(), deferred_at=None)
        for reply in replies:
            record = record.after_one(reply, now)
        if len(record.deferred) < SLOW_DOWN_RECIPIENTS:
            return record
        return replace(record, pause=record.pause.strike(now), deferred=frozenset(), deferred_at=None)

    def after_one(self, reply: LetterReply, now: datetime) -> DomainRecord:
        """Return the record after one reply; an accepted letter cancels all counted deferrals."""
        if reply.is_taken:
            return DomainRecord(pause=replace(self.pause, strikes=0))
        return replace(self, deferred=self.deferred | {reply.recipient}, deferred_at=now)
