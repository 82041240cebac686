"""Decide how many confirmations may be sent now, and which sign-ups get them.

Anybody can enter any address in the form, so the owner of an address may not have asked for the confirmation.
While most confirmations are answered, sign-ups wait only a few seconds. Unanswered confirmations lower the
rate; each answered confirmation offsets two unanswered ones. The network with the fewest unanswered
confirmations is served first, so a network that floods the queue waits behind all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heappush

MAX_WAIT = timedelta(hours=48)  #: time after which a waiting sign-up is dropped without a letter
#: How long a confirmation counts towards the limits; must be longer than `MAX_WAIT`.
REMEMBERED_FOR = timedelta(hours=72)

PER_MINUTE = 60
SLOWER_FROM = 50  #: number of unanswered confirmations above which fewer are sent per minute
LOWEST_FROM = 100  #: number of unanswered confirmations from which `LOWEST_PER_MINUTE` applies
#: Confirmations per minute at `LOWEST_FROM`; twice as many unanswered ones halve the number.
LOWEST_PER_MINUTE = 5
CREDIT = 2  #: number of unanswered confirmations that each answered confirmation offsets

#: The maximum number of confirmations to one address in each period, so that the form cannot be used to
#: flood an address.
PER_ADDRESS = ((1, timedelta(hours=24)), (3, timedelta(days=30)))
PER_MAILBOX_A_DAY = 3  #: the same for all addresses of one mailbox, which differ in a tag after `+`
PER_NETWORK = 10  #: a network with this many unanswered confirmations must wait; answered ones allow more
PER_NETWORK_AT_LOWEST = 1
MAX_WAITING_PER_NETWORK = 40  #: maximum number of waiting sign-ups per network
#: Maximum number of waiting sign-ups; at this number, the newest sign-up of the largest network is dropped.
MAX_WAITING = 10_000
#: Maximum number of new settings links that one network may request a day, and all unknown networks together.
LINKS_A_DAY, LINKS_A_DAY_UNKNOWN = 20, 500

UNKNOWN = ""  #: stands for the network of sign-ups from this machine or through an unconfigured proxy
BY_MAIL = "mail"  #: stands for the unknown networks of sign-ups by mail from unproven senders
PROVEN = "@"  #: prefix of the network of a proven sender of a sign-up by mail; the sender's domain follows
#: Networks shared by many people, to which the limit on waiting sign-ups does not apply.
SHARED = frozenset({UNKNOWN, BY_MAIL})


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many confirmations are unanswered and answered, among those that still count."""

    unanswered: int = 0
    answered: int = 0

    @property
    def surplus(self) -> int:
        """Return how many unanswered confirmations are not offset by answered ones."""
        return max(0, self.unanswered - CREDIT * self.answered)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recent:
    """The recent confirmations that sign-ups from all networks caused."""

    counts: Counts
    last_minute: int = 0
    since_last: timedelta | None = None  #: time since the newest confirmation was sent


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingSignUp:
    """A sign-up waiting for its confirmation letter. Later sign-ups have higher ids."""

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
    """Return whether unanswered confirmations have lowered the rate of sending."""
    return counts.surplus > SLOWER_FROM


def is_lowest(counts: Counts) -> bool:
    """Return whether so many confirmations are unanswered that the lowest rate applies."""
    return counts.surplus >= LOWEST_FROM


def confirmations_allowed(recent: Recent) -> int:
    """Return how many confirmations may be sent at this moment."""
    pace = per_minute(recent.counts)
    if pace >= 1:
        return max(0, int(pace) - recent.last_minute)
    is_due = recent.since_last is None or recent.since_last >= timedelta(minutes=1) / pace
    return int(is_due)


def choose_next(
    waiting: Iterable[WaitingSignUp], networks: Mapping[str, Counts], recent: Recent
) -> list[WaitingSignUp]:
    """Choose the sign-ups to confirm.

    Each chosen sign-up is the oldest of the network that has the fewest unanswered confirmations at that
    point.

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
    """Return the networks that have reached their limit of unanswered confirmations."""
    return [
        name for name, counts in networks.items() if counts.unanswered >= network_limit(name, counts, recent)
    ]


def network_limit(network: str, counts: Counts, recent: Recent) -> float:
    """Return how many unanswered confirmations make a network wait."""
    if network == UNKNOWN:
        return float("inf")
    least = PER_NETWORK_AT_LOWEST if is_lowest(recent.counts) else PER_NETWORK
    return least + CREDIT * counts.answered
