"""Store messages in memory, for tests in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from digest.delivery.transports.transport import Message, Outcome, Verdict, make_outcome


class MemoryTransport:
    """Stores accepted messages in `messages`, oldest first.

    `answers` contains outcomes, keyed by recipient; messages to other recipients are accepted.
    """

    def __init__(self, answers: Mapping[str, Outcome] | None = None):
        self.messages: list[Message] = []
        self.answers = dict(answers or {})

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Accept every message whose recipient has no outcome in `answers`."""
        for message in window:
            yield self.take(message)

    def take(self, message: Message) -> Outcome:
        """Return the outcome of one message, and store the message if it was accepted or is in doubt."""
        answer = self.answers.get(message.recipient)
        if answer is None or answer.verdict in {Verdict.ACCEPTED, Verdict.IN_DOUBT}:
            self.messages.append(message)
        accepted = make_outcome(message, Verdict.ACCEPTED, "dot", "", 250)
        return replace(answer, delivery_id=message.delivery_id) if answer else accepted

    def close(self) -> None:
        """Do nothing, because this transport has no connection."""
