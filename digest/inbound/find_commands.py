"""Find the commands in a message. Pure.

A command is a whole line: the subject, or one of the first lines of the body. The commands end at the first
line that is not one, so signatures and quoted letters are never read. A line that begins like a command and
continues like a sentence is unclear: it changes nothing, and the reply asks for its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from digest.inbound import command_arguments, mail_text, unsubscribe_words, words_around_commands
from digest.inbound.mail_commands import KIND_OF_WORD, MAX_SENTENCE_LENGTH, Command, CommandLine, Verb
from digest.inbound.mail_text import ReceivedMail

MAX_COMMANDS = 10  #: maximum number of commands in one message
MAX_BARE_WORDS = 4  #: maximum number of words in a schedule without a command word: `fri 9am Europe/Oslo`

#: Commands that contradict an `unsubscribe` in the same message, so that it is unclear.
CHANGING_VERBS = frozenset({Verb.ADD, Verb.DROP, Verb.SCHEDULE, Verb.PAUSE, Verb.RESUME})


def parse_commands(mail: ReceivedMail) -> list[Command]:
    """Return the commands of a message in order; the result is empty if the message contains none."""
    names = mail_text.names_of(mail)
    subject, is_answer = mail_text.subject_of(mail)
    lines = list(mail_text.written_lines(mail))
    if is_answer:
        return commands_in_reply(subject, lines, names)
    first = parse_command(subject, names)
    found, below = leading_commands(lines if first is None else skip_greeting(lines), names)
    if first is None and not found:
        return unsubscribe_mentions(subject, *lines[:1])
    return mark_unclear([*([first] if first else []), *found][:MAX_COMMANDS], below, names)


def commands_in_reply(subject: str, lines: Sequence[str], names: frozenset[str]) -> list[Command]:
    """Return the commands in a reply, which stand above the quoted letter.

    A reply usually keeps the subject of the answered letter. The subject therefore counts only if it says to
    unsubscribe and the body is empty.
    """
    if lines:
        found, below = leading_commands(lines, names)
        return mark_unclear(found[:MAX_COMMANDS], below, names) if found else unsubscribe_mentions(*lines[:1])
    command = parse_command(subject, names)
    return [command] if command and command.verb is Verb.UNSUBSCRIBE and command.is_clear else []


def leading_commands(lines: Sequence[str], names: frozenset[str]) -> tuple[list[Command], Sequence[str]]:
    """Return the commands in the first lines after any greeting, and the lines after these commands."""
    below, found = skip_greeting(lines), list[Command]()
    for number, line in enumerate(below):
        command = parse_command(line, names)
        if command is None:
            return found, below[number:]
        found.append(command)
    return found, ()


def skip_greeting(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without a greeting at the top."""
    return lines[1:] if lines and words_around_commands.is_greeting(lines[0]) else lines


def mark_unclear(found: list[Command], below: Sequence[str], names: frozenset[str]) -> list[Command]:
    """Return the commands, with each doubtful command marked as unclear.

    `Cancel` above a text about a meeting refers to the meeting, and `stop` below an `add` only ends the list.
    """
    has_text = not words_around_commands.is_signature(below, names) or any(
        not command.is_clear for command in found
    )
    changes = any(command.verb in CHANGING_VERBS for command in found)
    return [
        replace(command, is_clear=False)
        if is_doubtful(command, has_text=has_text, changes=changes)
        else command
        for command in found
    ]


def is_doubtful(command: Command, *, has_text: bool, changes: bool) -> bool:
    """Return whether this command, in this message, may be meant for something other than the digests."""
    word = words_around_commands.words_in(command.line, polite=False)[:1]
    if command.verb is Verb.UNSUBSCRIBE:
        return (has_text or changes) and not unsubscribe_words.CERTAIN_WORDS.intersection(word)
    is_bare = command.verb in {Verb.PAUSE, Verb.RESUME} and not command.argument
    is_schedule = command.verb is Verb.SCHEDULE and not KIND_OF_WORD.keys() & set(word)
    return (is_bare or is_schedule) and has_text


def unsubscribe_mentions(*lines: str) -> list[Command]:
    """Return an unclear unsubscribe command if a line mentions unsubscribing (`how do I unsubscribe?`)."""
    return [
        Command(verb=Verb.UNSUBSCRIBE, line=line, is_clear=False)
        for line in lines
        if len(line) <= MAX_SENTENCE_LENGTH and unsubscribe_words.UNSUBSCRIBE_PHRASE.search(line)
    ][:1]


# ── one line ────────────────────────────────────────────────────────────────────────────────────


def parse_command(line: str, names: frozenset[str] = frozenset()) -> Command | None:
    """Return the command that a line contains, or None.

    For a sentence that begins like a command, an unclear command is returned.
    """
    bare = words_around_commands.without_please(line)
    first, _, rest = bare.partition(" ")
    word = words_around_commands.strip_punctuation(first).casefold()
    if kind := KIND_OF_WORD.get(word):
        return kind.read(CommandLine(text=line, bare=bare, word=word, rest=rest.strip(), names=names))
    is_schedule = len(bare.split()) <= MAX_BARE_WORDS and command_arguments.parse_schedule(bare)
    return Command(verb=Verb.SCHEDULE, line=line, argument=bare) if is_schedule else None
