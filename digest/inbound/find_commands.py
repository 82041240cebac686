"""Read a message into commands and the lines that are none. Pure.

Each line of the subject and the text is one of these: a command; a line that only begins like a command, which
is doubtful, changes nothing and is asked about; a line that is left unread, which the answer quotes; or a
greeting, thanks, a signature or a quote. A command stands on a line or in a sentence of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from digest.inbound import command_arguments, mail_text, unsubscribe_words, words_around_commands
from digest.inbound.mail_commands import (
    KIND_OF_WORD,
    MAX_SENTENCE_LENGTH,
    OPENS_LIST,
    PHRASES,
    AddTopic,
    ChangeSchedule,
    Command,
    CommandLine,
    Confirm,
    DropTopic,
    Help,
    PauseDigests,
    ResumeDigests,
    Subscribe,
    TryFilter,
    Unsubscribe,
)
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.words_around_commands import pattern_of

MAX_COMMANDS = 20  #: maximum number of commands in one message
MAX_BARE_WORDS = 4  #: maximum number of words in a schedule without a command word: `fri 9am Europe/Oslo`
LONG_LINE = 60  #: a mail program may have wrapped a line with at least this many characters

#: Commands that contradict an `unsubscribe` in the same message, so that it is doubtful.
CHANGING_KINDS = frozenset({AddTopic, DropTopic, ChangeSchedule, PauseDigests, ResumeDigests})
TOPIC_KINDS = frozenset({AddTopic, Subscribe, TryFilter})

#: Matches the end of a sentence or clause after which another command may begin.
SENTENCE_END = re.compile(
    r"(?<=[\w)*\"'’][.!?;])\s+(?=[A-Z][a-z'’]|I\b)|(?<=\w[!?])\s+(?=[a-z])"
    r"|,\s+(?=(?i:(?:(?:and|but|so|then|also)\s+)*(?:please|kindly|could you|can you|would you|i(?:'d| would) like to|i want to)\b))"
    r"|,\s+(?=(?i:(?:and\s+)?(?:less|more|why)\s+\d))"
)
#: Matches the first words of a line, which may be `Yes,` or a greeting before a command.
FIRST_WORDS = re.compile(r"[^,.!;–—]{1,40}?(?:[,.!;]|\s[-–—])\s+")
#: Matches the beginning of a line that may give a second command after its topic, and where that one may begin.
FIRST_OF_TWO = pattern_of("first_of_two", after=r"\b")
SECOND_OF_TWO = pattern_of("second_of_two", before=r",?\s+")
INITIAL = re.compile(r"\b[A-Z][.]\s*$|\bal[.]\s*$")  #: matches the end of `Smith, J. ` or `Smith et al. `
#: Matches polite beginnings of a command: `I would like to ...`, `could you please ...`.
LEAD_IN = pattern_of("lead_in")
OPEN_END = re.compile(r"(?:\b(?:AND|OR|NOT|ANDNOT)|[(&|:])$")
CONTINUATION = re.compile(r"(?:AND|OR|NOT|ANDNOT)\b|[)&|]")
#: What a sentence may mention, and the command to which the answer then gives examples.
MENTIONED = (
    (pattern_of("mentions_pause"), PauseDigests),
    (pattern_of("other_rhythm"), ChangeSchedule),
    (pattern_of("mentions_removal"), DropTopic),
    (pattern_of("mentions_topic"), AddTopic),
)
BULLET = re.compile(r"^(?:[-*•–·]|\d{1,2}[.)])\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadMail:
    """The commands of a message in order, and the lines that were left unread."""

    commands: tuple[Command, ...] = ()
    unread: tuple[str, ...] = ()


def read_commands(message: ReceivedMail, first: Command | None = None) -> ReadMail:
    """Return the commands of a message, and the lines that are none; `first` is given by the mail's address."""
    names = mail_text.names_of(message)
    subject, is_answer = mail_text.subject_of(message)
    lines = joined_lines(mail_text.written_lines(message), names)
    lines = lines[1:] if lines and words_around_commands.is_greeting(lines[0]) else lines
    # A reply usually keeps the subject of the answered letter.
    above, rest = ([], []) if is_answer else split_line(subject, names)
    if is_answer and not any(lines):
        above = leaving_subject(subject, names)
    found = read_lines(lines, [first, *above] if first else above, names)
    found = replace(found, unread=(*(rest if above else ()), *found.unread))
    if not found.commands:
        mentioned = mentions("" if is_answer else subject, *lines)
        unread = tuple(line for line in found.unread if line not in {one.line for one in mentioned})
        return ReadMail(commands=mentioned, unread=unread)
    found = with_length_of_pause(found, above)
    kept = found.commands[:MAX_COMMANDS]
    return ReadMail(
        commands=marked_doubtful(kept, found.unread),
        unread=(*found.unread, *(one.line for one in found.commands[MAX_COMMANDS:])),
    )


