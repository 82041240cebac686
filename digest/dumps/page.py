"""What the text copies of Hugging Face paper pages have in common: a header, and dates without a year.

The same page reaches us flattened in many ways. What stays is the wording: `5 authors`, a lone
middle dot, `Mar 11, 2023`, a line of navigation. These are the marks; the rest is papers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from digest.dumps import fields
from digest.dumps.marks import NOTE, Kind, Mark, marks
from digest.dumps.reading import Header, Order, Source
from digest.errors import Unreadable
from digest.papers import Organization

CAPTURED = re.compile(
    r"^[^\w\n]{0,20}(?:retrieved|captured|fetched|accessed|crawled|scraped)\b[^\n]{0,40}?(\d{4})-(\d\d)-(\d\d)",
    re.IGNORECASE | re.MULTILINE,
)
TITLED = re.compile(r"^#{0,2} ?(?:[\w’' -]{0,60} )?papers\b[^\w\n]{1,4}(?:of |for |on )?(\w[^\n]{5,30})$", re.IGNORECASE | re.MULTILINE)  # fmt: skip
URL = re.compile(r"https?://[^\s<>\"{}]+")
AFTER_URL = ".,;:!?)]}'\""
NUMBERED = re.compile(r"(?:#(\d{1,3})[:.]?|[(\[]?(\d{1,3})[.)\]])\s+(\S.*)")
LONGEST_LINE = 60_000
LONGEST_TITLE = 350  #: a longer text is an abstract
SHORT = 400  #: on a trending page, a shorter text is a summary
PREAMBLE = 200  #: lines within which a page's header stands
HEADER = 400  #: characters of prose in front of which it does: an abstract is longer
TOP = 2_000  #: characters of a page in which its title stands
HTML = re.compile(r"</(?:p|a|h[1-6]|details|summary|span|div|li|em|strong|b|i)>", re.IGNORECASE)
LEAST_NOTES = 10  #: numbers of links by which a text browser is known
MANGLED = re.compile("â€¢|Â·")


def urls_in(text: str) -> tuple[str, ...]:
    """Return the addresses in `text`, in order, without what follows them in a sentence."""
    found = (url.rstrip(AFTER_URL) for url in URL.findall(text))
    return tuple(dict.fromkeys(url for url in found if url.partition("://")[2]))


def organization(text: str) -> Organization:
    """Return who stands behind a paper: an image's text (the handle), then the name."""
    handle, _, name = text.strip().partition(" ")
    return Organization(handle=handle, name=name.strip() or handle)


# ── dates without a year ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What holds for a whole page."""

    header: Header
    day: date  #: the day against which dates without a year are read
    is_trending: bool = False  #: its texts may be summaries


def survey(source: Source) -> Page:
    """Read through the page once for its date.

    A page leaves the year out only for dates of its own year, so a paper dated `Dec 27, 2025`
    tells that the page is of 2026 or later, wherever in the file it stands.
    """
    if len(MANGLED.findall(source.head)) > 2:
        raise Unreadable(
            "Its UTF-8 was taken for another encoding: it has â€¢ for • and Â· for ·. Save it once more."
        )
    dateline, newest = None, 0
    before, prose = None, 0
    for number, line, fault in source.lines():
        found = () if fault or len(line) > 200 else marks(line)
        if not found:
            before = None if line.strip() else before
            prose += len(URL.sub("", line)) if prose < HEADER else 0
            continue
        for one in found:
            if one.kind is Kind.DATE:
                newest = max(newest, one.year or 0)
                is_header = (
                    before not in (Kind.DOT, Kind.AUTHORS)
                    and number <= PREAMBLE
                    and prose < HEADER
                    and not one.is_labelled
                )
                if dateline is None and is_header and len(found) == 1:
                    dateline = one
            before = one.kind
    return page_of(source, dateline, newest)


def page_of(source: Source, dateline: Mark | None, newest: int) -> Page:
    """Return what holds for the page, from its header, its dates and the day it was fetched."""
    order = order_of(source.head)
    trending = order == "ranked"
    if (captured := captured_on(source.head)) is not None:
        return Page(header=Header(date=captured, order=order), day=captured, is_trending=trending)
    if dateline is None:
        return Page(header=Header(order=order), day=source.observed_on, is_trending=trending)
    if dateline.year is not None:
        day = day_of(dateline.year, dateline.month, dateline.day)
        return Page(header=Header(date=day, order=order), day=day, is_trending=trending)
    day = last_before(source.observed_on, dateline.month, dateline.day)
    if day.year <= newest:
        day = day_of(newest + 1, dateline.month, dateline.day)
    return Page(header=Header(date=day, date_inferred=True, order=order), day=day, is_trending=trending)


