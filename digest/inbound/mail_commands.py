"""Define each mail command as a class with its words, its `help` text and the parsing of its line. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import ClassVar

from digest.inbound import command_arguments, unsubscribe_words, words_around_commands
from digest.letters import figures_in_words

_ = figures_in_words.TRANSLATIONS.gettext

#: Maximum number of characters in an unclear command; a longer line is taken as text.
MAX_SENTENCE_LENGTH = 100


class Verb(StrEnum):
    """A command that can be sent by mail."""

    SUBSCRIBE = "subscribe"
    CONFIRM = "confirm"
    UNSUBSCRIBE = "leave"
    PAUSE = "pause"
    RESUME = "resume"
    TOPICS = "topics"
    ADD = "add"
    DROP = "drop"
    SCHEDULE = "at"
    HELP = "help"
    UNDO = "undo"
    TEST = "test"
    WHY = "why"
    LESS = "less"
    MORE = "more"
    SAVE = "save"
    APPLY = "yes"
    EXPORT = "export"
    FORGET = "forget"
    GROUP = "group"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command in a message."""

    verb: Verb
    line: str  #: the line as the sender wrote it
    argument: str = ""  #: the text after the command's word
    topic: str = ""  #: the topic of a `subscribe` or `group` command, in the form of an `add` command
    is_clear: bool = True  #: False if the line may be a sentence about something else


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandLine:
    """A line of a message that begins with a command's word."""

    text: str  #: the line as the sender wrote it
    bare: str  #: the line without polite words at the start
    word: str  #: the first word in lower case
    rest: str  #: the text after the first word of `bare`
    names: frozenset[str] = frozenset()  #: the words in the writer's name and address

    def command(self, verb: Verb, topic: str = "") -> Command:
        """Return the command that this line gives."""
        return Command(verb=verb, line=self.text, argument=self.rest, topic=topic)

    def command_if_clear(self, verb: Verb, *, is_clear: bool) -> Command | None:
        """Return the command, marked as clear or unclear.

        The result is None if the line is long and only begins like the command.
        """
        if is_clear or len(self.text) <= MAX_SENTENCE_LENGTH:
            return replace(self.command(verb), is_clear=is_clear)
        return None


class MailCommand:
    """A command: the words that begin it, and its lines in `help`."""

    verb: ClassVar[Verb]
    words: ClassVar[tuple[str, ...]]  #: the command's name, then its aliases
    usage: ClassVar[str]  #: an example, as readers write it
    effect: ClassVar[str]  #: what the command does, in one sentence
    context: ClassVar[str] = ""  #: the mails in which the command works, if it does not work in all
    description: ClassVar[str] = ""  #: more sentences for `help NAME`

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line has no further words; None for a sentence."""
        has_more = words_around_commands.words_in(line.rest) or "?" in line.text
        return None if has_more else line.command(cls.verb)


class TopicCommand(MailCommand):
    """A command about a topic or a filter, which follows the command's word."""

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that names a topic."""
        return line.command(cls.verb) if command_arguments.is_topic(line.rest) else None


class AddTopic(TopicCommand):
    """Add a topic."""

    verb = Verb.ADD
    words = ("add",)
    usage = "add flows: flow matching"
    effect = _("Add a topic called flows.")
    description = _(
        "The words after the colon are the topic’s filter. Quotes, AND, OR, NOT and fields such as ti: work. "
        "Without a name and a colon, the topic is named after its filter."
    )


class DropTopic(TopicCommand):
    """Remove a topic."""

    verb = Verb.DROP
    words = ("drop", "del", "delete", "remove")
    usage = "drop flows"
    effect = _("Remove the topic called flows.")
    description = _("You can also write the number of the topic in your list: drop 2.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that names a topic; `remove me` unsubscribes the writer."""
        if unsubscribe_words.is_about_writer(line.rest):
            return replace(line.command(Verb.UNSUBSCRIBE), is_clear="?" not in line.text)
        return super().read(line)


class ShowTopics(MailCommand):
    """Show the topics and the schedule."""

    verb = Verb.TOPICS
    words = ("list", "topics", "settings", "show", "status")
    usage = "list"
    effect = _("See your topics and your hour.")