# ── lines ───────────────────────────────────────────────────────────────────────────────────────


def read_lines(lines: Sequence[str], first: Sequence[Command], names: frozenset[str]) -> ReadMail:
    """Return the commands of the lines, below the commands of the subject, and the lines left unread."""
    found, unread, is_signed, is_list = list(first), list[str](), False, False
    written = [BULLET.subn("", line) for line in lines if line]
    for (text, is_item), (following, _count) in zip_longest(written, written[1:], fillvalue=("", 0)):
        has_topics = is_bare_topic(following, names, is_item=True) and not split_line(following, names)[0]
        if (opener := list_opener(text)) and has_topics:
            is_list = True
            found += [Command(kind=Subscribe, line=text)] if opener == "subscribe" and not found else []
            continue
        commands, rest = split_line(text, names)
        # The lines below `subscribe`, and below topics after it, may be topics.
        follows = bool(found) and found[0].kind is Subscribe and found[-1].kind in TOPIC_KINDS
        is_topic = not commands and is_bare_topic(text, names, is_item=is_list or bool(is_item))
        is_list = is_list and not is_signed and (is_topic or bool(commands))
        if is_topic and (is_list or follows):
            argument = command_arguments.with_name(command_arguments.bare_topic(text))
            commands, rest = [Command(kind=AddTopic, line=text, argument=argument)], []
        if unread or is_signed:  # below other text, only what nothing else can mean is a command
            commands = [one for one in commands if is_unmistakable(one)]
        if commands:
            for command in commands:
                found += [] if repeats(command, found) else [command]
            unread += rest
        elif words_around_commands.is_polite(text):
            is_signed = is_signed or bool(found or unread)
        elif not (is_signed or is_in_signature(text, names, has_commands=bool(found))):
            unread.append(text)
    return ReadMail(commands=tuple(found), unread=tuple(unread))


def with_length_of_pause(read: ReadMail, subject: Sequence[Command]) -> ReadMail:
    """Return what was read; a `pause` without a length gets the one in the other lines, such as `until Monday`."""
    said = command_arguments.pause_in(" ".join(read.unread))
    bare = [one for one in read.commands if one.kind is PauseDigests and one.is_clear and not one.argument]
    if not said or len(bare) != 1:
        return read
    lines = [line for line in read.unread if said in line.lower()]
    line = " ".join([bare[0].line, *lines] if bare[0] in subject else [*lines, bare[0].line])
    pause = replace(bare[0], argument=said, line=line)
    return ReadMail(
        commands=tuple(pause if one is bare[0] else one for one in read.commands),
        unread=tuple(line for line in read.unread if said not in line.lower()),
    )


def repeats(command: Command, earlier: Sequence[Command]) -> bool:
    """Return whether a command repeats one of the subject, or only says again to subscribe or unsubscribe."""
    return any(
        one.kind is command.kind
        and one.is_clear == command.is_clear
        and (one.argument == command.argument or (one.kind is Unsubscribe and one.is_clear))
        for one in earlier
    )


def is_in_signature(line: str, names: frozenset[str], *, has_commands: bool) -> bool:
    """Return whether a line is a name, or only polite words."""
    words = words_around_commands.words_in(line)
    is_plain = line.islower() and line.replace(" ", "").isalpha()  # a name has a capital letter
    return names.issuperset(words) or (has_commands and words_around_commands.is_name(line) and not is_plain)


def is_unmistakable(command: Command) -> bool:
    """Return whether a line is a command wherever it stands: a command word with its argument."""
    if command.kind is Unsubscribe:
        return command.is_clear and len(command.line.split()) > 1 and is_certain(command)
    is_request = command.kind in {PauseDigests, ResumeDigests} and len(command.line.split()) > 1
    is_said = bool(command.argument) or is_request
    return command.is_clear and is_said and command.kind not in {Help, Confirm}


def is_certain(command: Command) -> bool:
    """Return whether an `unsubscribe` can only refer to the digests, unlike `stop` or `cancel`."""
    return words_around_commands.words_in(command.line)[:1] not in (["leave"], ["cancel"], ["stop"])


def joined_lines(lines: Sequence[str], names: frozenset[str]) -> list[str]:
    """Return the lines; lines into which a filter was wrapped are joined."""
    found = list[str]()
    for line in lines:
        is_list = bool(BULLET.match(line)) or bool(found and list_opener(found[-1]))
        joins = found and line and not is_list and is_topic_line(found[-1]) and goes_on(found[-1], line)
        if joins and not any(one.is_clear for one in split_line(line, names)[0]):
            found[-1] = f"{found[-1]} {line}"
        else:
            found.append(line)
    return found


