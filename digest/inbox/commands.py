"""Commands: what a mail to us asks, in words that people write. Pure: nothing is looked up, nothing changes.

One command fills a line: the subject, unless it only says what is answered, or the first lines of the
body. The first line that is none ends them, so signatures and quoted letters are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from enum import StrEnum
from html import unescape
from itertools import islice

from digest.rendering import words
from digest.rendering.headers import one_line

MOST = 10  #: commands in one mail
MOST_BYTES = 32 * 1024  #: of a mail that are looked at: some mail is made to be slow to read
LONGEST = 2000  #: characters of a line that are read: as long as a filter may be
LONGEST_LEAVING = 60  #: `stop sending me these papers`; what is longer is a letter to somebody
USUAL_LEAVE = timedelta(days=7)


class Verb(StrEnum):
    """What can be asked by mail."""

    JOIN = "subscribe"
    LEAVE = "leave"
    PAUSE = "pause"
    RESUME = "resume"
    TOPICS = "topics"
    ADD = "add"
    DROP = "drop"
    WHEN = "at"
    HELP = "help"


#: Every word that a command may begin with.
SPELLED = {
    **dict.fromkeys(("subscribe", "join"), Verb.JOIN),
    **dict.fromkeys(("leave", "unsubscribe", "cancel", "signoff", "stop"), Verb.LEAVE),
    "pause": Verb.PAUSE,
    "resume": Verb.RESUME,
    **dict.fromkeys(("topics", "settings", "list", "show"), Verb.TOPICS),
    "add": Verb.ADD,
    **dict.fromkeys(("drop", "del", "delete", "remove"), Verb.DROP),
    **dict.fromkeys(("at", "daily", "weekdays", "weekly", "monthly"), Verb.WHEN),
    **dict.fromkeys(("help", "commands"), Verb.HELP),
}
ALONE = frozenset({Verb.RESUME, Verb.TOPICS, Verb.HELP})  #: said in one word, or it is no command

ANSWERED = re.compile(r"\s*(?:re|aw|sv|antw|fwd?|wg|tr|rv)\s*(?:\[\d+\])?:", re.IGNORECASE)
ENDS = re.compile(r">|--\s*$|end$|-----|_____|.{0,120}\bwrote:$", re.IGNORECASE)
BREAK = re.compile(r"<(?:br|/?p|/?div|/?li|/?tr|/?h\d)\b[^>]*>", re.IGNORECASE)
UNSHOWN = re.compile(
    r"<(style|script|head|blockquote)\b.*?(?:</\1>|\Z)|<!--.*?-->", re.IGNORECASE | re.DOTALL
)
TAG = re.compile(r"<[^>]*>")
NAMED = re.compile(r"(?P<name>[^:\"()]{1,80}):\s+(?P<filter>.+)")
LENGTH = re.compile(
    r"(?:for\s+)?(?P<many>\d{1,3}|an?|one|two|three|four)\s*(?P<unit>d|days?|w|weeks?|months?)"
)
UNTIL = re.compile(r"until\s+(?:(?P<iso>\d{4}-\d\d-\d\d)|(?P<day>\d{1,2})\.?\s+(?P<month>[a-z]{3,9}))")
NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4}
DAYS = {"d": 1, "w": 7, "m": 30}
WHEN = re.compile(
    r"(?P<cadence>daily|weekdays|weekly|monthly)?(?:[\s-]+(?:on\s+)?(?P<day>[a-z]{3,9})(?<!\bat))?"
    r"(?:\s*\bat\s+(?P<at>\d{1,2}:\d\d))?(?:\s+(?P<zone>[a-z]+(?:/[\w+-]+)+|utc))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One thing asked."""

    verb: Verb
    line: str  #: as it was written
    rest: str = ""  #: what follows the first word


# ── finding commands ────────────────────────────────────────────────────────────────────────────


