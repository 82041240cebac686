"""Define a message with commands, what is known about its sender, and the reply that the commands build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.subscribers import Subscriber
from digest.errors import BadField, BadFilter, DigestError
from digest.inbound import writer_checks
from digest.inbound.answered_letter import AnsweredLetter
from digest.inbound.mail_commands import Command, Subscribe, Unsubscribe
from digest.inbound.mail_rules import MailContext
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.sender_proof import SenderProof
from digest.subscribers import subscriber_topics

MAX_UNREAD_QUOTED = 6  #: maximum number of unread lines that an answer quotes


@dataclass(frozen=True, kw_only=True, slots=True)
class MailOutcome:
    """How a message that a person may have written was processed."""

    outcome: str
    #: Whether the message is kept for the operator, because it may not be meant as a command.
    needs_human: bool = False
    confirmed: Subscriber | None = None  #: the subscriber that it has just confirmed


@dataclass(kw_only=True, slots=True)
class CommandReply:
    """The outcomes of the commands in one message, and the changes to fill in on the settings page."""

    is_trusted: bool = False  #: whether lasting changes take effect at once, because the sender is proven
    outcomes: list[dict[str, str]] = field(default_factory=list)
    wants_help: bool = False
    #: whether the reply has the unsubscribe link, because the writer may want to unsubscribe
    asks_to_unsubscribe: bool = False
    has_undone: bool = False
    has_paused: bool = False  #: whether an outcome says until when the digests are paused
    prefilled: list[tuple[str, str]] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)  #: further links, as {label, url}

    def add_link(self, label: str, url: str) -> None:
        """Add a link, which the reply shows below the outcomes."""
        self.links.append({"label": label, "url": url})


def outcome_of(command: Command, result: str, *, is_proven: bool = False) -> dict[str, str]:
    """Return the result of a command with the line that gave it, for our answer.

    A result may repeat words of the line.
    """
    return {
        "command": writer_checks.quote(command.line, is_proven=is_proven),
        "result": result if is_proven else writer_checks.without_links(result),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderRequest(MailContext):
    """A message in which a reader sends commands, and our reply to it."""

    subscriber: Subscriber
    #: The letter that the message answers, if that letter was sent to this reader.
    answered: AnsweredLetter | None
    reply: CommandReply
    #: The names of the reader's topics when the message arrived, in the order of their numbers.
    listed: Sequence[str]


def topics_of(session: Session, subscriber: Subscriber) -> dict[str, str]:
    """Return {topic name: filter} for the reader's topics, in order."""
    return {topic.name: topic.text for topic in subscriber_topics.topics_of(session, subscriber)}


def error_text(error: DigestError) -> str:
    """Return an error as text for an answer, without field names."""
    if isinstance(error, BadFilter):
        return f"In {error.text}: {error}"
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandMail:
    """A message that contains commands, and what is known about its sender."""

    message: ReceivedMail
    commands: Sequence[Command]
    unread: Sequence[str] = ()  #: the lines that are neither commands nor polite words
    proof: SenderProof | None = None
    answered: AnsweredLetter | None = None  #: the letter that the message answers, found by its reply address
    network: str = ""  #: the network that sent the message; empty if it is unknown
    #: whether the message was sent to the address in a confirmation letter, which is as secret as its link
    is_confirmation: bool = False

    @property
    def unclear(self) -> list[Command]:
        """Return the doubtful commands, which may be sentences about something else."""
        return [command for command in self.commands if not command.is_clear]

    @property
    def is_sign_up(self) -> bool:
        """Return whether a command of the message subscribes the writer."""
        return any(command.kind is Subscribe for command in self.commands)

    @property
    def leaves(self) -> bool:
        """Return whether the message certainly asks to unsubscribe the writer."""
        return any(command.kind is Unsubscribe and command.is_clear for command in self.commands)

    def quoted_unread(self, *, is_proven: bool = False) -> list[str]:
        """Return the first lines that were left unread, for our answer, and how many more there are."""
        more = len(self.unread) - MAX_UNREAD_QUOTED
        shown = [writer_checks.quote(line, is_proven=is_proven) for line in self.unread[:MAX_UNREAD_QUOTED]]
        return [*shown, f"and {plurals.count(more, 'more line')}"] if more > 0 else shown

    def answers_letter_of(self, subscriber: Subscriber) -> bool:
        """Return whether the answered letter was sent to this subscriber; a forwarded letter was not."""
        return self.answered is not None and self.answered.subscriber_id == subscriber.id

    def is_proven_from(self, subscriber: Subscriber) -> bool:
        """Return whether the writer can sign for this subscriber's domain, or has one of their letters."""
        return self.is_confirmation or self.proof is not None or self.answers_letter_of(subscriber)
