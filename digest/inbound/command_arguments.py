"""Parse the arguments of mail commands: topics, pauses, schedules and papers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import dropwhile

from digest.editions import schedule, time_zones
from digest.errors import BadField
from digest.inbound import words_around_commands
from digest.inbound.words_around_commands import PHRASES, SENTENCE_WORDS, alternatives, pattern_of, words_of
from digest.letters import figures_in_words
from digest.letters.figures_in_words import MONTHS, day_in_words
from digest.topics import plain_words

#: Maximum number of words in a filter that has neither operator nor name; a longer text is a sentence.
MAX_WORDS = 6
MAX_NAMES = 3  #: maximum number of words in the writer's name after `subscribe`
DEFAULT_PAUSE = timedelta(days=7)

NAMED_FILTER = re.compile(r"(?P<name>[^:\"()]{1,80}):\s+(?P<filter>.+)")
PHRASE = re.compile(r'"[^"]*"')
OPERATORS = re.compile(r"[\"&|*()]|\b(?:AND|OR|NOT|NEAR)\b|\w:\w")
#: Matches the beginning of a filter that follows a name, such as `"`, `(`, `ti:`, NOT or a word with a
#: wildcard.
BEGIN_OF_FILTER = re.compile(r"(?<!\S)(?:[-\"(]|\w+:\S|\w*\*|NOT\b)")

#: Words around the topic: `add a topic on robots`, `subscribe me to papers about robots`, `the robots topic`.
BEFORE_TOPIC, AROUND_TOPIC = pattern_of("before_topic"), pattern_of("around_topic", after="$")
WISHED_TOPIC, REPLACED_TOPIC = pattern_of("wished_topic"), pattern_of("replaced_topic")
BY_AUTHOR = pattern_of("by_author", before="^", after="$")  #: as in `add everything by Ada Ito`
#: Matches the words before a filter, as in `add Robots with filter robot*`.
WITH_FILTER = pattern_of("with_filter", before=r"\s+", after=r":?\s+")
#: Words that begin an ordinary sentence after `subscribe`, rather than a topic.
NO_TOPIC_WORDS = words_around_commands.PERSON_WORDS | {"and", "or", "for", "win", "save"}

LENGTH = r"(?P<many>\d{1,3}|[a-z]+)\s*(?P<unit>days?|d|weeks?|wks?|w|months?|mths?|mos?|m|years?|yrs?|y)\b"
WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+)?"
DATE = (
    r"(?P<iso>\d{4}-\d\d-\d\d)"
    r"|(?P<day_number>\d{1,2})(?P<mark>[./-])(?P<month_number>\d{1,2})(?:(?P=mark)(?P<year>\d{2,4})?)?(?![\w./-])"
    r"|(?:(?:the\s+)?(?P<edge>end|beginning|start)\s+of\s+(?:the\s+|this\s+)?(?P<then>next\s+)?|next\s+)(?P<period>week|month|year)\b"
    r"|(?:the\s+)?end\s+of\s+(?P<ending>[a-z]{3,9})\b"
    rf"|{WEEKDAY}(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<month>[a-z]{{3,9}})\b\.?(?:,?\s+(?P<their_year>\d{{4}}))?"
    rf"|{WEEKDAY}(?P<month_first>[a-z]{{3,9}})\.?\s+(?P<day_last>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s+(?P<last_year>\d{{4}}))?"
    # A day or a month alone, rather than the beginning of a date in another form.
    rf"|(?:next\s+)?(?P<day_or_month>[a-z]{{3,9}})\b(?![.,]?\s*(?:the\s+)?(?:\d|(?:{'|'.join(name[:3].lower() for name in MONTHS)})))"
)
#: Before the end of a pause: `until`, `until I am back`.
UNTIL = r"(?:(?:un)?til{1,2}|through)\s+(?:i\b.{1,12}?\b(?:back|home|return)\s+)?"
PAUSE = re.compile(rf"(?:{UNTIL}|to\s+)(?:on\s+)?(?:{DATE})|(?:for\s+(?:the\s+next\s+)?)?{LENGTH}")
#: Matches a pause in the middle of a sentence, where its first word is needed.
PAUSE_IN_SENTENCE = re.compile(rf"\b(?:{UNTIL}(?:on\s+)?(?:{DATE})|for\s+(?:the\s+next\s+)?{LENGTH})")
#: Matches a pause that begins later: `from 20 December to 4 January`.
PAUSE_FROM = re.compile(
    rf"\b(?:from|between)\s.{{1,30}}?\s(?:to|and|(?:un)?til{{1,2}}|[-–])\s+(?P<end>{DATE})$", re.IGNORECASE
)
ENDLESS = pattern_of("endless", before="(?:until )?")
#: Words between `pause` and its length: `pause my digests for 2 weeks`.
PAUSED_THINGS = re.compile(rf"(?:(?:{alternatives('paused_things')})[ ,]+)*")
REASON = re.compile(r"(?:\s+please)?\s*(?:[,.;(–-]|(?:as|because|since|while|due|i|we|i['’]m|i['’]ll)\b)")
NUMBERS = {"a": 1, "an": 1, **{name: number for number, name in enumerate(PHRASES["numbers"].split())}}
ORDINALS = PHRASES["ordinals"].split()
UNIT_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
NO_END = date.max  #: the end of a pause that lasts until the reader resumes

SPLIT_HOUR = re.compile(r"(?<=\d)\s+(?=[ap]\.?m\b)", re.IGNORECASE)  #: matches the space in `9 am`
TIME_OF_DAY = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d\d)|(?P<full>h))?(?P<half>[ap])?(?(half)\.?m\.?)", re.IGNORECASE
)
NAMED_TIMES = {"noon": "12:00", "midday": "12:00", "midnight": "0:00"}
NAMED_CADENCES = {word: line[0] for line in map(str.split, PHRASES["cadences"].splitlines()) for word in line}
#: What `every` and `once a` name.
PERIODS = {"day": "daily", "morning": "daily", "week": "weekly", "month": "monthly", "weekday": "weekdays"}
ZONE = re.compile(r"[a-z]+(?:/[\w+-]+)+|utc", re.IGNORECASE)
#: Words of a schedule that set nothing: `change the time of my digest to 7:30`.
SCHEDULE_FILLERS = words_of("schedule_fillers")
NUMBERS_ALONE = re.compile(r"\d+(?:[,;&]\d+)+")  #: `1,2` is no identifier
PAPER_NUMBER, PAPERS_NAMED = pattern_of("paper_number"), pattern_of("papers_named")
FOR_READER = re.compile(r"\s+for(?: me| later)?$", re.IGNORECASE)  #: as in `save 3 for me`
PAPER_ID = re.compile(r"\S*\d\S*")  #: matches an identifier or a URL: one word with a digit


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def bare_topic(rest: str) -> str:
    """Return the topic in `a topic on robots, please.`: the text without the words around the topic."""
    bare = words_around_commands.without_thanks(BEFORE_TOPIC.sub("", rest, count=1))
    bare = BY_AUTHOR.sub(r'au:"\g<author>"', AROUND_TOPIC.sub(r"\g<the>\g<to>", bare))
    return WITH_FILTER.sub(": ", bare, count=1)


def is_topic(topic: str) -> bool:
    """Return whether a text is a topic, rather than a sentence or an address."""
    words = [bare_word(word) for word in topic.split()]
    if not words or any("@" in word for word in words):
        return False
    if is_filter(topic):
        return True
    is_sentence = words[0] in words_around_commands.PERSON_WORDS or SENTENCE_WORDS.intersection(words)
    return len(words) <= MAX_WORDS and not is_sentence and not set("?!") & set(topic)


def is_filter(topic: str) -> bool:
    """Return whether a text is a filter with operators, or a filter with a name."""
    return bool(NAMED_FILTER.fullmatch(topic) or OPERATORS.search(topic))


def parse_topic(topic: str) -> tuple[str, str]:
    """Return the name and filter in `flows: flow matching`; an unnamed filter is named after its text.

    Plain words are read as a description.
    """
    if named := NAMED_FILTER.fullmatch(topic):
        return named["name"].strip(), plain_words.as_filter(named["filter"])
    name = topic.strip('"') if PHRASE.fullmatch(topic) else topic
    return figures_in_words.cut_at_word(name, 60), plain_words.as_filter(topic)


def topics_in(sentence: str, topics: Iterable[str]) -> list[str]:
    """Return those of these topics of which a sentence contains every word, in the singular or the plural."""
    said = stems(sentence)
    return [topic for topic in topics if (words := stems(topic)) and words <= said]


def stems(text: str) -> set[str]:
    """Return the words of a text without the `s` of a plural."""
    return {word.removesuffix("s") for word in words_around_commands.words_in(text)}


def wished_topic(sentence: str, topics: Iterable[str]) -> str | None:
    """Return what follows `add` in a command for the topic or the filter that a sentence wishes for; else None."""
    replaced, wished = REPLACED_TOPIC.fullmatch(sentence), WISHED_TOPIC.fullmatch(sentence)
    if replaced and (named := topics_in(replaced["name"], topics)):
        return f"{named[0]}: {replaced['filter'].rstrip(' .!?')}"
    topic = bare_topic(wished["topic"].rstrip(" ?")) if wished else ""
    return topic if is_topic(topic) else None


def topic_after_name(rest: str, names: frozenset[str]) -> str | None:
    """Return the topic in `subscribe NAME FILTER`; "" if only a name follows, None for a sentence.

    The words of the writer's own name are left out. The other words before a filter with operators are taken
    as the topic's name.
    """
    every = [word for word in rest.split() if bare_word(word) not in words_around_commands.POLITE_WORDS]
    every = every[1:] if [bare_word(word) for word in every[:1]] in (["digest"], ["list"]) else every
    words = list(dropwhile(lambda word: bare_word(word) in names, every))
    words = words[1:] if words and bare_word(words[0]) == "to" else words
    text = bare_topic(" ".join(words))
    if not words or NAMED_FILTER.fullmatch(text):
        return text
    if OPERATORS.search(text):
        return with_name(text)
    bare = [bare_word(word) for word in text.split()]
    if not bare or bare[0] in NO_TOPIC_WORDS or not words_around_commands.ADVERTISING_WORDS.isdisjoint(bare):
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
    begin = None if NAMED_FILTER.fullmatch(text) else BEGIN_OF_FILTER.search(text)
    name = text[: begin.start()].strip() if begin else ""
    # Words that end with an operator are the first clause of the filter.
    is_clause = re.search(r"\b(?:AND|OR|NOT|NEAR|[&|])$", name) or len(name.split()) > MAX_NAMES
    return f"{name}: {text[len(name) :].lstrip()}" if name and not is_clause else text


# ── pauses ──────────────────────────────────────────────────────────────────────────────────────


def parse_pause(rest: str, today: date) -> date | None:
    """Return the day on which a pause such as `2 weeks` or `until 6 January` ends, or None if it is invalid.

    Without text, the pause lasts a week. The result is NO_END for a pause until the reader resumes. Raises
    BadField with two examples if the day may be one of two.
    """
    text = PAUSED_THINGS.sub("", f"{rest.lower().rstrip('.!')} ", count=1).strip()
    if not text:
        return today + DEFAULT_PAUSE
    if ENDLESS.fullmatch(text):
        return NO_END
    found = PAUSE.fullmatch(text)
    try:
        return end_of_pause(found, today) if found else None
    except (ValueError, OverflowError):
        return None


def pause_said(rest: str) -> str | None:
    """Return the length or end of a pause after `pause`, without a reason after it; "" for neither, else None."""
    text = PAUSED_THINGS.sub("", f"{words_around_commands.without_thanks(rest).lower()} ", count=1).strip()
    found = PAUSE.match(text)
    if can_be_pause(text):
        return text
    is_said = found and can_be_pause(found[0]) and REASON.match(text, found.end())
    return found[0] if found and is_said else None


def pause_in(sentence: str) -> str | None:
    """Return the only length or end of a pause in a sentence, such as `until 6 January`; "" for `until then`, else None."""
    found = [each[0].strip(" .") for each in PAUSE_IN_SENTENCE.finditer(sentence.lower())]
    possible = [each.removeprefix("until then") for each in found if can_be_pause(each)]
    return possible[0] if len(possible) == 1 else None


def can_be_pause(rest: str) -> bool:
    """Return whether a text is the length or the end of a pause, even if it may have two meanings."""
    try:
        return parse_pause(rest, date(2000, 1, 1)) is not None
    except BadField:
        return True


def end_of_pause(found: re.Match[str], today: date) -> date | None:
    """Return the day on which a pause ends, or None for an unknown weekday or month.

    Raises ValueError for a day that does not exist, and BadField for a day that may be one of two.
    """
    if found["unit"]:
        many = int(found["many"]) if found["many"].isdecimal() else NUMBERS.get(found["many"], 0)
        return today + timedelta(days=many * UNIT_DAYS[found["unit"][0]]) if many else None
    if found["iso"]:
        return date.fromisoformat(found["iso"])
    if found["day_number"]:
        return numbered_date(found, today)
    if period := found["period"]:
        following = after_period(period, today)
        return after_period(period, following) if found["edge"] == "end" and found["then"] else following
    return named_day(found, today)


def named_day(found: re.Match[str], today: date) -> date | None:
    """Return the next weekday, date or first day of a month with this name, or None for an unknown name."""
    named = found["month"] or found["month_first"] or found["ending"] or found["day_or_month"]
    if (weekday := weekday_of(named)) is not None:
        return today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)
    months = [number for number, name in enumerate(MONTHS, 1) if name.lower().startswith(named)]
    day, year = found["day"] or found["day_last"] or "1", found["their_year"] or found["last_year"]
    if len(months) == 1 and found["ending"]:
        return after_period("month", date_named(28, months[0], year, today))
    return date_named(int(day), months[0], year, today) if len(months) == 1 else None


def numbered_date(found: re.Match[str], today: date) -> date:
    """Return the date in `6.1.` or `06.01.2027`, where the day comes first.

    With slashes, Americans write the month first; BadField asks which of the two is meant.
    """
    first, second, year = int(found["day_number"]), int(found["month_number"]), found["year"]
    if found["mark"] != "/" or second > 12:
        return date_named(*((first, second) if second <= 12 else (second, first)), year, today)
    day_first = date_named(first, second, year, today)
    if first > 12 or first == second:
        return day_first
    choices = [
        f"pause until {day_in_words(each)}" for each in (day_first, date_named(second, first, year, today))
    ]
    raise BadField("pause", f"This date has two meanings. Write: {', or: '.join(choices)}")


def date_named(day: int, month: int, year: str | None, today: date) -> date:
    """Return a date; without a year, the next date with this day and month, such as the next `6 January`."""
    if year:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
    this_year = date(today.year, month, day)
    return this_year if this_year > today else this_year.replace(year=today.year + 1)


def after_period(period: str, day: date) -> date:
    """Return the first day after the week, month or year of a day."""
    if period == "week":
        return day + timedelta(days=7 - day.weekday())
    month = 12 if period == "year" else day.month
    return (date(day.year, month, 28) + timedelta(days=4)).replace(day=1)


def weekday_of(word: str) -> int | None:
    """Return the number of the weekday named `fri`, `Friday` or `fridays`; None for any other word."""
    name = re.sub("days$", "day", word.lower())
    found = [number for number, each in enumerate(schedule.WEEKDAYS) if each.startswith(name)]
    return found[0] if len(name) >= 3 and len(found) == 1 else None


# ── schedules ───────────────────────────────────────────────────────────────────────────────────


def parse_schedule(line: str) -> dict[str, str] | None:
    """Return the values of cadence, at and timezone in a line like `weekly fri 9am Europe/Oslo`, or None."""
    fields, names, before, leads_to_zone = dict[str, str](), list[str](), "", False
    line = SPLIT_HOUR.sub("", words_around_commands.without_thanks(line))
    for word in filter(None, re.split(r"(?<!\S)[-–—]\s+|[\s,]+|:(?=\s)|(?i:(?<=weekly))-", line)):
        found = schedule_field(word.lower(), before)
        if found is None:
            leads_to_zone = leads_to_zone or before in SCHEDULE_FILLERS
            names.append(word)
        elif fields.keys() & found.keys():
            return None
        fields.update(found or {})
        before = word.lower()
    is_alone = not (fields or leads_to_zone)
    zone = zone_named(" ".join(names), is_alone=is_alone) if names else ""
    if zone is None:
        return None
    if fields.pop("evening", "") and int(fields.get("at", "12:00").partition(":")[0]) < 12:
        return None
    day = fields.pop("weekday", None)
    if day and fields.setdefault("cadence", "weekly") != "weekly":
        return None
    if day:
        fields["cadence"] = f"weekly-{day}"
    return {**fields, "timezone": zone} if zone else fields or None


def schedule_in(sentence: str) -> str:
    """Return the fullest schedule in a sentence as one writes it in a command: `weekly fri at 9:00`; else ""."""
    words = sentence.rstrip(".!?").split()
    parts = [words[begin:end] for begin in range(len(words)) for end in range(begin + 1, len(words) + 1)]
    read = [parse_schedule(" ".join(part)) or {} for part in parts]
    found = max(read, key=lambda each: (len(each), len(each.get("cadence", ""))), default={})
    if not found.keys() & {"cadence", "at"}:
        return ""
    at = f"at {found['at']}" if "at" in found else ""
    return " ".join(filter(None, (found.get("cadence", "").replace("-", " "), at, found.get("timezone"))))


def schedule_field(word: str, before: str) -> dict[str, str] | None:
    """Return the schedule field that a word sets, {} for a filler word, or None for any other word."""
    cadence = PERIODS.get(word) if before in {"every", "each", "a"} else NAMED_CADENCES.get(word)
    at = NAMED_TIMES.get(word) or time_of_day(word, is_after_at=before == "at")
    if word in SCHEDULE_FILLERS:
        return {}
    if word.startswith(("afternoon", "evening")):
        return {"evening": word}
    if cadence or word in set(schedule.Cadence):
        return {"cadence": cadence or word}
    if weekday_of(word) is not None:
        return {"weekday": re.sub("days$", "day", word)}
    return {"at": at} if at else None


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


def zone_named(text: str, *, is_alone: bool) -> str | None:
    """Return the time zone that a text names, else None; alone, only a name with a slash is a zone.

    A name that may mean several zones, or an unknown name with a slash, is returned unchanged.
    """
    found = [] if text.isdecimal() else time_zones.zones_named(text)
    if is_alone:
        return found[0] if found and "/" in text else None
    if len(found) == 1:
        return found[0]
    return text if found or ZONE.fullmatch(text) else None


# ── papers ──────────────────────────────────────────────────────────────────────────────────────


def parse_papers(rest: str) -> list[int | str] | None:
    """Return the papers in `3, 5 and 7`: numbers in the answered letter, or identifiers; None for other text."""
    rest = FOR_READER.sub("", words_around_commands.without_thanks(rest))
    if not NUMBERS_ALONE.fullmatch(rest) and (only := parse_paper(rest)) is not None:
        return [only]
    bare = rest.rstrip(" ?")
    text = re.sub(r"^(?:papers?|nos?\.?|numbers?)\s+", "", bare, flags=re.IGNORECASE)
    found = [parse_paper(part) for part in re.split(r"\s*(?:,|;|&|\band\b|\bund\b|\s)\s*", text) if part]
    papers = [one for one in found if one is not None]
    return papers if papers and len(papers) == len(found) else None


def papers_named(sentence: str) -> str | None:
    """Return the numbers of the papers that a sentence names, such as `3 and 5` or `1` for the first one; else None."""
    named = PAPERS_NAMED.search(sentence.lower())
    return named and (named["numbers"] or str(ORDINALS.index(named["ordinal"])))


def parse_paper(rest: str) -> int | str | None:
    """Return the paper named in a command, as its number in the answered letter or as an identifier.

    The result is None if the text is neither a number nor a single word with a digit.
    """
    text = words_around_commands.without_thanks(rest).rstrip(" ?!.")
    if found := PAPER_NUMBER.fullmatch(text.lower()):
        number = found["number"]
        return int(number) if number.isdecimal() else ORDINALS.index(number)
    return text if PAPER_ID.fullmatch(text) else None
