"""Parse the arguments of mail commands: topics, pauses, schedules and papers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import dropwhile

from digest import addresses
from digest.editions import schedule, time_zones
from digest.errors import BadField
from digest.inbound import words_around_commands
from digest.letters import figures_in_words

#: Maximum number of words in a filter that has neither operator nor name; a longer text is a sentence.
MAX_WORDS = 6
MAX_NAMES = 3  #: maximum number of words in the writer's name after `subscribe`
DEFAULT_PAUSE = timedelta(days=7)

NAMED_FILTER = re.compile(r"(?P<name>[^:\"()]{1,80}):\s+(?P<filter>.+)")
OPERATORS = re.compile(r"[\"&|*()]|\b(?:AND|OR|NOT|NEAR)\b|\w:\w")
#: Matches the beginning of a filter that follows a name, such as `"`, `(`, `ti:`, NOT or a word with a
#: wildcard.
BEGIN_OF_FILTER = re.compile(r"(?<!\S)(?:[-\"(]|\w+:\S|\w*\*|NOT\b)")

#: Words that begin an ordinary sentence after `subscribe`, rather than a topic.
NO_TOPIC_WORDS = words_around_commands.PERSON_WORDS | {"and", "or", "for", "win", "save"}

PAUSE_LENGTH = re.compile(r"(?:for\s+)?(?P<many>\d{1,3}|[a-z]+)\s*(?P<unit>d|days?|w|weeks?|months?)")
PAUSE_END = re.compile(
    r"(?:un)?til{1,2}\s+(?:(?P<iso>\d{4}-\d\d-\d\d)"
    r"|(?:the\s+)?(?P<day>\d{1,2})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<month>[a-z]{3,9})"
    r"|(?P<month_first>[a-z]{3,9})\s+(?P<day_last>\d{1,2})(?:st|nd|rd|th)?"
    r"|(?:next\s+)?(?P<weekday>[a-z]{3,9}))"
)
NUMBERS = {
    name: number
    for number, names in enumerate(
        ("a an one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1
    )
    for name in names.split()
}
UNIT_DAYS = {"d": 1, "w": 7, "m": 30}

SPLIT_HOUR = re.compile(r"(?<=\d)\s+(?=[ap]\.?m\b)", re.IGNORECASE)  #: matches the space in `9 am`
TIME_OF_DAY = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d\d)|(?P<full>h))?(?P<half>[ap])?(?(half)\.?m\.?)", re.IGNORECASE
)
ZONE = re.compile(r"[a-z]+(?:/[\w+-]+)+|utc", re.IGNORECASE)
SCHEDULE_FILLERS = frozenset({"at", "on", "every", "timezone", "zone", "time"})
PAPER_NUMBER = re.compile(r"(?:paper\s+|no\.?\s*|#)?(?P<number>\d{1,3})")
PAPER_ID = re.compile(r"\S*\d\S*")  #: matches an identifier or a URL: one word with a digit


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def is_topic(rest: str) -> bool:
    """Return whether `add` or `drop` is followed by a topic rather than a sentence."""
    if not rest:
        return False
    first = words_around_commands.strip_punctuation(rest.split(maxsplit=1)[0]).casefold()
    is_short = len(rest.split()) <= MAX_WORDS and first not in words_around_commands.PERSON_WORDS
    return bool(NAMED_FILTER.fullmatch(rest) or OPERATORS.search(rest)) or is_short


def is_address(text: str) -> bool:
    """Return whether a word is a mail address."""
    try:
        addresses.parse_address(text)
    except BadField:
        return False
    return True


def parse_topic(rest: str) -> tuple[str, str]:
    """Return the name and filter in `flows: flow matching`; an unnamed filter is named after its text."""
    named = NAMED_FILTER.fullmatch(rest)
    return (
        (named["name"].strip(), named["filter"]) if named else (figures_in_words.cut_at_word(rest, 60), rest)
    )


def topic_after_name(rest: str, names: frozenset[str]) -> str | None:
    """Return the topic in `subscribe NAME FILTER`; "" if only a name follows, None for a sentence.

    The words of the writer's own name are left out. The other words before a filter with operators are taken
    as the topic's name.
    """
    every = [word for word in rest.split() if bare_word(word) not in words_around_commands.POLITE_WORDS]
    words = list(dropwhile(lambda word: bare_word(word) in names, every))
    words = words[1:] if words and bare_word(words[0]) == "to" else words
    text = " ".join(words)
    if not words or NAMED_FILTER.fullmatch(text):
        return text
    if OPERATORS.search(text):
        return with_name(text)
    if is_advertising(words):
        return None
    if words_around_commands.is_name(text) and is_name_of_writer(every, names):
        return ""
    return text if is_topic(text) else None


def bare_word(word: str) -> str:
    """Return a word in lower case without punctuation."""
    return words_around_commands.strip_punctuation(word).casefold()


def is_name_of_writer(words: Sequence[str], names: frozenset[str]) -> bool:
    """Return whether these capitalised words may be the name of the writer.

    `names` contains the words of the writer's name in the From line. If the From line has no name, up to
    three words count as the name.
    """
    local_parts = {name.partition("@")[0] for name in names if "@" in name}
    has_name = any("@" not in name and name not in local_parts for name in names)
    is_theirs = any(bare_word(word) in names for word in words)
    return is_theirs or (not has_name and len(words) <= MAX_NAMES)


def with_name(text: str) -> str:
    """Return the text, with a colon inserted between a filter with operators and a name before it."""
    begin = BEGIN_OF_FILTER.search(text)
    name = text[: begin.start()].strip() if begin else ""
    return f"{name}: {text[len(name) :].lstrip()}" if name and is_filter_name(name) else text


def is_filter_name(text: str) -> bool:
    """Return whether the words before a filter are its name rather than its first clause."""
    return not re.search(r"\b(?:AND|OR|NOT|NEAR|[&|])$", text) and len(text.split()) <= MAX_NAMES


def is_advertising(words: Sequence[str]) -> bool:
    """Return whether the words after `subscribe` are advertising, such as `and save 50 %`."""
    bare = [bare_word(word) for word in words]
    return bare[0] in NO_TOPIC_WORDS or not words_around_commands.ADVERTISING_WORDS.isdisjoint(bare)


# ── pauses ──────────────────────────────────────────────────────────────────────────────────────


def parse_pause(rest: str, today: date) -> date | None:
    """Return the day on which a pause such as `2 weeks` or `until 6 January` ends, or None if it is invalid.

    Without text, the pause lasts a week.
    """
    text = rest.lower().rstrip(".!")
    if not text:
        return today + DEFAULT_PAUSE
    length = PAUSE_LENGTH.fullmatch(text)
    many = pause_number(length["many"]) if length else None
    if length and many:
        return today + timedelta(days=many * UNIT_DAYS[length["unit"][0]])
    until = PAUSE_END.fullmatch(text)
    try:
        return end_of_pause(until, today) if until else None
    except ValueError:
        return None


def pause_number(text: str) -> int | None:
    """Return the number that a word such as `2` or `two` stands for, or None."""
    return int(text) if text.isdecimal() else NUMBERS.get(text)


def end_of_pause(until: re.Match[str], today: date) -> date | None:
    """Return the day on which a pause ends, or None for an unknown weekday or month.

    Raises ValueError for a day that does not exist.
    """
    if until["iso"]:
        return date.fromisoformat(until["iso"])
    if until["weekday"]:
        number = weekday_of(until["weekday"])
        return None if number is None else today + timedelta(days=(number - today.weekday() - 1) % 7 + 1)
    return next_date_named(
        int(until["day"] or until["day_last"]), until["month"] or until["month_first"], today
    )


def next_date_named(day: int, month: str, today: date) -> date | None:
    """Return the next date with this day and month, such as the next `6 January`."""
    months = [
        number for number, name in enumerate(figures_in_words.MONTHS, 1) if name.lower().startswith(month)
    ]
    if len(months) != 1:
        return None
    this_year = date(today.year, months[0], day)
    return this_year if this_year > today else this_year.replace(year=today.year + 1)


def weekday_of(word: str) -> int | None:
    """Return the number of the weekday named `fri`, `Friday` or `fridays`; None for any other word."""
    name = re.sub("days$", "day", word.lower())
    found = [number for number, each in enumerate(schedule.WEEKDAYS) if each.startswith(name)]
    return found[0] if len(name) >= 3 and len(found) == 1 else None


# ── schedules ───────────────────────────────────────────────────────────────────────────────────


def parse_schedule(line: str) -> dict[str, str] | None:
    """Return the values of cadence, at and timezone in a line like `weekly fri 9am Europe/Oslo`, or None."""
    fields: dict[str, str] = {}
    before = ""
    for word in re.split(r"[\s,]+|(?i:(?<=weekly))-", SPLIT_HOUR.sub("", line.strip().rstrip(".!"))):
        found = schedule_field(word, before, fields)
        if found is None or fields.keys() & found.keys():
            return None
        fields.update(found)
        before = word.lower()
    day = fields.pop("weekday", None)
    if day and fields.setdefault("cadence", "weekly") != "weekly":
        return None
    if day:
        fields["cadence"] = f"weekly-{day}"
    return fields or None


def schedule_field(word: str, before: str, known: dict[str, str]) -> dict[str, str] | None:
    """Return the schedule field that a word sets, {} for a filler word, or None for any other word."""
    folded = word.lower()
    if folded in SCHEDULE_FILLERS or not word:
        return {}
    if folded in set(schedule.Cadence):
        return {"cadence": folded}
    if weekday_of(word) is not None:
        return {"weekday": re.sub("days$", "day", folded)}
    if at := time_of_day(word, is_after_at=before == "at"):
        return {"at": at}
    zone = zone_named(word) if known or before in SCHEDULE_FILLERS else exact_zone(word)
    return {"timezone": zone} if zone else None


def time_of_day(word: str, *, is_after_at: bool) -> str | None:
    """Return the time as `9:00` for `9am`, `9.00`, `9h` or `9:00`; accept a bare `9` only after `at`."""
    found = TIME_OF_DAY.fullmatch(word)
    if found is None or not (found["minute"] or found["full"] or found["half"] or is_after_at):
        return None
    hour, minute = int(found["hour"]), found["minute"] or "00"
    if found["half"] is None:
        return f"{found['hour']}:{minute}"
    hour = hour % 12 + (12 if found["half"].lower() == "p" else 0) if 1 <= hour <= 12 else 24
    return f"{hour}:{minute}"


def zone_named(word: str) -> str | None:
    """Return the time zone that the word names, else None.

    A word that may mean several zones, or an unknown name with a slash, is returned unchanged.
    """
    found = time_zones.zones_named(word)
    if len(found) == 1:
        return found[0]
    return word if found or ZONE.fullmatch(word) else None


def exact_zone(word: str) -> str | None:
    """Return the time zone that the word names if the word contains a slash, else None."""
    zone = zone_named(word) if "/" in word else None
    return zone if zone in time_zones.zone_names() else None


# ── papers ──────────────────────────────────────────────────────────────────────────────────────


def parse_paper(rest: str) -> int | str | None:
    """Return the paper named in a command, as its number in the answered letter or as an identifier.

    The result is None if the text is neither a number nor a single word with a digit.
    """
    text = rest.rstrip(" ?!.")
    if found := PAPER_NUMBER.fullmatch(text.lower()):
        return int(found["number"])
    return text if PAPER_ID.fullmatch(text) else None
