"""Read a message into commands and the lines that are none. Pure.

Each line of the subject and the text is one of these: a command; a line that only begins like a command, which
is doubtful, changes nothing and is asked about; a line that is left unread, which the answer quotes; or a
greeting, thanks, a signature or a quote. A command stands on a line or in a sentence of its own, or it is given by
the address of the message, such as `digest-subscribe@`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import zip_longest

from digest.inbound import command_arguments, mail_text, words_around_commands
from digest.inbound.command_arguments import papers_named, pause_in, schedule_in, topics_in, wished_topic
from digest.inbound.mail_commands import (
    DO_LATER,
    DO_YOU_MEAN,
    KIND_OF_WORD,
    KINDS,
    MAX_SENTENCE_LENGTH,
    OPENS_LIST,
    PHRASES,
    AddTopic,
    ChangeSchedule,
    Command,
    CommandLine,
    Confirm,
    DropTopic,
    ExplainPaper,
    FewerLikeThis,
    Help,
    KeepPaper,
    MailCommand,
    MoreLikeThis,
    PauseDigests,
    ResumeDigests,
    ShowTopics,
    Subscribe,
    TryFilter,
    Unsubscribe,
)
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.words_around_commands import pattern_of
from digest.site import links
from digest.site.site_profile import Site

MAX_COMMANDS = 20  #: maximum number of commands in one message
MAX_BARE_WORDS = 4  #: maximum number of words in a schedule without a command word: `fri 9am Europe/Oslo`
LONG_LINE = 60  #: a mail program may have wrapped a line with at least this many characters

#: Commands that contradict an `unsubscribe` in the same message, so that it is doubtful.
CHANGING_KINDS = frozenset({AddTopic, DropTopic, ChangeSchedule, PauseDigests, ResumeDigests})
TOPIC_KINDS = frozenset({AddTopic, Subscribe, TryFilter})

#: Matches the end of a sentence or clause after which another command may begin.
SENTENCE_END = re.compile(
    r"(?<=[\w)*\"'’][.!?;])\s+(?=[A-Z][a-z'’]|I\b)|(?<=\w[!?;])\s+(?=[a-z])|(?<=[a-z]{3}\.)\s+(?=[a-z])"
    r"|,\s+(?=(?i:(?:(?:and|but|so|then|also)\s+)*(?:please|kindly|could you|can you|would you|i(?:'d| would) like to|i want to)\b))"
)
#: Matches the first words of a line, which may be `Yes,` or a greeting before a command.
FIRST_WORDS = re.compile(r"[^,.!;–—]{1,40}?(?:[,.!;]|\s[-–—])\s+")
#: Matches the beginning of a line that may give a second command after its topic, and where that one may begin.
FIRST_OF_TWO = pattern_of("first_of_two", after=r"\b")
SECOND_OF_TWO = pattern_of("second_of_two", before=r",?\s+")
#: Matches the end of `Smith, J. `, `Smith et al. ` or `6 a.m. `.
INITIAL = re.compile(r"\b[A-Z][.]\s*$|\bal[.]\s*$|\b[ap]\.\s?m[.]\s*$")
CONDITION = pattern_of("condition")
#: Matches polite beginnings of a command: `I would like to ...`, `could you please ...`.
LEAD_IN = pattern_of("lead_in")
OPEN_END = re.compile(r"(?:\b(?:AND|OR|NOT|ANDNOT)|[(&|:])$")
CONTINUATION = re.compile(r"(?:AND|OR|NOT|ANDNOT)\b|[)&|]")
BULLET = re.compile(r"^(?:[-*•–·]|\d{1,2}[.)])\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadMail:
    """The commands of a message in order, and the lines that were left unread."""

    commands: tuple[Command, ...] = ()
    unread: tuple[str, ...] = ()


def read_commands(
    message: ReceivedMail, *, first: Command | None = None, topics: Sequence[str] = ()
) -> ReadMail:
    """Return the commands of a message, and the lines that are none; `first` is given by the mail's address.

    `topics` are the names of the writer's topics, which a sentence may name without a command.
    """
    names = mail_text.names_of(message)
    subject, is_answer = mail_text.subject_of(message)
    lines = joined_lines(mail_text.written_lines(message), names)
    lines = lines[1:] if lines and words_around_commands.is_greeting(lines[0]) else lines
    # A reply usually keeps the subject of the answered letter.
    above, rest = ([], []) if is_answer else split_line(subject, names)
    if is_answer and not any(lines):  # an empty reply, whose subject may end with `unsubscribe`
        leaves = words_around_commands.says_unsubscribe(subject, names)
        is_leaving = leaves or subject.lower().endswith("unsubscribe")
        above = [Command(kind=Unsubscribe, line=subject)] if is_leaving else []
    found = read_lines(lines, [first, *above] if first else above, names)
    found = replace(found, unread=(*(rest if above else ()), *found.unread))
    if found.unread:  # `Yes, lovely papers` says yes to nothing
        found = replace(found, commands=tuple(one for one in found.commands if one.kind is not Confirm))
    if subject and not (found.commands or is_answer):
        found = replace(found, unread=(subject, *found.unread))
    found = with_length_of_pause(found, above)
    found = with_wishes(replace(found, commands=marked_doubtful(found.commands, found.unread)), topics)
    return ReadMail(
        commands=found.commands[:MAX_COMMANDS],
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
        is_wish = not found and wish_of(text, ()) is not None  # even below thanks
        if commands:
            for command in commands:
                found += [] if repeats(command, found) else [command]
            unread += rest
        elif words_around_commands.is_polite(text) and not is_wish:
            is_signed = is_signed or bool(found or unread)
        elif is_wish or not (is_signed or is_in_signature(text, names, has_commands=bool(found))):
            unread.append(text)
    return ReadMail(commands=tuple(found), unread=tuple(unread))


def with_length_of_pause(read: ReadMail, subject: Sequence[Command]) -> ReadMail:
    """Return what was read; a `pause` without a length gets the one in the other lines, such as `until Monday`."""
    said = pause_in(" ".join(read.unread))
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
    # A name has a capital letter, and `QUERY DIGEST` is none.
    is_plain = (
        line.islower() and not re.search(r"[@/.\d]", line)
    ) or words_around_commands.SUBSCRIPTIONS & set(words)
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
        joins = found and line and not is_list and goes_on(found[-1], line)
        if joins and not any(one.is_clear for one in split_line(line, names)[0]):
            found[-1] = f"{found[-1]} {line}"
        else:
            found.append(line)
    return found


def list_opener(line: str) -> str:
    """Return the word with which a line above a list of topics begins, such as `add these:`; else ""."""
    found = OPENS_LIST.match(without_lead_in(line)[0])
    return found["word"].lower() if found else ""


def goes_on(line: str, following: str) -> bool:
    """Return whether a filter goes on in the following line.

    It does after or before an operator, within brackets or quotes, and if the line is so long that a mail
    program may have wrapped it. A line that names no topic is no filter.
    """
    kinds = [KIND_OF_WORD.get(word) for word in words_around_commands.words_in(line)[:1]]
    if TOPIC_KINDS.isdisjoint(kinds) and not command_arguments.NAMED_FILTER.fullmatch(line):
        return False
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


def with_wishes(read: ReadMail, topics: Sequence[str]) -> ReadMail:
    """Return what was read; a sentence left unread that wishes for a command becomes a doubtful command.

    A doubtful command that names a topic, as in `stop sending me robot papers`, may mean this topic.
    """
    found, done = list[Command](), {command.kind for command in read.commands if command.is_clear}
    for command in read.commands:
        wish = None if command.is_clear else wish_of(command.line, topics)
        found.append(wish if wish and wish.kind is DropTopic else command)
    unread = list[str]()
    for line in read.unread:
        wishes = [wish for sentence in whole_sentences(line) if (wish := wish_of(sentence, topics))]
        wishes = [wish for wish in wishes if wish.doubt != wish.kind.doubt or wish.kind not in done]
        unread += [] if wishes else [line]
        found += [wish for wish in wishes if wish.doubt not in {one.doubt for one in found}]
    return ReadMail(commands=tuple(found), unread=tuple(unread))


def wish_of(sentence: str, topics: Sequence[str]) -> Command | None:
    """Return a doubtful command for what a sentence wishes, or None."""
    if len(sentence) > MAX_SENTENCE_LENGTH:
        return None
    for pattern, kind, argument_in in WISHES:
        argument = argument_in(sentence, topics) if pattern.search(sentence) else None
        if argument is not None:
            example = argument if kind is ChangeSchedule else f"{kind.words[0]} {argument}"
            doubt = DO_YOU_MEAN % example if argument else kind.doubt
            return Command(kind=kind, line=sentence, doubt=doubt)
    return None


#: The words with which a sentence wishes for a command, and what then follows the command's word: None if the sentence
#: does not name it, "" if the answer gives any example. The first wish counts.
WISHES: Sequence[tuple[re.Pattern[str], type[MailCommand], Callable[[str, Sequence[str]], str | None]]] = (
    (
        pattern_of("wish_to_drop"),
        DropTopic,
        lambda said, topics: " and ".join(topics_in(said, topics)) or None,
    ),
    (pattern_of("wish_for_pause"), PauseDigests, lambda said, _: pause_in(said) or None),
    (pattern_of("wish_for_less"), FewerLikeThis, lambda said, _: papers_named(said)),
    (pattern_of("wish_for_more"), MoreLikeThis, lambda said, _: papers_named(said)),
    (pattern_of("wish_to_save"), KeepPaper, lambda said, _: papers_named(said)),
    (pattern_of("wish_for_reason"), ExplainPaper, lambda said, _: papers_named(said)),
    (words_around_commands.LEAVING_PHRASE, Unsubscribe, lambda _, __: ""),
    (pattern_of("wish_for_schedule"), ChangeSchedule, lambda said, _: schedule_in(said) or None),
    (pattern_of("wish_for_topic"), AddTopic, wished_topic),
    (pattern_of("wish_to_resume"), ResumeDigests, lambda _, __: ""),
    (pattern_of("mentions_rename"), ShowTopics, lambda _, __: ""),
    (pattern_of("mentions_pause"), PauseDigests, lambda _, __: ""),
    (pattern_of("other_rhythm"), ChangeSchedule, lambda _, __: ""),
    (pattern_of("mentions_removal"), DropTopic, lambda _, __: ""),
)


# ── one line ────────────────────────────────────────────────────────────────────────────────────


def split_line(line: str, names: frozenset[str]) -> tuple[list[Command], list[str]]:
    """Return the commands of a line, and its sentences that are none."""
    sentences = list(sentences_in(line))
    read = [(one, parse_command(one, names)) for one in sentences]
    if any(command is None and CONDITION.match(one) for one, command in read[:-1]):
        # `in March, please ...`: done at once, it would be done too early
        sentence, later = next(((one, command) for one, command in read if command), ("", None))
        if later is None:
            return [], [line]
        is_leaving, example = later.kind is Unsubscribe, without_lead_in(sentence)[0].rstrip(".!")
        doubt = later.doubt or (later.kind.doubt if is_leaving else DO_LATER % example)
        return [replace(later, line=line, doubt=doubt)], []
    found = [command for _, command in read if command is not None]
    rest = [one for one, command in read if not (command or words_around_commands.is_polite(one))]
    if len(sentences) > 1 and not any(command.is_clear for command in found):
        whole = parse_command(line, names)
        return ([whole], []) if whole else ([], [line])
    return found, rest


def is_bare_topic(line: str, names: frozenset[str], *, is_item: bool) -> bool:
    """Return whether a line without a command is a topic: a filter, an item of a list, or a few words in lower case."""
    is_text = words_around_commands.is_polite(line) or names.issuperset(words_around_commands.words_in(line))
    if is_text or not command_arguments.is_topic(line):
        return False
    if command_arguments.is_filter(line):
        return True
    has_hour = "at " in schedule_in(line)  # `wekly on friday at 8`
    return (is_item or line[:1].islower()) and not (line.endswith(".") or has_hour)


def sentences_in(line: str) -> Iterator[str]:
    """Yield the sentences of a line, and apart from them a second command, as in `subscribe robots weekly`."""
    for sentence in whole_sentences(line):
        whole = parse_command(sentence)
        is_one = whole is not None and whole.is_clear and whole.kind is ChangeSchedule
        is_first = not is_one and FIRST_OF_TWO.match(without_lead_in(sentence)[0])
        begins = SECOND_OF_TWO.finditer(sentence) if is_first else ()
        parsed = ((begin, parse_command(sentence[begin.end() :])) for begin in begins)
        second = next((begin for begin, command in parsed if command and command.is_clear), None)
        if second:
            yield sentence[: second.start()]
            yield from sentences_in(sentence[second.end() :])
        else:
            yield sentence


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


def misspelled_command(line: str, word: str, rest: str, names: frozenset[str]) -> Command | None:
    """Return a doubtful command if the first word has a wrong letter, or two letters in the wrong order."""
    every = [name for kind in KINDS for name in kind.words]
    known = [name for name in every if len(word) > 3 and abs(len(name) - len(word)) < 2]
    swapped = [name for name in known if sorted(name) == sorted(word)]
    for correct in (swapped or get_close_matches(word, known, n=1, cutoff=0.8))[:1]:
        example = f"{correct} {rest}".rstrip()
        meant = parse_command(example, names)
        return replace(meant, line=line, doubt=DO_YOU_MEAN % example) if meant and meant.is_clear else None
    return None


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
    if words_around_commands.says_unsubscribe(bare, names):
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
    schedule = Command(kind=ChangeSchedule, line=line, argument=bare) if is_schedule else None
    return schedule or misspelled_command(line, word, rest, names)


# ── addresses ───────────────────────────────────────────────────────────────────────────────────

#: The commands that the address of a message alone can give, keyed by the word after the mailbox's name, as
#: in Mailman.
KINDS_BY_ADDRESS = {
    word: KIND_OF_WORD[word] for word in ("subscribe", "join", "unsubscribe", "leave", "help")
}
REQUEST = "request"  #: the word in Mailman's address for commands that are in the text


def takes_commands_at(site: Site, recipient: str) -> bool:
    """Return whether mail to this address may contain commands, or the address itself gives one."""
    if recipient.lower() == site.sender_address.lower():
        return True
    word = word_of_address(site, recipient)
    return (
        word == REQUEST
        or word in KINDS_BY_ADDRESS
        or links.read_reply_address(site, recipient) is not None
        or links.read_confirm_address(site, recipient) is not None
    )


def word_of_address(site: Site, recipient: str) -> str:
    """Return the word after the mailbox's name, such as `leave` in `digest-leave@`, or "" without one."""
    local, _, domain = recipient.lower().rpartition("@")
    is_own = domain == site.domain.lower() and local.startswith((f"{site.mailbox}-", f"{site.mailbox}+"))
    return local[len(site.mailbox) + 1 :] if is_own else ""


def read_at(site: Site, recipient: str, message: ReceivedMail, *, topics: Sequence[str] = ()) -> ReadMail:
    """Return the commands of a message: the command given by its address, and the commands in its text.

    In mail to a `subscribe` address, only the settings for the sign-up are read. In mail to another address with
    a command, no text is read.
    """
    word = word_of_address(site, recipient)
    if (kind := KINDS_BY_ADDRESS.get(word)) is None:
        return read_commands(message, topics=topics)
    given = Command(kind=kind, line=word)
    if kind is not Subscribe:
        return ReadMail(commands=(given,))
    read = read_commands(message, first=given)
    asks = any(one.kind is Subscribe and one.argument for one in read.commands)
    return replace(read, commands=read.commands[1:]) if asks else read


def asks_to_subscribe(site: Site, recipient: str, message: ReceivedMail) -> bool:
    """Return whether a command of a message subscribes the writer."""
    if not takes_commands_at(site, recipient):
        return False
    return any(one.kind is Subscribe for one in read_at(site, recipient, message).commands)
