"""Decide how many confirmations may be sent now, and to which sign-ups. Pure.

Anybody can type any address into the form, so each confirmation may be a letter that nobody asked for. While most
are answered, sign-ups wait only seconds. Unanswered confirmations slow the pace, and each answered one makes up
for two of them. The network with the fewest unanswered ones is next, so a network that floods the queue waits
behind all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heappush

MAX_WAIT = timedelta(hours=48)  #: a sign-up that waited so long is dropped without a letter
REMEMBERED_FOR = timedelta(hours=72)  #: how long a confirmation counts; longer than any sign-up waits

PER_MINUTE = 60
SLOWER_FROM = 50  #: unanswered confirmations from which the pace falls
LOWEST_FROM = 100  #: unanswered confirmations from which the pace is lowest
LOWEST_PER_MINUTE = 5  #: at `LOWEST_FROM`; half of it at twice as many, and so on
CREDIT = 2  #: unanswered confirmations that one answered one makes up for

PER_NETWORK = 10  #: unanswered confirmations that one network may cause
PER_NETWORK_AT_LOWEST = 1

UNKNOWN = ""  #: the network of a sign-up from this machine, or through a proxy that is not configured
BY_MAIL = "mail"  #: the network of all sign-ups by mail whose sender is not proven
BY_OPERATOR = "operator"  #: the network of one on the command line, which neither waits nor counts
PROVEN = "@"  #: begins the network of one by a mail whose sender is proven: the domain that proves it
SHARED = frozenset({UNKNOWN, BY_MAIL})  #: used by many people, so any number of their sign-ups may wait


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """The unanswered and answered confirmations that still count."""

    unanswered: int = 0
    answered: int = 0

    @property
    def surplus(self) -> int:
        """Return the unanswered confirmations that no answered one makes up for."""
        return max(0, self.unanswered - CREDIT * self.answered)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recent:
    """The confirmations sent lately, of all networks together."""

    counts: Counts
    last_minute: int = 0
    since_last: timedelta | None = None  #: since the newest one


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingSignUp:
    """A sign-up that waits for its confirmation letter. Ids grow with time."""

    id: int
    email_key: str
    network: str


def per_minute(counts: Counts) -> float:
    """Return how many confirmations may be sent in a minute."""
    if counts.surplus <= SLOWER_FROM:
        return PER_MINUTE
    if counts.surplus >= LOWEST_FROM:
        return LOWEST_PER_MINUTE * LOWEST_FROM / counts.surplus
    left = (LOWEST_FROM - counts.surplus) / (LOWEST_FROM - SLOWER_FROM)
    return LOWEST_PER_MINUTE + left * (PER_MINUTE - LOWEST_PER_MINUTE)


def is_slower(counts: Counts) -> bool:
    """Return whether too many confirmations stay unanswered for the full pace."""
    return counts.surplus > SLOWER_FROM


def is_lowest(counts: Counts) -> bool:
    """Return whether the pace is at its lowest."""
    return counts.surplus >= LOWEST_FROM


def confirmations_allowed(recent: Recent) -> int:
    """Return how many confirmations may be sent now."""
    pace = per_minute(recent.counts)
    if pace >= 1:
        return max(0, int(pace) - recent.last_minute)
    is_due = recent.since_last is None or recent.since_last >= timedelta(minutes=1) / pace
    return int(is_due)


def choose_next(
    waiting: Iterable[WaitingSignUp], networks: Mapping[str, Counts], recent: Recent
) -> list[WaitingSignUp]:
    """Return the sign-ups to send confirmations to: each time the oldest of the network with the fewest unanswered.

    An address is chosen once, even if it waits for several networks.
    """
    queues: dict[str, deque[WaitingSignUp]] = defaultdict(deque)
    for one in sorted(waiting, key=lambda one: one.id):
        queues[one.network].append(one)
    turns = [(networks.get(name, Counts()).unanswered, queue[0].id, name) for name, queue in queues.items()]
    heapify(turns)
    chosen: dict[str, WaitingSignUp] = {}
    most = confirmations_allowed(recent)
    while turns and len(chosen) < most:
        unanswered, _, name = heappop(turns)
        if unanswered >= network_limit(name, networks.get(name, Counts()), recent):
            continue
        one = queues[name].popleft()
        is_new = chosen.setdefault(one.email_key, one) is one
        if queues[name]:
            heappush(turns, (unanswered + is_new, queues[name][0].id, name))
    return list(chosen.values())


def blocked_networks(networks: Mapping[str, Counts], recent: Recent) -> list[str]:
    """Return the networks at their limit of unanswered confirmations."""
    return [
        name for name, counts in networks.items() if counts.unanswered >= network_limit(name, counts, recent)
    ]


def network_limit(network: str, counts: Counts, recent: Recent) -> float:
    """Return the number of unanswered confirmations from which a network has to wait."""
    if network == UNKNOWN:
        return float("inf")
    least = PER_NETWORK_AT_LOWEST if is_lowest(recent.counts) else PER_NETWORK
    return least + CREDIT * counts.answered
