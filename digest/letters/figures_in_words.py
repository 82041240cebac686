"""Write the sentences in letters that contain figures or dates; the templates contain all other text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import ceil
from unicodedata import category

from digest.editions.compose import TRENDING_TOPIC
from digest.editions.schedule import Cadence, Schedule
from digest.editions.time_zones import zone_of
from digest.plurals import count

REQUESTED = {
    Cadence.WEEKDAYS: "a weekday digest", Cadence.WEEKLY: "a weekly digest", Cadence.MONTHLY: "a monthly digest",
}  # fmt: skip
WORDS_PER_MINUTE = 200
MAX_FOLLOWUP_LENGTH = 160
MAX_TOPICS_LENGTH = 1500  #: maximum number of characters of the line with all topics of a reader
MAX_TOPICS_NAMED = 8  #: maximum number of topics named in a sentence
MAX_REQUESTED_NAMED = 3  #: maximum number of topics that a letter names if the request is not yet confirmed
#: Maximum length of a requested topic's name, which is limited because a stranger may have chosen it.
MAX_REQUESTED_NAME = 60
MAX_REMARK_LENGTH = 300
#: Matches arXiv's categories, and the dots and other signs that make a link.
CATEGORY_OR_SIGN = re.compile(
    r"(?<!\S)(?P<category>(?:cat:)?(?:cs|math|stat|eess|econ|nlin|physics|q-bio|q-fin|astro-ph|cond-mat)\.[A-Z]{2})(?![\w/.-]*\w)"
    r"|(?<=\S)[^\w\s'’-](?=\S)"
)
#: More than four digits, however they are separated; mail programs make telephone numbers into links.
LONG_NUMBER = re.compile(r"\d(?:\W*\d){4,}")
TRAILING_CONNECTIVES = re.compile(
    r"(?:[\s,;:–—-]+(?:a|about|an|and|are|as|at|by|for|from|in|into|is|its|of|on|or|our|over|such|than|that|the|their|to|under|"
    r"via|was|we|when|where|with))+$",
    re.IGNORECASE,
)
LONGEST_CONNECTIVE = 6  #: number of characters of the longest connective and the separator before it
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August",
    "September", "October", "November", "December",
)  # fmt: skip
DAYS = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip


def day_in_words(day: date) -> str:
    """Return a date as text, such as `20 November 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@lru_cache(maxsize=4096)  # the letters of a run share it
def weekday_and_day(day: date) -> str:
    """Return a weekday and day such as `Friday, 20 November`."""
    return f"{DAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]}"


def short_day(day: date) -> str:
    """Return a short date such as `20 Nov 2026`."""
    return f"{day.day} {MONTHS[day.month - 1][:3]} {day.year}"


def day_and_month(day: date) -> str:
    """Return a short date without its year, such as `20 Nov`."""
    return f"{day.day} {MONTHS[day.month - 1][:3]}"


def listed_on(moment: datetime, today: date | None) -> str:
    """Return when a paper without a date was listed: `First listed 20 Nov`, or `New today`."""
    day = moment.astimezone(UTC).date()
    return "New today" if day == today else f"First listed {day_and_month(day)}"


def day_and_hour(moment: datetime) -> str:
    """Return a time in UTC such as `20 November 2026, 07:12 UTC`."""
    utc = moment.astimezone(UTC)
    return f"{day_in_words(utc.date())}, {utc:%H:%M} UTC"


@lru_cache(maxsize=4096)  # the letters of a run share it
def moment_in_words(moment: datetime, timezone: str, *, seen_from: datetime) -> str:
    """Return a local time such as `Monday 08:00, Oslo`, with the date if the weekday alone is ambiguous."""
    local = moment.astimezone(zone_of(timezone))
    place = place_in_words(timezone)
    weekday = DAYS[local.weekday()]
    if local.date() - seen_from.astimezone(zone_of(timezone)).date() < timedelta(days=7):
        return f"{weekday} {local:%H:%M}, {place}"
    return f"{weekday} {local.day} {MONTHS[local.month - 1]}, {local:%H:%M}, {place}"


@lru_cache(maxsize=4096)  # the letters of a run share it
def next_digest(moment: datetime, timezone: str, *, seen_from: datetime) -> str:
    """Return a local time such as `Saturday, 08:00 UTC`, with the date if the weekday alone is ambiguous."""
    local, place = moment.astimezone(zone_of(timezone)), place_in_words(timezone)
    day = DAYS[local.weekday()]
    if local.date() - seen_from.astimezone(zone_of(timezone)).date() >= timedelta(days=7):
        day = f"{day} {local.day} {MONTHS[local.month - 1]}"
    return f"{day}, {local:%H:%M} {place}"


def place_in_words(timezone: str) -> str:
    """Return the city of a time zone: `New York` for `America/New_York`."""
    return timezone.rpartition("/")[2].replace("_", " ")


def schedule_in_words(schedule: Schedule) -> str:
    """Return a schedule such as `Monday to Friday at 08:00, Oslo`."""
    match schedule.cadence:
        case Cadence.WEEKDAYS:
            days = "Monday to Friday"
        case Cadence.WEEKLY:
            days = f"Every {DAYS[schedule.weekday]}"
        case Cadence.MONTHLY:
            days = "The first of every month"
        case _:
            days = "Every day"
    return f"{days} at {schedule.at:%H:%M}, {place_in_words(schedule.timezone)}"


def requested_digest(cadence: Cadence, topics: Sequence[str], *, own: Collection[str] = ()) -> str:
    """Return a description of the requested digest: `a daily digest of papers on “diffusion” and “robots”`.

    A stranger may have chosen the names of the topics. Names that are not our `own` are therefore quoted,
    reduced to words, shortened, and limited in number; the others are counted.
    """
    kind, on_weekdays = REQUESTED.get(cadence, "a daily digest"), cadence is Cadence.WEEKDAYS
    if not topics:
        return "a digest of trending papers on weekdays" if on_weekdays else f"{kind} of trending papers"
    named = [name if name in own else quoted_words(name) for name in topics]
    shown = list(filter(None, named))[:MAX_REQUESTED_NAMED]
    others = len(topics) - len(shown)
    if not shown:
        return f"{kind} of papers on {count(others, 'topic')}"
    return f"{kind} of papers on {topics_in_words([*shown, *[''] * others], len(shown))}"


def quoted_words(text: str) -> str:
    """Return the words of a stranger's text in quotation marks, or "" if it has none.

    Only letters, short numbers, and hyphens and apostrophes inside words are kept, so that the text can
    neither link nor dial.
    """
    kept = "".join(char if is_in_word(char) else "" if category(char) == "Cf" else " " for char in text)
    words = [word.strip("-'’") for word in LONG_NUMBER.sub(" ", kept).split()]
    cut = cut_at_word(" ".join(filter(None, words)), MAX_REQUESTED_NAME)
    return f"“{cut}”" if cut else ""


def unlinkable(text: str) -> str:
    """Return our sentence about a stranger's text without long numbers, and without signs inside its words.

    Categories such as cat:cs.CL keep their signs, so that they can be copied.
    """
    bare = CATEGORY_OR_SIGN.sub(lambda sign: sign["category"] or " ", text)
    return cut_at_word(LONG_NUMBER.sub(" ", bare), MAX_REMARK_LENGTH)


def is_in_word(char: str) -> bool:
    """Return whether a character may be a part of a word: a letter, a mark, a digit, a hyphen or an apostrophe."""
    return category(char)[0] in "LM" or char.isdecimal() or char in "-'’"


def topics_in_words(topics: Sequence[str], at_most: int = MAX_TOPICS_NAMED) -> str:
    """Return text such as `diffusion, robots and 3 more topics`; up to `at_most` topics are named."""
    others = len(topics) - at_most
    if others <= 0:
        return listed_words(topics)
    named = ", ".join(topics[:at_most])
    return f"{named} and {count(others, 'more topic')}"


def listed_words(words: Sequence[str]) -> str:
    """Return a list such as `flows, robots and vision`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def welcome_papers_sentence(papers: int, *, is_on_topics: bool, is_from_today: bool) -> str:
    """Return a sentence such as `Until then, you can read two papers from today on your topics.`"""
    number = ("one paper", "two papers", "three papers")[papers - 1]
    span = "today" if is_from_today else "the past week"
    return f"Until then, you can read {number} from {span}{' on your topics' if is_on_topics else '’s trending list'}."


def papers_for_you(papers: int) -> str:
    """Return a title such as `5 papers for you`."""
    return f"{count(papers, 'paper')} for you"


def more_on_topic(topic: str) -> str:
    """Return a heading such as `More: Diffusion`, for the papers after the one in the headline.

    A colon fits every topic's name, whether it is a subject, a person or a project.
    """
    return "Also trending" if topic == TRENDING_TOPIC else f"More: {topic}"


def share_of_matches(papers: int, matches: int) -> str:
    """Return a share such as `2 of 12 matches`."""
    return f"{papers} of {count(matches, 'match', 'matches')}"


def new_papers(papers: int, checked: int) -> str:
    """Return the papers of a digest among all that were new, such as `10 of 43 new papers`."""
    if checked <= papers:
        return count(papers, "new paper")
    return f"{papers} of {checked:,} new papers"


def minutes_to_read(words: int) -> str:
    """Return the time that so many words take, such as `3 minutes`."""
    return count(max(1, ceil(words / WORDS_PER_MINUTE)), "minute")


def cut_at_word(text: str, max_length: int) -> str:
    """Return `text`, cut after a word to at most `max_length` characters; cut text ends with an ellipsis.

    Connectives at the end of cut text (`where`, `of the`) are also removed.
    """
    if len(text) <= max_length:
        return text
    kept = text[: max_length - 1]
    whole_words = kept if text[max_length - 1] == " " else kept.rpartition(" ")[0]
    if len(whole_words) <= max_length // 2:  # no space: a language without spaces, or one very long word
        whole_words = kept
    has_connective = TRAILING_CONNECTIVES.search(whole_words, max(len(whole_words) - LONGEST_CONNECTIVE, 0))
    shorter = TRAILING_CONNECTIVES.sub("", whole_words) if has_connective else whole_words
    return (shorter if len(shorter) > max_length // 2 else whole_words).rstrip(" ,;:.-–—(") + "…"


def topics_line(topics: Sequence[str], silent: Sequence[str]) -> str:
    """Return a line such as `Your topics: Flows; Vision; Robots (nothing today)`."""
    named = [*topics, *(f"{topic} (nothing today)" for topic in silent)]
    return cut_at_word(f"Your topics: {'; '.join(named)}", MAX_TOPICS_LENGTH)


def papers_a_day(usual: int, most: int) -> str:
    """Return how many papers a topic has, such as `about 4 papers a day`.

    `usual` is the number on a typical day, `most` that on the busiest.
    """
    if usual:
        return f"about {count(usual, 'paper')} a day"
    return "fewer than one paper a day" if most else "no papers so far"


def more_papers(papers: int, topic: str) -> str:
    """Return a line such as `37 more papers matched`, or `37 more trending papers` if there was no filter."""
    if topic == TRENDING_TOPIC:
        return count(papers, "more trending paper")
    return f"{count(papers, 'more paper')} matched"


def numbers_below(first: int, last: int) -> str:
    """Return a line such as `Numbers 11 to 35 are below.`, at the end of a list of numbered titles."""
    return f"Numbers {first} to {last} are below."


def see_more(papers: int, topic: str) -> str:
    """Return a link text such as `Read the other 37 on Vision`, or `Read the other 37 trending papers`."""
    if topic == TRENDING_TOPIC:
        return "Read the other trending paper" if papers == 1 else f"Read the other {papers} trending papers"
    return f"Read the other {'one' if papers == 1 else papers} on {topic}"


def short_list_note(papers: int) -> str:
    """Return a note that today’s list is incomplete; `papers` is the number missing, or 0 if unknown."""
    if not papers:
        return "Today’s list of papers is incomplete."
    return f"Today’s list of papers is incomplete: {papers} {'is' if papers == 1 else 'are'} missing."


def far_below_usual_note(papers: int, usual: int) -> str:
    """Return a note such as `Today’s list has only 12 papers; 240 are usual on this weekday.`"""
    return f"Today’s list has only {count(papers, 'paper')}; {usual} are usual on this weekday."


def missing_lists_note(sources: Sequence[str]) -> str:
    """Return a note such as `Today’s list from Hugging Face had not arrived when we wrote this.`"""
    named = list(dict.fromkeys(filter(None, map(source_in_words, sources))))
    if not named:
        return "Today’s list had not arrived when we wrote this."
    return f"Today’s {'list' if len(named) == 1 else 'lists'} from {listed_words(named)} had not arrived when we wrote this."


def source_in_words(source: str) -> str:
    """Return a source's name for readers: `arXiv`, or the host of a URL; empty for the dumps folder."""
    if "://" in source:
        return source.partition("://")[2].partition("/")[0][:60]
    kind = source.partition(":")[0]
    names = {
        "hf-daily": "Hugging Face",
        "arxiv": "arXiv",
        "biorxiv": "bioRxiv",
        "medrxiv": "medRxiv",
        "folder": "",
    }
    return names.get(kind, kind)


def followup_text(kind: str, text: str) -> str:
    """Describe an update to a paper in words: `Published: J. Gravel 12 (2026)`."""
    detail = cut_at_word(text, MAX_FOLLOWUP_LENGTH)
    match kind:
        case "withdrawn":
            return f"Withdrawn by its authors: “{detail}”" if detail else "Withdrawn by its authors"
        case "published":
            return f"Published: {detail}"
    return (
        f"Rewritten; the old title was “{detail}”" if detail else "A new version changes most of the abstract"
    )
