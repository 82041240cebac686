"""Parse the commands in a mail. Pure.

A command is a whole line: the subject, or one of the first lines of the body. The first line that
is not a command ends the commands, so signatures and quoted letters are never read. A line that begins
like a command and continues like a sentence is unclear: it changes nothing, and the reply asks what was
meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses
from enum import StrEnum
from html import unescape
from itertools import islice, zip_longest

from digest.inbound import reply_text
from digest.letters import figures_in_words
from digest.letters.headers import one_line

MAX_COMMANDS = 10  #: maximum commands in one mail
MAX_BYTES = 32 * 1024  #: bytes of a mail that are parsed, since some mail is designed to be slow to parse
MAX_LINE_LENGTH = 2000  #: characters of a line that are read; the maximum length of a filter
MAX_SENTENCE_LENGTH = 100  #: characters of an unclear command; a longer line is text
MAX_NAMES = 3  #: words allowed after `subscribe`: people add their name, advertisers write more
MAX_WORDS = 6  #: words of a filter without an operator or a name; a longer text is a sentence
DEFAULT_PAUSE = timedelta(days=7)


class Verb(StrEnum):
    """A command that can be sent by mail."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "leave"
    PAUSE = "pause"
    RESUME = "resume"
    TOPICS = "topics"
    ADD = "add"
    DROP = "drop"
    SCHEDULE = "at"
    HELP = "help"


#: The words with which commands may begin, and their verbs.
VERB_OF_WORD = {
    **dict.fromkeys(("subscribe", "join"), Verb.SUBSCRIBE),
    **dict.fromkeys(("leave", "unsubscribe", "cancel", "signoff", "stop"), Verb.UNSUBSCRIBE),
    "pause": Verb.PAUSE,
    "resume": Verb.RESUME,
    **dict.fromkeys(("topics", "settings", "list", "show"), Verb.TOPICS),
    "add": Verb.ADD,
    **dict.fromkeys(("drop", "del", "delete", "remove"), Verb.DROP),
    **dict.fromkeys(("at", "daily", "weekdays", "weekly", "monthly"), Verb.SCHEDULE),
    **dict.fromkeys(("help", "commands"), Verb.HELP),
}
CERTAIN_WORDS = frozenset({"unsubscribe", "signoff"})  #: words that always refer to the digests
#: Commands that contradict an `unsubscribe` in the same mail.
CHANGING_VERBS = frozenset({Verb.ADD, Verb.DROP, Verb.SCHEDULE, Verb.PAUSE, Verb.RESUME})

