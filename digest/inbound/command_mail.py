"""Define a mail with commands, and what is known about its sender."""

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
    """A mail with commands, and what is known about its sender."""

    message: EmailMessage
    commands: Sequence[Command]
    proof: SenderProof | None = None
    answered: AnsweredLetter | None = None  #: the letter to whose reply address the mail was sent

    @property
    def unclear(self) -> list[Command]:
        """Return the commands that may be sentences about something else."""
        return [command for command in self.commands if not command.is_clear]

    def answers_letter_of(self, subscriber: Subscriber) -> bool:
        """Return whether the answered letter is this subscriber's own; a forwarded letter is not."""
        return self.answered is not None and self.answered.subscriber_id == subscriber.id

    def is_trusted_from(self, subscriber: Subscriber) -> bool:
        """Return whether there is proof that this subscriber sent the mail."""
        return self.proof is not None and self.answers_letter_of(subscriber)
