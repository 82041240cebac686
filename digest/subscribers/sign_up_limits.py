"""Decide how many confirmations may be sent now, and to which sign-ups.

Anybody can enter any address in the form, so any confirmation may be unrequested. While most
confirmations are answered, sign-ups wait only seconds. Unanswered confirmations lower the rate; each
answered confirmation offsets two unanswered confirmations. The network with the fewest unanswered
confirmations is next, so a network that floods the queue waits behind all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heappush

MAX_WAIT = timedelta(hours=48)  #: time after which a waiting sign-up is dropped, and no letter is sent
REMEMBERED_FOR = timedelta(hours=72)  #: how long a confirmation counts; must be longer than `MAX_WAIT`

PER_MINUTE = 60
SLOWER_FROM = 50  #: number of unanswered confirmations above which the rate falls
LOWEST_FROM = 100  #: number of unanswered confirmations at which the rate is lowest
LOWEST_PER_MINUTE = 5  #: the rate at `LOWEST_FROM`; twice as many unanswered confirmations halve it
CREDIT = 2  #: number of unanswered confirmations that each answered confirmation offsets

PER_NETWORK = 10  #: limit of unanswered confirmations per network
PER_NETWORK_AT_LOWEST = 1

UNKNOWN = ""  #: the network of sign-ups from this machine or through an unconfigured proxy
BY_MAIL = "mail"  #: the network of all sign-ups by mail from unproven senders
BY_OPERATOR = "operator"  #: the network of sign-ups through the CLI; they neither wait nor count
PROVEN = "@"  #: prefix of the network of sign-ups by mail from a proven sender, before the sender's domain
SHARED = frozenset({UNKNOWN, BY_MAIL})  #: networks of many people, whose waiting sign-ups are not limited


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """The unanswered and answered confirmations that still count."""

    unanswered: int = 0
    answered: int = 0

    @property
    def surplus(self) -> int:
        """Return the number of unanswered confirmations that answered confirmations do not offset."""
        return max(0, self.unanswered - CREDIT * self.answered)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recent:
    """Figures about the confirmations recently sent to all networks."""

    counts: Counts
    last_minute: int = 0
    since_last: timedelta | None = None  #: time since the newest confirmation


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingSignUp:
    """A sign-up waiting for its confirmation letter. Ids ascend with time."""

    id: int
    email_key: str
    network: str


def per_minute(counts: Counts) -> float:
    """Return the number of confirmations that may be sent per minute."""
    if counts.surplus <= SLOWER_FROM:
        return PER_MINUTE
    if counts.surplus >= LOWEST_FROM:
        return LOWEST_PER_MINUTE * LOWEST_FROM / counts.surplus
    left = (LOWEST_FROM - counts.surplus) / (LOWEST_FROM - SLOWER_FROM)
    return LOWEST_PER_MINUTE + left * (PER_MINUTE - LOWEST_PER_MINUTE)


def is_slower(counts: Counts) -> bool:
    """Return whether unanswered confirmations have lowered the rate."""
    return counts.surplus > SLOWER_FROM


def is_lowest(counts: Counts) -> bool:
    """Return whether the rate is at its lowest."""
    return counts.surplus >= LOWEST_FROM


def confirmations_allowed(recent: Recent) -> int:
    """Return the number of confirmations that may be sent now."""
    pace = per_minute(recent.counts)
    if pace >= 1:
        return max(0, int(pace) - recent.last_minute)
    is_due = recent.since_last is None or recent.since_last >= timedelta(minutes=1) / pace
    return int(is_due)


def choose_next(
    waiting: Iterable[WaitingSignUp], networks: Mapping[str, Counts], recent: Recent
) -> list[WaitingSignUp]:
    """Choose the sign-ups to confirm.

    Each is the oldest of the network that has the fewest unanswered confirmations at that point.

    An address is chosen once, even if several networks signed it up.
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
    """Return the number of unanswered confirmations at which a network must wait."""
    if network == UNKNOWN:
        return float("inf")
    least = PER_NETWORK_AT_LOWEST if is_lowest(recent.counts) else PER_NETWORK
    return least + CREDIT * counts.answered
