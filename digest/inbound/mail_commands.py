"""Define each mail command as a class with its words, its `help` text and the parsing of its line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from digest.inbound import command_arguments, words_around_commands
from digest.inbound.words_around_commands import COMMAND_WORDS, LIST_WORDS, POLITE_WORDS, pattern_of, words_of

#: Maximum number of characters in an unclear command; a longer line is taken as text.
MAX_SENTENCE_LENGTH = 100
DO_LATER = "Commands are done at once, so this one was not. When it is time, write: %s"
DO_YOU_MEAN = "Not done. Do you mean this? Then write: %s"
OPENS_LIST = pattern_of("opens_list", after=r"\s*:?$")  #: a line above a list of topics: `add these topics:`


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command in a message."""

    kind: type[MailCommand]
    line: str  #: the line as the sender wrote it
    argument: str = ""  #: the text after the command's word, or the topic that it names
    #: Why the line may be something else, with an example of the command; empty if the command is clear.
    doubt: str = ""

    @property
    def is_clear(self) -> bool:
        """Return whether the line is certainly this command."""
        return not self.doubt


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandLine:
    """A line of a message that begins with a command's word."""

    text: str  #: the line as the sender wrote it
    bare: str  #: the line without polite words at the start
    word: str  #: the first word in lower case
    rest: str  #: the text after the first word of `bare`
    is_question: bool = False  #: whether the line asks something, other than `could you ...?`
    names: frozenset[str] = frozenset()  #: the words in the writer's name and address

    def command(self, kind: type[MailCommand], argument: str | None = None) -> Command:
        """Return the command that this line gives."""
        return Command(kind=kind, line=self.text, argument=self.rest if argument is None else argument)


class MailCommand:
    """A command: the words that begin it, and its lines in `help`."""

    words: ClassVar[tuple[str, ...]]  #: the command's name, then its aliases
    #: Words that begin the command only if the rest of the line belongs to it.
    verbs: ClassVar[Iterable[str]] = ()
    usage: ClassVar[str]  #: an example, as readers write it
    effect: ClassVar[str]  #: what the command does, in one sentence
    context: ClassVar[str] = ""  #: the mails in which the command works, if it does not work in all
    description: ClassVar[str] = ""  #: more sentences for `help NAME`
    #: The answer to a line that only begins like the command.
    doubt: ClassVar[str] = ""

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line has no further words; None for a sentence."""
        rest = set(words_around_commands.words_in(line.rest)) - words_of("command_fillers")
        has_more = rest or line.is_question
        return None if has_more else line.command(cls)

    @classmethod
    def unless_long(cls, line: CommandLine) -> Command | None:
        """Return the command as a doubtful one; None for a long line, which only begins like it."""
        is_short = len(line.text) <= MAX_SENTENCE_LENGTH
        return replace(line.command(cls), doubt=cls.doubt) if is_short else None


class TopicCommand(MailCommand):
    """A command about a topic or a filter, which follows the command's word."""

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that names a topic; it is doubtful if an address follows."""
        topic = command_arguments.bare_topic(line.rest)
        if command_arguments.is_topic(topic):
            return line.command(cls, topic)
        return cls.unless_long(line) if "@" in topic else None


class AddTopic(TopicCommand):
    """Add a topic."""

    words = ("add",)
    usage = "add flows: flow matching"
    effect = "Add a topic called flows."
    description = (
        "The words after the colon are the topic’s filter. Quotes, AND, OR, NOT and fields such as ti: work. "
        "Without a name and a colon, the topic is named after its filter."
    )
    doubt = "This may be no topic, or several. Write one on each line: add flows: flow matching, or: add diffusion models"

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command; a name before a filter with operators needs no colon."""
        command = super().read(line)
        if command is None or not command.is_clear:
            return command
        is_list = "," in command.argument and not command_arguments.is_filter(command.argument)
        if line.is_question or is_list or OPENS_LIST.match(line.bare):
            return cls.unless_long(line)
        return replace(command, argument=command_arguments.with_name(command.argument))


class DropTopic(TopicCommand):
    """Remove a topic."""

    words = ("drop", "del", "delete", "remove")
    usage = "drop flows"
    effect = "Remove the topic called flows."
    description = "You can also write the number of the topic in your list: drop 2."
    doubt = "To remove a topic, write: drop flows, or: drop 2"


