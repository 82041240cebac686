"""The words that depend on figures and dates; all others stand in the templates."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from gettext import NullTranslations
from math import ceil

from digest.editions import zone_of

SPEECH = NullTranslations()
_ = SPEECH.gettext
ngettext = SPEECH.ngettext

LONGEST_SUBJECT = 60
LONGEST_PREHEADER = 90
WORDS_PER_MINUTE = 200
LONGEST_SAID = 160
NAMED = 8  #: topics that the footer names
MEASURE = 72  #: columns of the text part
LEADING_ON = re.compile(
    r"(?:[\s,;:–—-]+(?:a|an|and|as|at|by|for|from|in|into|is|of|on|or|over|that|the|to|under|via|when|where|with))+$",
    re.IGNORECASE,
)
CATCH_UP = "catch-up"  #: stands for the cadence of the first digest after a leave
FIRST_SEEN = _("First seen today")
#: Scripts written without spaces, each of whose signs is two columns wide.
WIDE_SIGNS = (
    "\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
)
WIDE = re.compile(f"[{WIDE_SIGNS}]")
UNBROKEN = re.compile(rf"[{WIDE_SIGNS}]|\s*[^\s{WIDE_SIGNS}]+|\s+")
fill = partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)
MONTHS = (
    _("January"), _("February"), _("March"), _("April"), _("May"), _("June"), _("July"), _("August"),
    _("September"), _("October"), _("November"), _("December"),
)  # fmt: skip
DAYS = (
    _("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"), _("Saturday"), _("Sunday"),
)  # fmt: skip


def day_in_words(day: date) -> str:
    """Return `20 November 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def short_day(day: date) -> str:
    """Return `20 Nov 2026`."""
    return f"{day.day} {MONTHS[day.month - 1][:3]} {day.year}"


def day_and_hour(moment: datetime) -> str:
    """Return `20 November 2026, 07:12 UTC`."""
    there = moment.astimezone(UTC)
    return f"{day_in_words(there.date())}, {there:%H:%M} UTC"


def moment_in_words(moment: datetime, timezone: str, *, seen_from: datetime) -> str:
    """Return `Monday 08:00, Oslo`, with the date where the weekday alone could mislead."""
    local = moment.astimezone(zone_of(timezone))
    place = timezone.rpartition("/")[2].replace("_", " ")
    weekday = DAYS[local.weekday()]
    if local.date() - seen_from.astimezone(zone_of(timezone)).date() < timedelta(days=7):
        return f"{weekday} {local:%H:%M}, {place}"
    return f"{weekday} {local.day} {MONTHS[local.month - 1]}, {local:%H:%M}, {place}"


def headline(papers: int) -> str:
    """Return `5 papers for you`."""
    return ngettext("%d paper for you", "%d papers for you", papers) % papers


def caught_up(matched: int, papers: int) -> str:
    """Return `212 papers matched while you were away; these are the best 9`."""
    if papers == 1:
        return _("%d papers matched while you were away; this is the best") % matched
    return _("%(matched)d papers matched while you were away; these are the best %(papers)d") % {
        "matched": matched,
        "papers": papers,
    }


def checked(papers: int, words: int) -> str:
    """Return `412 checked · 4-minute read`."""
    minutes = max(1, ceil(words / WORDS_PER_MINUTE))
    return _("%d checked") % papers + " · " + _("%d-minute read") % minutes


def cut(text: str, room: int) -> str:
    """Return `text` cut at a word to at most `room` characters, with an ellipsis if something went.

    Words that only lead on (`where`, `of the`) go with what they led to.
    """
    if len(text) <= room:
        return text
    kept = text[: room - 1]
    whole_words = kept if text[room - 1] == " " else kept.rpartition(" ")[0]
    if len(whole_words) <= room // 2:  # a language without spaces, or one endless word
        whole_words = kept
    shorter = LEADING_ON.sub("", whole_words)
    return (shorter if len(shorter) > room // 2 else whole_words).rstrip(" ,;:.-–—(") + "…"


def subject(cadence: str, title: str, count: int) -> str:
    """Return what the inbox shows first: the best paper's title, and how many stand behind it."""
    if cadence == CATCH_UP:
        return ngettext(
            "While you were away: the one that mattered",
            "While you were away: the %(num)d that mattered",
            count,
        ) % {"num": count}
    if cadence in ("weekly", "monthly"):
        span = _("Your month") if cadence == "monthly" else _("Your week")
        lead = ngettext("%s: %d paper, ", "%s: %d papers, led by ", count) % (span, count)
        return lead + cut(title, LONGEST_SUBJECT - len(lead))
    rest = _("and %d more") % (count - 1) if count > 1 else ""
    whole = f"{title}, {rest}" if rest else title
    return (
        whole
        if len(whole) <= LONGEST_SUBJECT
        else f"{cut(title, LONGEST_SUBJECT - len(rest) - 1)} {rest}".rstrip()
    )


def preheader(others: Sequence[str]) -> str:
    """Return what the inbox shows after the subject: the titles that follow, never the first again."""
    lead = _("Also: ")
    second = cut(others[0], LONGEST_PREHEADER - len(lead))
    if len(others) > 1 and len(second) <= 42:
        return lead + second + " · " + cut(others[1], LONGEST_PREHEADER - len(lead) - len(second) - 3)
    return lead + second


def asked(topics: Sequence[str]) -> str:
    """Return why somebody gets a digest."""
    if not topics:
        return _("You asked for the day's trending papers.")
    named = ", ".join(topics[:NAMED])
    if len(topics) > NAMED:
        others = len(topics) - NAMED
        named += " " + ngettext("and %d more topic", "and %d more topics", others) % others
    return _("You asked for papers on %s.") % named


def more(papers: int) -> str:
    """Return `+37 more matched`."""
    return ngettext("+%d more matched", "+%d more matched", papers) % papers


def other_topics(topics: int) -> str:
    """Return `3 more topics`."""
    return ngettext("%d more topic", "%d more topics", topics) % topics


def columns(text: str) -> int:
    """Return how much room a line takes: signs of some scripts are two columns wide."""
    return len(text) + (0 if text.isascii() else len(WIDE.findall(text)))


def short_of(papers: int) -> str:
    """Return `Today's list came 40 papers short of its own count.`; of 0 nobody knows how many are missing."""
    if not papers:
        return _("Today's list broke off before its end.")
    return (
        ngettext(
            "Today's list came %d paper short of its own count.",
            "Today's list came %d papers short of its own count.",
            papers,
        )
        % papers
    )


