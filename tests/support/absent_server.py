"""A mail server that does not respond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from digest.delivery.transports.transport import Message, Outcome, Verdict


@dataclass
class AbsentServer:
    """A server that stops answering at some message of a window."""

    after: int = 0  #: messages of each window that it accepts
    windows: int = 0  #: windows that it was sent

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        self.windows += 1
        for place, each in enumerate(window):
            verdict = Verdict.ACCEPTED if place < self.after else Verdict.UNTRIED
            yield Outcome(delivery_id=each.delivery_id, verdict=verdict, phase="connect", reply="away")

    def close(self) -> None: ...