def list_opener(line: str) -> str:
    """Return the word with which a line above a list of topics begins, such as `add these:`; else ""."""
    found = OPENS_LIST.match(without_lead_in(line)[0])
    return found["word"].lower() if found else ""


def is_topic_line(line: str) -> bool:
    """Return whether a line names a topic or a filter."""
    word = words_around_commands.words_in(line)[:1]
    kind = KIND_OF_WORD.get(word[0]) if word else None
    return kind in TOPIC_KINDS or bool(command_arguments.NAMED_FILTER.fullmatch(line))


def goes_on(line: str, following: str) -> bool:
    """Return whether a filter goes on in the following line.

    It does after or before an operator, within brackets or quotes, and if the line is so long that a mail
    program may have wrapped it.
    """
    bare = command_arguments.PHRASE.sub("", line)
    is_open = bool(OPEN_END.search(line)) or bare.count("(") > bare.count(")") or '"' in bare
    is_wrapped = len(line) >= LONG_LINE and (following[0].islower() or following[0] in '"(-')
    return is_open or is_wrapped or bool(CONTINUATION.match(following))


# ── doubts ──────────────────────────────────────────────────────────────────────────────────────


def marked_doubtful(found: Sequence[Command], unread: Sequence[str]) -> tuple[Command, ...]:
    """Return the commands, each doubtful if it may mean something else in this message.

    `Cancel` above a text about a meeting refers to the meeting, and `stop` below an `add` only ends the list.
    """
    has_text = bool(unread) or any(not command.is_clear for command in found)
    changes = any(command.kind in CHANGING_KINDS for command in found)
    return tuple(
        replace(command, doubt=command.kind.doubt)
        if command.is_clear and is_doubtful(command, has_text=has_text, changes=changes)
        else command
        for command in found
    )


def is_doubtful(command: Command, *, has_text: bool, changes: bool) -> bool:
    """Return whether this command, in this message, may be meant for something other than the digests."""
    if command.kind is Unsubscribe:
        return changes or (has_text and not is_certain(command))
    word = words_around_commands.words_in(without_lead_in(command.line)[0], polite=False)[:1]
    is_resume = command.kind is ResumeDigests and len(command.line.split()) == 1
    is_bare = is_resume or (command.kind is PauseDigests and not command.argument)
    is_schedule = command.kind is ChangeSchedule and not KIND_OF_WORD.keys() & set(word)
    return (is_bare or is_schedule) and has_text


def leaving_subject(subject: str, names: frozenset[str]) -> list[Command]:
    """Return the command of an empty reply whose subject says to unsubscribe, or ends with that word."""
    leaves = unsubscribe_words.says_unsubscribe(subject, names) or subject.lower().endswith("unsubscribe")
    return [Command(kind=Unsubscribe, line=subject)] if leaves else []


def mentions(*lines: str) -> tuple[Command, ...]:
    """Return a doubtful command if a line mentions unsubscribing, or asks for a pause or another hour."""
    for line in lines:
        leaves = unsubscribe_words.PHRASE.search(line)
        if len(line) > MAX_SENTENCE_LENGTH or not (
            leaves or words_around_commands.ASKS_FOR_DIGESTS.search(line)
        ):
            continue
        pause, at = command_arguments.pause_in(line), command_arguments.schedule_in(line)
        if leaves and not pause:
            return (Command(kind=Unsubscribe, line=line, doubt=Unsubscribe.doubt),)
        if pause or at:
            kind, example = (PauseDigests, f"pause {pause}") if pause else (ChangeSchedule, at)
            doubt = f"Nothing has changed. Do you mean this? Then write: {example}"
            return (Command(kind=kind, line=line, doubt=doubt),)
    found = ((pattern.search(line), line, kind) for line in lines for pattern, kind in MENTIONED)
    every = [Command(kind=kind, line=line, doubt=kind.doubt) for said, line, kind in found if said]
    return tuple(every[:1])


# ── one line ────────────────────────────────────────────────────────────────────────────────────


