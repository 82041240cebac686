"""Several servers as one: windows go to them in turn by weight, and to the next where one does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from digest.transport import Message, Outcome, Transport, Verdict

REST = 60.0  #: seconds for which a server that did not answer is asked last
#: Seconds after which no further server is begun: each may think for as long as a task lasts.
LATEST = 45.0


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
        until = self.clock() + LATEST
        for member in self.members:
            paid = [message for message in window if message.server == member.name and member.name]
            if self.clock() < until:
                yield from member.transport.send(paid) if paid else ()
            else:
                yield from (too_late(message, member) for message in paid)
        named = {member.name for member in self.members if member.name}
        yield from self.pass_round([message for message in window if message.server not in named], until)

    def pass_round(self, window: Sequence[Message], until: float) -> Iterator[Outcome]:
        """Try these through whichever server answers."""
        waiting, untried = list(window), list[Outcome]()
        for member in self.in_turn() if waiting else []:
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
                member.rests_until = self.clock() + REST
            left = {outcome.delivery_id for outcome in untried}
            waiting = [message for message in waiting if message.delivery_id in left]
        yield from untried

    def in_turn(self) -> list[Member]:
        """Return the servers in the order in which this window tries them.

        One that rests gathers no credit: it would get all the mail for as long as it had been away.
        """
        now = self.clock()
        awake = [member for member in self.members if member.rests_until <= now] or self.members
        for member in awake:
            member.credit += member.weight
        order = sorted(self.members, key=lambda member: (member.rests_until > now, -member.credit))
        order[0].credit -= sum(member.weight for member in awake)
        return order

    def close(self) -> None:
        """Let go of every connection."""
        for member in self.members:
            member.transport.close()


def too_late(message: Message, member: Member) -> Outcome:
    """Return that a message was not begun, since another server has taken the time."""
    reply = f"{member.name}: time was up before its turn"
    return Outcome(delivery_id=message.delivery_id, verdict=Verdict.UNTRIED, phase="connect", reply=reply)