class ShowTopics(MailCommand):
    """Show the topics and the schedule."""

    words = ("list", "topics", "settings", "show", "status")
    usage = "list"
    effect = "See your topics and your hour."
    doubt = "A topic is renamed on the settings page: use the link below."


class ChangeSchedule(MailCommand):
    """Change when digests are sent."""

    words = ("at", "daily", "weekdays", "weekly", "monthly", "timezone")
    verbs = words_of("schedule_verbs")
    usage = "weekly fri at 8:00"
    effect = "Change the day or the hour."
    description = "Examples: at 9am; weekdays at 7:30 Europe/Oslo; daily; monthly."
    doubt = "Not understood. Write: weekly fri at 8:00, or: weekdays at 7:30 Europe/Oslo, or: monthly"

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command; it is doubtful if it begins like one and has other words."""
        if command_arguments.parse_schedule(line.bare) is not None:
            return line.command(cls, line.bare)
        return cls.unless_long(line) if line.word in cls.words else None


class PauseDigests(MailCommand):
    """Pause the digests."""

    words = ("pause", "vacation", "nomail", "suspend", "snooze")
    verbs = ("hold", "put", "extend", "prolong")
    usage = "pause 2 weeks"
    effect = "Pause for two weeks."
    description = (
        "You then get one catch-up digest; “resume” ends the pause sooner. "
        "Examples: pause until 6 January; pause for three days. A pause without a length lasts a week."
    )
    doubt = "Not understood. Write: pause 2 weeks, or: pause until 6 January"

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command; it is doubtful if its text is no length or end, even in a sentence."""
        if line.word == "nomail":  # LISTSERV's command, which ends with its command `mail`
            return line.command(cls, "forever")
        said = None if line.is_question else command_arguments.pause_said(line.rest)
        if line.word in cls.verbs:
            return line.command(cls, said) if line.rest and said is not None else None
        if said is None and (end := command_arguments.PAUSE_FROM.search(line.rest)):
            later = "A pause begins at once. If this is right, write: pause until %s"
            return replace(line.command(cls), doubt=later % end["end"])
        return cls.unless_long(line) if said is None else line.command(cls, said)


class ResumeDigests(MailCommand):
    """End a pause."""

    words = ("resume", "unpause", "restart")
    usage = "resume"
    effect = "End a pause."
    doubt = "Not understood. To get digests again, write only the word “resume”."


class UndoChange(MailCommand):
    """Undo the latest change of the reader's settings."""

    words = ("undo",)
    usage = "undo"
    effect = "Undo the latest change of your settings."


class TryFilter(TopicCommand):
    """Test a filter on the papers of recent days."""

    words = ("test", "try")
    usage = "test flow matching"
    effect = "See how many papers a filter would have found lately."


class PaperCommand(MailCommand):
    """A command about papers: their numbers in the answered digest, or their identifiers."""

    context = "Send this as a reply to the digest."

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command of a line that names papers and nothing else."""
        return line.command(cls) if command_arguments.parse_papers(line.rest) else None


class ExplainPaper(PaperCommand):
    """Explain why a paper was or was not sent."""

    words = ("why",)
    usage = "why 3"
    effect = "See why paper 3 is in the digest."
    description = "The id of any paper works, too: why 2411.01234."


class FewerLikeThis(PaperCommand):
    """Leave papers like one paper out of the topics."""

    words = ("less",)
    usage = "less 3"
    effect = "Get fewer papers like paper 3."
    description = "Our reply says which papers are left out, and has a link to undo it."


class MoreLikeThis(PaperCommand):
    """Make one paper an example of a topic."""

    words = ("more",)
    usage = "more 3"
    effect = "Get more papers like paper 3."
    description = "Our reply says which papers are added, and has a link to undo it."


class KeepPaper(PaperCommand):
    """Save a paper to the reader's list."""

    words = ("save",)
    usage = "save 3"
    effect = "Save paper 3 to your list."
    description = "Several papers: save 3, 5 and 7."


class Confirm(MailCommand):
    """Confirm, which only a reply to a confirmation letter does."""

    words = ("yes", "ok", "confirm")
    usage = "yes"
    effect = "As a reply to the confirmation letter: confirm your subscription."