def far_below(papers: int, usual: int) -> str:
    """Return `Today's list holds 12 papers, where 240 are usual on this day of the week.`"""
    return ngettext(
        "Today's list holds %(papers)d paper, where %(usual)d are usual on this day of the week.",
        "Today's list holds %(papers)d papers, where %(usual)d are usual on this day of the week.",
        papers,
    ) % {"papers": papers, "usual": usual}


def not_come(sources: Sequence[str]) -> str:
    """Return `Today's list from Hugging Face had not arrived when this was written.`"""
    named = [name for source in sources if (name := source_in_words(source))]
    if not named:
        return _("Today's list had not arrived when this was written.")
    return ngettext(
        "Today's list from %s had not arrived when this was written.",
        "Today's lists from %s had not arrived when this was written.",
        len(named),
    ) % ", ".join(dict.fromkeys(named))


def source_in_words(source: str) -> str:
    """Return what a reader calls a source: `arXiv`, or the server of an address; our own folder has no name."""
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


def offer(topic: str, clause: str, before: float, after: float) -> str:
    """Return `Graphs matches 31 papers a day. Narrow it to "graph neural": 3 a day instead of 31`."""
    return _(
        "%(topic)s matches more than fits. Narrow it to %(clause)s: %(after)g a day instead of %(before)g"
    ) % {
        "topic": topic,
        "clause": clause,
        "before": before,
        "after": after,
    }


def became(kind: str, says: str) -> str:
    """Return what became of a paper: `Published: J. Gravel 12 (2026)`."""
    said = cut(says, LONGEST_SAID)
    match kind:
        case "withdrawn":
            return _("Withdrawn by its authors: “%s”") % said if said else _("Withdrawn by its authors.")
        case "published":
            return _("Published: %s") % said
    return (
        _("Rewritten; it was called “%s”") % said
        if said
        else _("A new version rewrites most of its abstract.")
    )


# ── the text part ───────────────────────────────────────────────────────────────────────────────


def wrapped(text: str, *, measure: int = MEASURE) -> str:
    """Return `text` on lines of at most 72 columns; a longer word keeps a line of its own."""
    if not text.isascii() and WIDE.search(text):
        return "\n".join(wide_lines(text, measure))
    if len(text) <= measure:
        return text
    is_even = " ".join(text.split()) == text
    return "\n".join(even_lines(text, measure)) if is_even else fill(text, measure)


def even_lines(text: str, measure: int) -> Iterator[str]:
    """Yield the lines that `fill` makes of words with one blank between them, and sooner."""
    start = 0
    while len(text) - start > measure:
        end = text.rfind(" ", start, start + measure + 1)
        if end < 0:
            end = text.find(" ", start + measure)
        if end < 0:
            break
        yield text[start:end]
        start = end + 1
    yield text[start:]


def barred(text: str) -> str:
    """Return `text` wrapped, behind the bar that a why line has."""
    return "| " + wrapped(text, measure=MEASURE - 2).replace("\n", "\n| ")


def wide_lines(text: str, measure: int) -> Iterator[str]:
    """Yield lines of a script that is written without spaces, each of its signs two columns wide."""
    line, taken = "", 0
    for word in UNBROKEN.findall(text):
        columns = len(word) + bool(WIDE.match(word))
        if taken + columns > measure and line.strip():
            yield line.rstrip()
            line, taken = "", 0
        line, taken = line + (word if line else word.lstrip()), taken + columns
    yield line.rstrip()
