"""Several servers as one: windows go to them in turn by weight, and to the next where one does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from digest.transport import Message, Outcome, Transport, Verdict

REST = 60.0  #: seconds for which a server that did not answer is asked last


@dataclass(kw_only=True)
class Member:
    """One of the servers, how much of the mail it takes, and how it stands."""

    transport: Transport
    name: str = ""
    weight: int = 1
    credit: int = 0
    rests_until: float = 0.0


class Several:
    """Sends each window through one of its servers, and what was paid for a server through that one.

    Only messages of which nothing was sent (`untried`) go on to the next server; one that a server
    refused, deferred or left in doubt is never shown to another. What was paid for a server is not
    taken to another, which has limits of its own: it comes back untried, and is paid for anew.
    """

    def __init__(self, members: Sequence[Member], *, clock: Callable[[], float] = monotonic):
        self.members = members
        self.clock = clock

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once, and where no server is reached, say what the last one said."""
        for member in self.members:
            paid = [message for message in window if message.server == member.name and member.name]
            if paid:
                yield from member.transport.send(paid)
        named = {member.name for member in self.members if member.name}
        yield from self.pass_round([message for message in window if message.server not in named])

    def pass_round(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try these through whichever server answers."""
        waiting, untried = list(window), list[Outcome]()
        for member in self.in_turn() if waiting else []:
            untried = []
            for outcome in member.transport.send(waiting):
                if outcome.verdict is Verdict.UNTRIED:
                    untried.append(outcome)
                else:
                    yield outcome
            if not untried:
                return
            if len(untried) == len(waiting):
                member.rests_until = self.clock() + REST
            left = {outcome.delivery_id for outcome in untried}
            waiting = [message for message in waiting if message.delivery_id in left]
        yield from untried

    def in_turn(self) -> list[Member]:
        """Return the servers in the order in which this window tries them."""
        now = self.clock()
        for member in self.members:
            member.credit += member.weight
        order = sorted(self.members, key=lambda member: (member.rests_until > now, -member.credit))
        order[0].credit -= sum(member.weight for member in self.members)
        return order

    def close(self) -> None:
        """Let go of every connection."""
        for member in self.members:
            member.transport.close()
