"""Limit the number of simultaneous conversations with a domain. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple

from digest.delivery.limits.decisions import MAX_CLOCK_SKEW, Wait, is_ahead

BUSY_DOMAIN_PAUSE = timedelta(seconds=10)  #: how long letters wait if their domain has no free conversation
#: Maximum length of a conversation: as long as a lease, so that a dead worker's conversations end too.
CONVERSATION_LIFE = timedelta(seconds=900)


class ConversationLease(NamedTuple):
    """A worker's conversation: the worker's lease, and the latest time at which the conversation ends."""

    lease: str
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations:
    """The conversations with one domain, keyed by number, including conversations that may have ended."""

    domain: str
    limit: int
    held: Mapping[int, ConversationLease]

    def active(self, now: datetime) -> dict[int, ConversationLease]:
        """Return the conversations that have not ended."""
        at_most = CONVERSATION_LIFE + MAX_CLOCK_SKEW
        return {
            number: each for number, each in self.held.items() if is_ahead(each.until, now, at_most=at_most)
        }

    def wait(self, lease: str, now: datetime) -> Wait | None:
        """Return how long a letter waits if other workers hold all allowed conversations, else None."""
        others = sum(each.lease != lease for each in self.active(now).values())
        if others < self.limit:
            return None
        plural = "" if self.limit == 1 else "s"
        return Wait(now + BUSY_DOMAIN_PAUSE, f"{self.domain} has {self.limit} conversation{plural} with us")

    def begin(self, lease: str, now: datetime) -> Conversations:
        """Return the conversations with this worker's added, under its current or the lowest free number."""
        active = self.active(now)
        own = [number for number, each in active.items() if each.lease == lease]
        number = own[0] if own else next(each for each in count() if each not in active)
        return replace(self, held={**self.held, number: ConversationLease(lease, now + CONVERSATION_LIFE)})

    def end(self, lease: str) -> Conversations:
        """Return only the conversations that other workers hold a lease on."""
        held = {number: each for number, each in self.held.items() if each.lease not in {lease, ""}}
        return replace(self, held=held)
