"""A transport that keeps messages in memory, for tests in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from digest.transport import Message, Outcome, Verdict


class Memory:
    """Keeps what it accepts in `messages`, oldest first.

    `answers` says how a recipient fares who is not simply accepted, in a mail server's own terms.
    """

    def __init__(self, answers: Mapping[str, Outcome] | None = None):
        self.messages: list[Message] = []
        self.answers = dict(answers or {})

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Accept every message whose recipient has no other answer."""
        for message in window:
            yield self.take(message)

    def take(self, message: Message) -> Outcome:
        """Return how one message fares; an attempt in doubt may have been accepted, so it is kept."""
        answer = self.answers.get(message.recipient)
        if answer is None or answer.verdict in {Verdict.ACCEPTED, Verdict.IN_DOUBT}:
            self.messages.append(message)
        if answer is None:
            return Outcome(delivery_id=message.delivery_id, verdict=Verdict.ACCEPTED, phase="dot", code=250)
        return Outcome(
            delivery_id=message.delivery_id,
            verdict=answer.verdict,
            phase=answer.phase,
            code=answer.code,
            reply=answer.reply,
        )

    def close(self) -> None:
        """Nothing is held open."""