class MyData(MailCommand):
    """Mail the link to the reader's data."""

    words = ("export", "forget", "erase")
    usage = "change my address"
    effect = "Get a link to change your address, or to download or erase your data."
    description = "You can also write “export” or “forget me”."

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line asks for the reader's data and for nothing else."""
        rest = set(words_around_commands.words_in(line.rest, polite=False)) - POLITE_WORDS
        is_about_data = rest <= {"my", "data", "all", "everything", "myself", "about"}
        is_bare = not line.rest and line.word != "export"
        return line.command(cls) if is_about_data and not is_bare and not line.is_question else None


class Subscribe(MailCommand):
    """Subscribe the writer's address."""

    words = ("subscribe", "sub", "join")
    usage = "subscribe flows: flow matching"
    effect = "Subscribe to a daily digest (here, on one topic)."
    doubt = "We subscribe only the address from which you write. The owner of another address can write: subscribe"

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command with the topic that it names, if nothing but a name and a topic follows."""
        if set("!?") & set(line.rest):
            return None
        rest = [word for word in words_around_commands.words_in(line.rest) if word not in line.names]
        if not set(rest) - LIST_WORDS:
            is_plain = words_around_commands.ADVERTISING_WORDS.isdisjoint(rest)
            return line.command(cls, "") if is_plain else None
        if any("@" in word for word in rest):
            return cls.unless_long(line)
        topic = command_arguments.topic_after_name(line.rest, line.names)
        if topic is None or (line.word == "join" and ":" not in topic):
            return None
        return line.command(cls, topic)


class Unsubscribe(MailCommand):
    """Unsubscribe."""

    words = COMMAND_WORDS
    usage = "leave"
    effect = "Unsubscribe."
    description = "You can also write unsubscribe, cancel or stop. The answer has a link to undo it."

    doubt = "Do you want to unsubscribe? Then use the link below. Nothing has changed yet."

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return a doubtful command, since `find_commands` has recognised each line that only says to unsubscribe.

        `stop the mails until March` is a pause.
        """
        said = None if line.word == "leave" else command_arguments.pause_in(line.rest)
        return cls.unless_long(line) if said is None else line.command(PauseDigests, said)


class Help(MailCommand):
    """Send the list of commands."""

    words = tuple(sorted(words_of("help"), key=lambda word: word != "help"))
    usage = "help"
    effect = "See all commands; help pause says more about one."

    @classmethod
    def read(cls, line: CommandLine) -> Command | None:
        """Return the command if the line has no further words, or only the name of a command."""
        if line.rest.strip(" .?").casefold() in KIND_OF_NAME:
            return line.command(cls)
        return super().read(line)


#: The kinds of commands that `help` explains to a confirmed subscriber, and those that it only names.
COMMON_KINDS: tuple[type[MailCommand], ...] = (
    AddTopic, DropTopic, ShowTopics, ChangeSchedule, PauseDigests, FewerLikeThis, KeepPaper, Unsubscribe,
)  # fmt: skip
OTHER_KINDS: tuple[type[MailCommand], ...] = (
    TryFilter, ResumeDigests, UndoChange, ExplainPaper, MoreLikeThis, MyData,
)  # fmt: skip
#: The kinds of commands in the answer to a reader's mail that has none.
EXAMPLE_KINDS: tuple[type[MailCommand], ...] = (AddTopic, ShowTopics, ChangeSchedule, PauseDigests, MyData)
KINDS: tuple[type[MailCommand], ...] = (*COMMON_KINDS, *OTHER_KINDS, Subscribe, Confirm, Help)
#: The kinds of commands, keyed by the words that begin them.
KIND_OF_WORD: Mapping[str, type[MailCommand]] = MappingProxyType(
    {word: kind for kind in KINDS for word in (*kind.words, *kind.verbs)}
)
#: The same for `help`, which understands `help schedule`, too.
KIND_OF_NAME: Mapping[str, type[MailCommand]] = {
    **KIND_OF_WORD,
    "schedule": ChangeSchedule,
    "account": MyData,
}
#: Sentences without a command word at the start, and the command that says the same.
PHRASES = (
    (pattern_of("asks_for_topics"), "list"),
    (pattern_of("asks_to_subscribe"), "subscribe"),
    (pattern_of("changes_address"), "forget me"),
    (pattern_of("asks_for_help"), "help"),
    (pattern_of("without_weekends"), "weekdays"),
    (pattern_of("stops_list_mail"), "nomail"),
    (pattern_of("starts_list_mail"), "resume"),
)
