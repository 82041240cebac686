"""Define a message with commands, what is known about its sender, and the reply that the commands build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from digest import subscribers
from digest.db.tables import Subscriber
from digest.errors import BadField, BadFilter, UsageError
from digest.inbound import writer_checks
from digest.inbound.answered_letter import AnsweredLetter
from digest.inbound.mail_commands import Command
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.sender_proof import SenderProof
from digest.letters import figures_in_words
from digest.site_profile import Site

_ = figures_in_words.TRANSLATIONS.gettext


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
    #: Proposed topic changes, of which a reply of `yes` applies one.
    proposals: list[dict[str, str]] = field(default_factory=list)
    links: list[dict[str, str]] = field(default_factory=list)  #: further links, as {label, url}

    def add_outcome(self, command: Command, result: str, *prefilled: tuple[str, str]) -> None:
        """Record the result of a command."""
        self.outcomes.append(
            {"command": writer_checks.safe_quote(command.line) or command.verb, "result": result}
        )
        self.prefilled.extend(prefilled)

    def add_link(self, label: str, url: str) -> None:
        """Add a link, which the reply shows below the outcomes."""
        self.links.append({"label": label, "url": url})


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderRequest:
    """A message in which a reader sends commands, and our reply to it."""

    session: Session
    site: Site
    rules: MailRules
    subscriber: Subscriber
    #: The letter that the message answers, if that letter was sent to this reader.
    answered: AnsweredLetter | None
    reply: CommandReply
    now: datetime


def topics_of(session: Session, subscriber: Subscriber) -> dict[str, str]:
    """Return {topic name: filter} for the reader's topics, in order."""
    return {topic.name: topic.text for topic in subscribers.topics_of(session, subscriber)}


def error_text(error: UsageError) -> str:
    """Return an error as text for a reply, without field names; quote a filter only if that is safe."""
    if isinstance(error, BadFilter):
        # The error message quotes words of the filter, which may be advertising.
        shown = writer_checks.safe_quote(error.text)
        message = _("In %(filter)s: %(mistake)s") % {"filter": shown, "mistake": error}
        return message if shown else _("The filter cannot be read, from column %d on.") % error.column
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandMail:
    """A message that contains commands, and what is known about its sender."""

    message: ReceivedMail
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