def captured_on(head: str) -> date | None:
    """Return the day the tool that made the copy says it was made, or that stands in the page's title."""
    if found := CAPTURED.search(head):
        return fields.day_of(found[1], found[2], found[3])
    titled = TITLED.search(head[:TOP])
    named = marks(titled[1]) if titled else ()
    is_day = len(named) == 1 and named[0].kind is Kind.DATE and named[0].year is not None
    return fields.day_of(named[0].year, named[0].month, named[0].day) if is_day else None


def order_of(head: str) -> Order:
    """Return what a page's order means: a search is by relevance, the trending page is ranked."""
    if re.search(r"huggingface\.co/papers\?\S{0,300}?\bq=", head):
        return "relevance"
    if re.search(
        r"^.{0,40}\burl\b.{0,10}huggingface\.co/papers/trending", head, re.IGNORECASE | re.MULTILINE
    ):
        return "ranked"
    if re.search(r"^# Trending Papers *$", head, re.MULTILINE):
        return "ranked"
    above = re.split(r"^(?:#* *)?by.{0,200}and the research community", head, maxsplit=1, flags=re.MULTILINE)[
        0
    ]
    named = re.findall(r"^(Daily|Trending) Papers *$", above, re.MULTILINE)  # further down it is a link
    return "ranked" if set(named) == {"Trending"} else "none"


def paper_date(found: Mark, page: Page) -> tuple[date, bool]:
    """Return a paper's date, and whether its year is ours: the page's own, or the one before."""
    if found.year is not None:
        return day_of(found.year, found.month, found.day), False
    return last_before(page.day, found.month, found.day), True


def last_before(limit: date, month: int, day: int) -> date:
    """Return the latest such day that is not after `limit`."""
    candidate = day_of(limit.year, month, day)
    return candidate if candidate <= limit else day_of(limit.year - 1, month, day)


def day_of(year: int, month: int, day: int) -> date:
    """Return the date; a day that the month has not (Feb 29 of a guessed year) becomes its last."""
    for last in (day, 30, 29, 28):
        try:
            return date(max(1, year), month, min(day, last) or 1)
        except ValueError:
            continue
    raise AssertionError("every month has a 28th")


def is_page(head: str) -> bool:
    """Return whether a text begins like a page of Hugging Face papers."""
    return bool(
        "Get trending papers in your email inbox" in head
        or "and the research community" in head
        or re.search(r"^(?:#* *)?(?:Daily|Trending) Papers *$", head, re.MULTILINE)
        or len(re.findall(r"^[ \t]*[•*-] \d+ authors$", head, re.MULTILINE)) > 1
    )


def alternates(head: str) -> bool:
    """Return whether at least four titles and abstracts follow one another, line by line but for blank ones."""
    lines = [line for line in head.splitlines()[:-1] if line.strip()]  # the last may be cut off
    pairs = list(zip(lines[::2], lines[1::2], strict=False))[:20]
    return len(pairs) >= 4 and all(len(a) <= LONGEST_TITLE < len(b) for a, b in pairs)


def bounded(source: Source) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a page without HTML's tags; one of a length that no abstract has is a fault."""
    has_notes = len(NOTE.findall(source.head)) > LEAST_NOTES
    for number, line, fault in source.lines():
        if len(line) > LONGEST_LINE:
            yield number, "", f"the line has {len(line):,} characters"
            continue
        text = fields.unmarked(line) if "</" in line and HTML.search(line) else line
        yield number, NOTE.sub("", text) if has_notes and "]" in text else text, fault


def unadorned(title: str) -> str:
    """Return a title without the sign that a copy put in front of it."""
    sign, _, rest = title.partition(" ")
    is_sign = sign and all(
        unicodedata.category(char) in ("So", "Mn", "Cf") or char in "•▪►‣◦" for char in sign
    )
    return rest.strip() if is_sign and rest.strip() else title


def unnumbered(title: str, expected: int) -> tuple[str, int]:
    """Return a title without its number, if the titles of the page are numbered, and the next number."""
    found = NUMBERED.fullmatch(title)
    if found is None or int(found[1] or found[2]) != expected:
        return title, expected
    return found[3], expected + 1


def title_line(line: str) -> str:
    """Return a first title without the button's caption that some copies glue to it."""
    return line.removeprefix("Subscribe") if re.match(r"Subscribe[^\sr]", line) else line


def numbered(source: Source) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a page from its own first words on; a lone button caption is taken off the first title."""
    after_caption = False
    first = beginning(source.head)
    for number, line, fault in bounded(source):
        if number < first:
            continue
        text = title_line(line) if after_caption else line
        if line.strip():
            after_caption = number < PREAMBLE and line.startswith("Get trending papers")
        yield number, text, fault


def beginning(head: str) -> int:
    """Return the line at which a page begins, after the menus of its site."""
    lines = head.splitlines()[:PREAMBLE]
    return next(
        (number for number, line in enumerate(lines, 1) if line.strip().startswith("Get trending papers")), 1
    )