def read(content: bytes) -> list[Command]:
    """Return what a mail asks, in its order; nothing where it is written to a person."""
    message = message_from_bytes(content[:MOST_BYTES], policy=policy.default)
    first = command_in(subject_of(message))
    found = [first] if first else []
    for line in said(message):
        command = command_in(line)
        if command is None:
            break
        found.append(command)
    return found[:MOST]


def subject_of(message: EmailMessage) -> str:
    """Return the subject, unless it only says what is answered or passed on."""
    subject = one_line(str(message.get("Subject", "")))
    return "" if ANSWERED.match(subject) else subject


def said(message: EmailMessage) -> Iterator[str]:
    """Yield the lines that the sender has written themselves, without empty ones."""
    body = message.get_body(("plain", "html"))
    if body is None:
        return
    text = str(body.get_content())
    shown = text if body.get_content_subtype() == "plain" else text_of(text)
    lines = (one_line(line[:LONGEST]) for line in shown.splitlines())
    for line in islice(filter(None, lines), 2 * MOST):
        if ENDS.match(line):
            return
        yield line


def text_of(html: str) -> str:
    """Return the lines of a mail that is HTML and nothing else."""
    flat = " ".join(UNSHOWN.sub("\n", html).split())
    return unescape(TAG.sub("", BREAK.sub("\n", flat)))


def command_in(line: str) -> Command | None:
    """Return the command that a line is, or None."""
    word, _, rest = line.partition(" ")
    verb = SPELLED.get(word.lower().rstrip(".,;!"))
    rest = rest.strip()
    if verb in ALONE and rest.rstrip(".!").lower() not in {"", "please"}:
        return None
    if verb in {Verb.JOIN, Verb.LEAVE} and len(line) > LONGEST_LEAVING:
        return None
    if verb in {Verb.ADD, Verb.DROP} and not rest:
        return None
    return Command(verb=verb, line=line, rest=rest) if verb else None


# ── what follows the first word ─────────────────────────────────────────────────────────────────


def topic_in(rest: str) -> tuple[str, str]:
    """Return name and filter of `flows: flow matching`; a filter alone is called by its text."""
    named = NAMED.fullmatch(rest)
    return (named["name"].strip(), named["filter"]) if named else (words.cut(rest, 60), rest)


def leave_in(rest: str, today: date) -> date | None:
    """Return the day that `2 weeks` or `until 6 January` ends on, None where neither is said; a week if nothing is."""
    asked = rest.lower().rstrip(".!")
    if asked in {"", "please"}:
        return today + USUAL_LEAVE
    if length := LENGTH.fullmatch(asked):
        many = int(NUMBERS.get(length["many"], length["many"]))
        return today + timedelta(days=many * DAYS[length["unit"][0]])
    if until := UNTIL.fullmatch(asked):
        try:
            return date.fromisoformat(until["iso"]) if until["iso"] else named_day(until, today)
        except ValueError:
            return None
    return None


def named_day(until: re.Match[str], today: date) -> date | None:
    """Return the next `6 January`."""
    months = [
        number for number, name in enumerate(words.MONTHS, 1) if name.lower().startswith(until["month"])
    ]
    if len(months) != 1:
        return None
    this_year = date(today.year, months[0], int(until["day"]))
    return this_year if this_year > today else this_year.replace(year=today.year + 1)


def schedule_in(line: str) -> dict[str, str] | None:
    """Return cadence, at and timezone as far as `weekly fri at 8:00 Europe/Oslo` says them; None: it says nothing."""
    found = WHEN.fullmatch(line.rstrip(".!"))
    if found is None or not (found["cadence"] or found["at"]):
        return None
    day = f"-{found['day'].lower()}" if found["day"] else ""
    cadence = f"{found['cadence'].lower()}{day}" if found["cadence"] else ""
    said = {"cadence": cadence, "at": found["at"], "timezone": found["zone"]}
    return {name: value for name, value in said.items() if value}
