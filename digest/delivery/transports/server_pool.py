"""Send through several servers by weight; if a server does not respond, send through the next server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from digest.delivery.transports.transport import Message, Outcome, Transport, Verdict, make_outcome

REST_SECONDS = 60.0  #: how long a server that did not respond is tried only after all others
#: Seconds after which no further server is tried, because one server may take a task's whole time limit.
MAX_SECONDS = 45.0


@dataclass(kw_only=True)
class PoolMember:
    """One of the servers, its weight, and its current state."""

    transport: Transport
    name: str = ""
    weight: int = 1
    credit: int = 0
    rests_until: float = 0.0


class ServerPool:
    """Sends each window through one of its servers; letters assigned to a server go only through that server.

    Only messages of which nothing was sent (`untried`) are sent through the next server. A message that a
    server refused, deferred or left in doubt is never sent through another server. If a letter's assigned
    server does not respond, the letter remains untried and must get new tokens, because every server has its
    own limits.
    """

    def __init__(self, members: Sequence[PoolMember], *, clock: Callable[[], float] = monotonic):
        self.members = members
        self.clock = clock

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once; if no server can be reached, yield the outcome from the last server."""
        until = self.clock() + MAX_SECONDS
        for member in self.members:
            assigned = [message for message in window if message.server == member.name and member.name]
            if self.clock() < until:
                yield from member.transport.send(assigned) if assigned else ()
            else:
                late = f"{member.name}: the time limit ended before its turn"
                yield from (make_outcome(each, Verdict.UNTRIED, "connect", late) for each in assigned)
        names = {member.name for member in self.members if member.name}
        yield from self.try_each_server([message for message in window if message.server not in names], until)

    def try_each_server(self, window: Sequence[Message], until: float) -> Iterator[Outcome]:
        """Try these messages through the first server that responds."""
        waiting, untried = list(window), list[Outcome]()
        for member in self.members_in_turn() if waiting else []:
            if untried and self.clock() >= until:
                break
            untried = []
            for outcome in member.transport.send(waiting):
                if outcome.verdict is Verdict.UNTRIED:
                    untried.append(outcome)
                else:
                    yield outcome
            if not untried:
                return
            if len(untried) == len(waiting):
                member.rests_until = self.clock() + REST_SECONDS
            left = {outcome.delivery_id for outcome in untried}
            waiting = [message for message in waiting if message.delivery_id in left]
        yield from untried

    def members_in_turn(self) -> list[PoolMember]:
        """Return the servers in the order in which this window tries them.

        A server that did not respond gains no credit for `REST_SECONDS`; otherwise it would later get all
        mail until its credit is used up.
        """
        now = self.clock()
        awake = [member for member in self.members if member.rests_until <= now] or self.members
        for member in awake:
            member.credit += member.weight
        order = sorted(self.members, key=lambda member: (member.rests_until > now, -member.credit))
        order[0].credit -= sum(member.weight for member in awake)
        return order

    def close(self) -> None:
        """Close every connection."""
        for member in self.members:
            member.transport.close()