HTML_LINE_BREAK = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?h\d)\b[^>]*>", re.IGNORECASE)
HIDDEN_HTML = re.compile(
    r"<(style|script|head|blockquote)\b.*?(?:</\1>|\Z)|<!--.*?-->", re.IGNORECASE | re.DOTALL
)
HTML_TAG = re.compile(r"<[^>]*>")
NAMED_FILTER = re.compile(r"(?P<name>[^:\"()]{1,80}):\s+(?P<filter>.+)")
OPERATORS = re.compile(r"[\"&|*()]|\b(?:AND|OR|NOT|NEAR)\b|\w:\w")
PAUSE_LENGTH = re.compile(
    r"(?:for\s+)?(?P<many>\d{1,3}|an?|one|two|three|four)\s*(?P<unit>d|days?|w|weeks?|months?)"
)
PAUSE_END = re.compile(r"until\s+(?:(?P<iso>\d{4}-\d\d-\d\d)|(?P<day>\d{1,2})\.?\s+(?P<month>[a-z]{3,9}))")
NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4}
UNIT_DAYS = {"d": 1, "w": 7, "m": 30}
SCHEDULE_LINE = re.compile(
    r"(?P<cadence>daily|weekdays|weekly|monthly)?(?:[\s-]+(?:on\s+)?(?P<day>[a-z]{3,9})(?<!\bat))?"
    r"(?:\s*\bat\s+(?P<at>\d{1,2}:\d\d))?(?:\s+(?P<zone>[a-z]+(?:/[\w+-]+)+|utc))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command in a mail."""

    verb: Verb
    line: str  #: as written
    argument: str = ""  #: the text after the first word
    is_clear: bool = True  #: False if the line may be a sentence about something else


# ── finding commands ────────────────────────────────────────────────────────────────────────────


def parse_commands(content: bytes) -> list[Command]:
    """Return the commands of a mail in order; none if the mail is addressed to a person."""
    message = message_from_bytes(content[:MAX_BYTES], policy=policy.default)
    names = names_of(message)
    subject, is_answer = subject_of(message)
    lines = list(written_lines(message))
    if is_answer:
        return commands_in_reply(subject, lines, names)
    first = parse_command(subject, names)
    found, below = leading_commands(lines if first is None else skip_greeting(lines), names)
    if first is None and not found:
        return unsubscribe_mentions(subject, *lines[:1])
    return mark_unclear([*([first] if first else []), *found][:MAX_COMMANDS], below, names)


def commands_in_reply(subject: str, lines: Sequence[str], names: frozenset[str]) -> list[Command]:
    """Return the commands of a reply, which are above the quoted letter.

    A reply usually keeps the subject of the answered letter. The subject therefore counts only if it says to
    unsubscribe and the body is empty.
    """
    if lines:
        found, below = leading_commands(lines, names)
        return mark_unclear(found[:MAX_COMMANDS], below, names) if found else unsubscribe_mentions(*lines[:1])
    command = parse_command(subject, names)
    return [command] if command and command.verb is Verb.UNSUBSCRIBE and command.is_clear else []


def leading_commands(lines: Sequence[str], names: frozenset[str]) -> tuple[list[Command], Sequence[str]]:
    """Return the commands at the start of the lines, after any greeting, and the remaining lines."""
    below, found = skip_greeting(lines), list[Command]()
    for number, line in enumerate(below):
        command = parse_command(line, names)
        if command is None:
            return found, below[number:]
        found.append(command)
    return found, ()


def skip_greeting(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines after any greeting."""
    return lines[1:] if lines and reply_text.is_greeting(lines[0]) else lines


def mark_unclear(found: list[Command], below: Sequence[str], names: frozenset[str]) -> list[Command]:
    """Return the commands, with doubtful commands marked as unclear.

    `Cancel` above a text about a meeting refers to the meeting, and `stop` below an `add` only ends the list.
    """
    has_text = not reply_text.is_signature(below, names) or any(not command.is_clear for command in found)
    changes = any(command.verb in CHANGING_VERBS for command in found)
    return [
        replace(command, is_clear=False)
        if is_doubtful(command, has_text=has_text, changes=changes)
        else command
        for command in found
    ]


def is_doubtful(command: Command, *, has_text: bool, changes: bool) -> bool:
    """Return whether a word on a line of its own may mean something else in this mail."""
    word = reply_text.words_in(command.line, polite=False)[:1]
    if command.verb is Verb.UNSUBSCRIBE:
        return (has_text or changes) and not CERTAIN_WORDS.intersection(word)
    is_bare = command.verb in {Verb.PAUSE, Verb.RESUME} and not command.argument
    return is_bare and has_text


def unsubscribe_mentions(*lines: str) -> list[Command]:
    """Return an unclear unsubscribe command if a line mentions unsubscribing: `how do I unsubscribe?`."""
    return [
        Command(verb=Verb.UNSUBSCRIBE, line=line, is_clear=False)
        for line in lines
        if len(line) <= MAX_SENTENCE_LENGTH and reply_text.UNSUBSCRIBE_PHRASE.search(line)
    ][:1]


def names_of(message: EmailMessage) -> frozenset[str]:
    """Return the words of the writer's name and address, from the From line."""
    found = getaddresses([one_line(str(value)) for value in message.get_all("From", [])])
    called = (f"{name} {address} {address.rpartition('@')[0]}" for name, address in found)
    return frozenset(word for each in called for word in reply_text.words_in(each, polite=False))


def subject_of(message: EmailMessage) -> tuple[str, bool]:
    """Return the subject without prefixes, and whether the mail is a reply; ("", True) if forwarded."""
    subject = one_line(str(message.get("Subject", "")))
    bare = reply_text.without_prefixes(subject)
    return ("", True) if reply_text.is_forwarded(subject) else (bare, bare != subject)


def written_lines(message: EmailMessage) -> Iterator[str]:
    """Yield the lines that the sender wrote, without quoted and empty lines."""
    body = message.get_body(("plain", "html"))
    if body is None:
        return
    text = str(body.get_content())
    shown = text if body.get_content_subtype() == "plain" else text_of_html(text)
    lines = list(
        islice(
            filter(None, (one_line(line[:MAX_LINE_LENGTH]) for line in shown.splitlines())), 2 * MAX_COMMANDS
        )
    )
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        if reply_text.is_end_of_text(line, following):
            return
        yield line


def text_of_html(html: str) -> str:
    """Return the text of an HTML mail, with line breaks."""
    flat = " ".join(HIDDEN_HTML.sub("\n", html).split())
    return unescape(HTML_TAG.sub("", HTML_LINE_BREAK.sub("\n", flat)))


# ── one line ────────────────────────────────────────────────────────────────────────────────────


def parse_command(line: str, names: frozenset[str] = frozenset()) -> Command | None:  # noqa: PLR0911  (one return for each command)
    """Return the command in a line, or None; a sentence that begins like a command gives an unclear command."""
    bare_line = reply_text.without_please(line)
    first, _, rest = bare_line.partition(" ")
    word = reply_text.strip_punctuation(first).casefold()
    verb = VERB_OF_WORD.get(word)
    if verb is None:
        return None
    if verb is Verb.DROP and reply_text.is_about_writer(rest):
        return Command(verb=Verb.UNSUBSCRIBE, line=line, argument=rest.strip(), is_clear="?" not in line)
    command = Command(verb=verb, line=line, argument=rest.strip())
    match verb:
        case Verb.UNSUBSCRIBE:
            return with_clarity(command, is_clear=says_unsubscribe(word, bare_line, names))
        case Verb.PAUSE:
            command = replace(command, argument=reply_text.without_thanks(command.argument))
            return with_clarity(command, is_clear=parse_pause(command.argument, date.min) is not None)
        case Verb.RESUME | Verb.TOPICS | Verb.HELP:
            return command if not reply_text.words_in(command.argument) and "?" not in line else None
        case Verb.SUBSCRIBE:
            return command if says_subscribe(word, command.argument, names) else None
        case Verb.ADD | Verb.DROP:
            return command if is_topic(command.argument) else None
        case _:  # a schedule
            return with_clarity(command, is_clear=parse_schedule(bare_line) is not None)


def with_clarity(command: Command, *, is_clear: bool) -> Command | None:
    """Return a command marked as clear or unclear; None for a long line that only begins like a command."""
    if is_clear:
        return command
    return replace(command, is_clear=False) if len(command.line) <= MAX_SENTENCE_LENGTH else None


def says_unsubscribe(word: str, line: str, names: frozenset[str]) -> bool:
    """Return whether a line only says to unsubscribe."""
    if "?" in line:
        return False
    rest = reply_text.words_in(line.partition(" ")[2])
    if word in CERTAIN_WORDS:
        return all(one == word or one in names or one in reply_text.LIST_WORDS for one in rest)
    return all(one == word for one in rest) or " ".join(rest) in reply_text.SUBSCRIPTIONS


def says_subscribe(word: str, rest: str, names: frozenset[str]) -> bool:
    """Return whether `subscribe` is followed by at most a name, as in `subscribe Ada Ito`."""
    words = reply_text.words_in(rest)
    others = [one for one in words if one not in names and one not in reply_text.LIST_WORDS]
    if not others:
        return not reply_text.ADVERTISING_WORDS.intersection(words)
    return word == "subscribe" and len(others) <= MAX_NAMES and "!" not in rest and reply_text.is_name(rest)


def is_topic(rest: str) -> bool:
    """Return whether `add` or `drop` is followed by a topic rather than a sentence."""
    if not rest:
        return False
    first = reply_text.strip_punctuation(rest.split(maxsplit=1)[0]).casefold()
    is_short = len(rest.split()) <= MAX_WORDS and first not in reply_text.PERSON_WORDS
    return bool(NAMED_FILTER.fullmatch(rest) or OPERATORS.search(rest)) or is_short


# ── the text after the first word ───────────────────────────────────────────────────────────────


def parse_topic(rest: str) -> tuple[str, str]:
    """Return the name and filter in `flows: flow matching`; an unnamed filter is named after its text."""
    named = NAMED_FILTER.fullmatch(rest)
    return (
        (named["name"].strip(), named["filter"]) if named else (figures_in_words.cut_at_word(rest, 60), rest)
    )


def parse_pause(rest: str, today: date) -> date | None:
    """Return the last day of a pause of `2 weeks` or `until 6 January` (by default a week), or None if invalid."""
    text = rest.lower().rstrip(".!")
    if not text:
        return today + DEFAULT_PAUSE
    if length := PAUSE_LENGTH.fullmatch(text):
        many = int(NUMBERS.get(length["many"], length["many"]))
        return today + timedelta(days=many * UNIT_DAYS[length["unit"][0]])
    if until := PAUSE_END.fullmatch(text):
        try:
            return date.fromisoformat(until["iso"]) if until["iso"] else next_date_named(until, today)
        except ValueError:
            return None
    return None


def next_date_named(until: re.Match[str], today: date) -> date | None:
    """Return the next date of a day and month, such as `6 January`."""
    months = [
        number
        for number, name in enumerate(figures_in_words.MONTHS, 1)
        if name.lower().startswith(until["month"])
    ]
    if len(months) != 1:
        return None
    this_year = date(today.year, months[0], int(until["day"]))
    return this_year if this_year > today else this_year.replace(year=today.year + 1)


def parse_schedule(line: str) -> dict[str, str] | None:
    """Return the fields cadence, at and timezone of a line like `weekly fri at 8:00 Europe/Oslo`, or None."""
    found = SCHEDULE_LINE.fullmatch(line.rstrip(".!"))
    if found is None or not (found["cadence"] or found["at"]):
        return None
    day = f"-{found['day'].lower()}" if found["day"] else ""
    cadence = f"{found['cadence'].lower()}{day}" if found["cadence"] else ""
    fields = {"cadence": cadence, "at": found["at"], "timezone": found["zone"]}
    return {name: value for name, value in fields.items() if value}
