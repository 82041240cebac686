"""Send each letter through the server that was chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from digest.delivery.transports.transport import Message, Outcome, Transport, Verdict, make_outcome

#: Seconds after which no further server is tried, because one server may take a task's whole time limit.
MAX_SECONDS = 45.0


class ServerPool:
    """Sends each letter through its server only; others go through the first one.

    If a server does not respond, its letters remain untried, and other servers are chosen for them.
    """

    def __init__(self, members: Mapping[str, Transport], *, clock: Callable[[], float] = monotonic):
        self.members = members
        self.clock = clock

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once, server by server."""
        until, first = self.clock() + MAX_SECONDS, next(iter(self.members))
        for name, transport in self.members.items():
            own = [each for each in window if (each.server if each.server in self.members else first) == name]
            if self.clock() < until:
                yield from transport.send(own) if own else ()
            else:
                late = f"{name}: the time limit ended before its turn"
                yield from (make_outcome(each, Verdict.UNTRIED, "", late) for each in own)

    def close(self) -> None:
        """Close every connection."""
        for transport in self.members.values():
            transport.close()