class ChangeSchedule(MailCommand):
    """Change when digests are sent."""

    verb = Verb.SCHEDULE
    words = ("at", "daily", "weekdays", "weekly", "monthly", "timezone")
    usage = "weekly fri at 8:00"
    effect = _("Change the day or the hour.")
    description = _("Examples: at 9am; weekdays at 7:30 Europe/Oslo; daily; monthly.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command, marked as unclear unless the whole line is a schedule."""
        line = replace(line, rest=words_around_commands.without_thanks(line.bare))
        return line.command_if_clear(
            cls.verb, is_clear=command_arguments.parse_schedule(line.rest) is not None
        )


class PauseDigests(MailCommand):
    """Pause the digests."""

    verb = Verb.PAUSE
    words = ("pause", "vacation")
    usage = "pause 2 weeks"
    effect = _("Pause for two weeks.")
    description = _(
        "You then get one catch-up digest; “resume” ends the pause sooner. "
        "Examples: pause until 6 January; pause for three days. A pause without a length lasts a week."
    )

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command; it is unclear if it is followed by text other than a length or an end."""
        line = replace(line, rest=words_around_commands.without_thanks(line.rest))
        return line.command_if_clear(
            cls.verb, is_clear=command_arguments.parse_pause(line.rest, date.min) is not None
        )


class ResumeDigests(MailCommand):
    """End a pause."""

    verb = Verb.RESUME
    words = ("resume",)
    usage = "resume"
    effect = _("End a pause.")


class UndoChange(MailCommand):
    """Undo the latest change of the reader's settings."""

    verb = Verb.UNDO
    words = ("undo",)
    usage = "undo"
    effect = _("Undo the latest change of your settings.")


class TryFilter(TopicCommand):
    """Test a filter on the papers of recent days."""

    verb = Verb.TEST
    words = ("test", "try")
    usage = "test flow matching"
    effect = _("See how many papers a filter would have found lately.")


class PaperCommand(MailCommand):
    """A command about one paper: its number in the answered digest, or its identifier."""

    context = _("Send this as a reply to the digest.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that names a paper."""
        has_paper = command_arguments.parse_paper(line.rest) is not None
        return line.command(cls.verb) if has_paper else None


class ExplainPaper(PaperCommand):
    """Explain why a paper was or was not sent."""

    verb = Verb.WHY
    words = ("why",)
    usage = "why 3"
    effect = _("See why paper 3 is in the digest.")
    description = _("The id of any paper works, too: why 2411.01234.")


class FewerLikeThis(PaperCommand):
    """Propose a topic change that leads to fewer papers like one paper."""

    verb = Verb.LESS
    words = ("less",)
    usage = "less 3"
    effect = _("Get a proposal for fewer papers like paper 3.")
    description = _("Nothing changes until you reply yes to the proposal.")


class MoreLikeThis(PaperCommand):
    """Propose a topic change that leads to more papers like one paper."""

    verb = Verb.MORE
    words = ("more",)
    usage = "more 3"
    effect = _("Get a proposal for more papers like paper 3.")
    description = _("Nothing changes until you reply yes to the proposal.")


class KeepPaper(PaperCommand):
    """Save a paper to the reader's list."""

    verb = Verb.SAVE
    words = ("save",)
    usage = "save 3"
    effect = _("Save paper 3 to your list.")


class ApplyProposal(MailCommand):
    """Apply a change that the answered letter proposed."""

    verb = Verb.APPLY
    words = ("yes", "ok")
    usage = "yes"
    effect = _("As a reply to a proposal: make the change that we proposed.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if nothing follows except a number, which is optional."""
        is_number = line.rest.rstrip(".!").isdecimal()
        return line.command(cls.verb) if is_number else super().read(line)


class ExportData(MailCommand):
    """Mail the link to the reader's data."""

    verb = Verb.EXPORT
    words = ("export",)
    usage = "export"
    effect = _("Get a link to download your data.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line asks for the reader's data and for nothing else."""
        is_about_data = set(words_around_commands.words_in(line.rest)) <= {"my", "data", "all", "everything"}
        return line.command(cls.verb) if is_about_data else None


class ForgetReader(MailCommand):
    """Mail the link that erases the reader's data."""

    verb = Verb.FORGET
    words = ("forget", "erase")
    usage = "forget me"
    effect = _("Get a link to erase everything we know about you.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that asks us to erase the writer's data."""
        rest = " ".join(words_around_commands.words_in(line.rest, polite=False)).removesuffix(" please")
        is_about_writer = rest in {"me", "myself", "my data", "all my data", "everything about me"}
        return line.command(cls.verb) if is_about_writer else None


class Subscribe(MailCommand):
    """Subscribe the writer's address."""

    verb = Verb.SUBSCRIBE
    words = ("subscribe", "sub", "join")
    usage = "subscribe flows: flow matching"
    effect = _("Subscribe to a daily digest (here, on one topic).")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if nothing follows except a name and a topic, both optional."""
        if not unsubscribe_words.other_words(line.rest, line.names):
            is_plain = words_around_commands.ADVERTISING_WORDS.isdisjoint(
                words_around_commands.words_in(line.rest)
            )
            return line.command(cls.verb) if is_plain else None
        topic = command_arguments.topic_after_name(line.rest, line.names)
        if topic is None or set("!?") & set(line.rest) or (line.word == "join" and ":" not in topic):
            return None
        return line.command(cls.verb, topic=topic)


class SubscribeGroup(MailCommand):
    """Subscribe a group address that the writer manages."""

    verb = Verb.GROUP
    words = ("group",)
    usage = "group lab@lists.example.org flows: flow matching"
    effect = _(
        "Subscribe a mailing list to a daily digest (here, on one topic). You manage the subscription."
    )
    description = _(
        "The list gets one email; the digests begin when somebody there confirms. Only you get the links to change or end them."
    )

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line with an address, optionally followed by a topic."""
        address, _space, topic = line.rest.partition(" ")
        address, topic = address.strip("<>,:;"), topic.strip(" :")
        if not command_arguments.is_address(address) or (topic and not command_arguments.is_topic(topic)):
            return None
        return replace(line.command(cls.verb, topic=topic), argument=address)


class Confirm(MailCommand):
    """Confirm a subscription."""

    verb = Verb.CONFIRM
    words = ("confirm",)
    usage = "yes"
    effect = _("As a reply to the confirmation letter: confirm your subscription.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line with nothing but an optional token after the word."""
        is_token = not line.rest or (len(line.rest.split()) == 1 and "." in line.rest)
        return line.command(cls.verb) if is_token else None


class Unsubscribe(MailCommand):
    """Unsubscribe."""

    verb = Verb.UNSUBSCRIBE
    words = unsubscribe_words.COMMAND_WORDS
    usage = "leave"
    effect = _("Unsubscribe.")
    description = _("You can also write unsubscribe, cancel or stop. The answer has a link to undo it.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command, which is unclear unless the line only says to unsubscribe."""
        return line.command_if_clear(
            cls.verb, is_clear=unsubscribe_words.says_unsubscribe(line.word, line.bare, line.names)
        )


class Help(MailCommand):
    """Send the list of commands."""

    verb = Verb.HELP
    words = ("help", "commands")
    usage = "help"
    effect = _("See all commands; help pause says more about one.")

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line has no further words, or only the name of a command."""
        if line.rest.strip(" .?").casefold() in KIND_OF_WORD:
            return line.command(cls.verb)
        return super().read(line)


#: The kinds of commands that `help` explains to a confirmed subscriber, and those that it only names.
COMMON_KINDS: tuple[type[MailCommand], ...] = (
    AddTopic, DropTopic, ShowTopics, ChangeSchedule, PauseDigests, FewerLikeThis, KeepPaper, Unsubscribe,
)  # fmt: skip
OTHER_KINDS: tuple[type[MailCommand], ...] = (
    TryFilter, ResumeDigests, UndoChange, ExplainPaper, MoreLikeThis, ExportData, ForgetReader, SubscribeGroup,
)  # fmt: skip
KINDS: tuple[type[MailCommand], ...] = (*COMMON_KINDS, *OTHER_KINDS, ApplyProposal, Subscribe, Confirm, Help)
#: The kinds of commands, keyed by the words that begin them.
KIND_OF_WORD = {word: kind for kind in KINDS for word in kind.words}