def split_line(line: str, names: frozenset[str]) -> tuple[list[Command], list[str]]:
    """Return the commands of a line, and its sentences that are none."""
    sentences = list(sentences_in(line))
    read = [(one, parse_command(one, names)) for one in sentences]
    found = [command for _, command in read if command is not None]
    is_consent = len(found) == 1 and found[0].kind is Confirm
    # `Yes, lovely papers` says yes to nothing, and `yes, go ahead` says it once.
    if is_consent and (words_around_commands.says_yes(line) or not says_yes(line)):
        sentences, read = [line], [(line, parse_command(line, names))]
        found = [command for _, command in read if command is not None]
    rest = [one for one, command in read if not (command or words_around_commands.is_polite(one))]
    if len(sentences) > 1 and not any(command.is_clear for command in found):
        whole = parse_command(line, names)
        return ([whole], []) if whole else ([], [line])
    return found, rest


def says_yes(line: str) -> bool:
    """Return whether a line says yes, and only commands and thanks follow in the same sentence."""
    first, *others = sentences_in(line)
    is_whole = words_around_commands.says_yes(first)
    for other in others:
        if first.endswith((".", "!")):  # `Yes.` is meant, whatever is asked then; `yes, but ...` is not
            break
        is_whole = is_whole and bool(
            words_around_commands.is_polite(other) or split_line(other, frozenset())[0]
        )
        first = other
    return is_whole or words_around_commands.says_yes(line)


def is_bare_topic(line: str, names: frozenset[str], *, is_item: bool) -> bool:
    """Return whether a line without a command is a topic: a filter, an item of a list, or a few words in lower case."""
    is_text = words_around_commands.is_polite(line) or names.issuperset(words_around_commands.words_in(line))
    if is_text or not command_arguments.is_topic(line):
        return False
    if command_arguments.is_filter(line):
        return True
    has_hour = "at " in command_arguments.schedule_in(line)  # `wekly on friday at 8`
    return (is_item or line[:1].islower()) and not (line.endswith(".") or has_hour)


def sentences_in(line: str) -> Iterator[str]:
    """Yield the sentences of a line, and apart from them a second command, as in `subscribe robots weekly`."""
    for sentence in whole_sentences(line):
        begins = SECOND_OF_TWO.finditer(sentence) if FIRST_OF_TWO.match(without_lead_in(sentence)[0]) else ()
        parsed = ((begin, parse_command(sentence[begin.end() :])) for begin in begins)
        second = next((begin for begin, command in parsed if command and command.is_clear), None)
        if second:
            yield sentence[: second.start()]
        yield sentence[second.end() :] if second else sentence


def whole_sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line, and the clauses with which a request begins."""
    first, begin = FIRST_WORDS.match(line), 0
    if first and (
        words_around_commands.says_yes(first[0]) or words_around_commands.is_greeting(first[0].strip())
    ):
        begin = first.end()
        yield first[0].rstrip(" ,;-–—")
    for end in SENTENCE_END.finditer(line, begin):
        if INITIAL.search(line, begin, end.start() + 1) is None:
            yield line[begin : end.start() + 1].strip(" ,")
            begin = end.end()
    yield line[begin:]


def without_lead_in(line: str) -> tuple[str, bool]:
    """Return a line without a polite beginning, and whether it begins with `could you` or `I would like to`."""
    bare = words_around_commands.without_please(line)
    lead = LEAD_IN.match(bare)
    return bare[lead.end() if lead else 0 :], bool(lead and lead["polite"])


def parse_command(line: str, names: frozenset[str] = frozenset()) -> Command | None:
    """Return the command that a line contains, or None.

    For a sentence that begins like a command, a doubtful command is returned.
    """
    bare, is_request = without_lead_in(line)
    if unsubscribe_words.says_unsubscribe(bare, names):
        return Command(kind=Unsubscribe, line=line)
    if words_around_commands.says_yes(bare):
        return Command(kind=Confirm, line=line)
    for pattern, words in PHRASES:
        if said := pattern.match(line) or pattern.match(bare):
            # `sign me up for papers on coral reefs` names a topic; after other phrases, more words add nothing.
            rest = said.string[said.end() :].strip(" :.!?") if words == Subscribe.words[0] else ""
            command = parse_command(f"{words} {rest}".rstrip(), names)
            return command and replace(command, line=line)
    bare = bare.rstrip("?") if is_request and not bare.startswith("subscribe") else bare
    first, _, rest = bare.partition(" ")
    word = words_around_commands.strip_punctuation(first).casefold()
    if kind_named := KIND_OF_WORD.get(word):
        return kind_named.read(
            CommandLine(
                text=line,
                bare=f"{first} {rest}".strip(),
                word=word,
                rest=rest.strip(),
                names=names,
                is_question="?" in line and not is_request,
            )
        )
    is_schedule = len(bare.split()) <= MAX_BARE_WORDS and command_arguments.parse_schedule(bare)
    return Command(kind=ChangeSchedule, line=line, argument=bare) if is_schedule else None
