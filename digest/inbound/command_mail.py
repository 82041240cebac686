"""Define a message that contains commands, and what is known about its sender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage

from digest.db.tables import Subscriber
from digest.inbound.answered_letter import AnsweredLetter
from digest.inbound.command_kinds import Command
from digest.inbound.sender_proof import SenderProof


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandMail:
    """A message that contains commands, and what is known about its sender."""

    message: EmailMessage
    commands: Sequence[Command]
    proof: SenderProof | None = None
    answered: AnsweredLetter | None = None  #: the letter that the message answers, found by its reply address

    @property
    def unclear(self) -> list[Command]:
        """Return the unclear commands, which may be sentences about something else."""
        return [command for command in self.commands if not command.is_clear]

    def answers_letter_of(self, subscriber: Subscriber) -> bool:
        """Return whether the answered letter was sent to this subscriber; a forwarded letter was not."""
        return self.answered is not None and self.answered.subscriber_id == subscriber.id

    def is_trusted_from(self, subscriber: Subscriber) -> bool:
        """Return whether it is proven that this subscriber sent the message."""
        return self.proof is not None and self.answers_letter_of(subscriber)
