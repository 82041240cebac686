"""Parse the parts that all text copies of Hugging Face pages share: the header and dates without a year.

Copies of the same page differ in layout but have the same wording: `5 authors`, a single middle dot,
`Mar 11, 2023`, a line of navigation. These lines are metadata; all other lines are titles and abstracts.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from digest.dumps.formats import field_parsing
from digest.dumps.formats.page_counts import StatedCount, count_of_page, stated_count
from digest.dumps.formats.page_metadata import MetadataKind, MetadataLine, parse_metadata_line
from digest.dumps.formats.reader_interface import DumpInput, Header
from digest.errors import UnreadableDump
from digest.papers.paper_record import DumpOrder, Organization

CAPTURE_DATE = re.compile(
    r"^[^\w\n]{0,20}(?:retrieved|captured|fetched|accessed|crawled|scraped)\b[^\n]{0,40}?(\d{4})-(\d\d)-(\d\d)",
    re.IGNORECASE | re.MULTILINE,
)
TITLE_DATE = re.compile(r"^#{0,2} ?(?:[\w’' -]{0,60} )?papers\b[^\w\n]{1,4}(?:of |for |on )?(\w[^\n]{5,30})$", re.IGNORECASE | re.MULTILINE)  # fmt: skip
URL = re.compile(r"https?://[^\s<>\"{}]+")
URL_TRAILING_SIGNS = ".,;:!?)]}'\""
NUMBERED_TITLE = re.compile(r"(?:#(\d{1,3})[:.]?|[(\[]?(\d{1,3})[.)\]])\s+(\S.*)")
LONGEST_LINE = 60_000
LONGEST_TITLE = 350  #: maximum number of characters in a title; a longer text is an abstract
SUMMARY_BY = "Hugging Face"
MAX_PREAMBLE_LINES = 200  #: maximum number of lines before the end of a page's header
HEADER_LENGTH = 400  #: maximum number of characters of prose before a page's date; an abstract has more
TOP_LENGTH = 2_000  #: maximum number of characters before the end of a page's title
#: The caption "Subscribe" of a button, which some copies join to the first title.
GLUED_CAPTION = re.compile(r"\ASubscribe(?=[^\sr])")
MIS_DECODED = re.compile("â€¢|Â·")


def urls_in(text: str) -> tuple[str, ...]:
    """Return the URLs in `text` in order, without trailing punctuation."""
    if "://" not in text:
        return ()
    found = (url.rstrip(URL_TRAILING_SIGNS) for url in URL.findall(text))
    return tuple(dict.fromkeys(url for url in found if url.partition("://")[2]))


def organization(text: str) -> Organization:
    """Parse a line with an organisation's name, perhaps after its handle (the alt text of its logo).

    A handle is in lower case, contains a digit or a hyphen, or is the beginning of the name.
    """
    handle, _, name = text.strip().partition(" ")
    plain = "".join(char for char in name if char.isalnum()).casefold()
    is_handle = (
        handle == handle.casefold()
        or any(char in handle for char in "-_0123456789")
        or plain.startswith(handle.casefold())
    )
    if name.strip() and is_handle:
        return Organization(handle=handle, name=name.strip())
    return Organization(handle=text.strip(), name=text.strip())


# ── dates without a year ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class PageHeader:
    """The information in the header of a page."""

    header: Header
    day: date  #: the latest day that a date without a year can mean
    is_trending: bool = False  #: a trending page may contain summaries instead of abstracts


def read_page_header(source: DumpInput) -> PageHeader:
    """Read the whole page once to find the page's date and the number of papers that it states.

    A page omits the year only in dates of the year in which the page was made. A page that prints a date such
    as `Dec 27, 2025` is therefore from 2026 or later. Raises UnreadableDump for text that was decoded with
    the wrong encoding.
    """
    if len(MIS_DECODED.findall(source.head)) > 2:
        raise UnreadableDump(
            "The page's UTF-8 was decoded with another encoding: the file contains â€¢ instead of • and Â· instead of"
            " ·. Save the original page again, with UTF-8 as the encoding."
        )
    dateline, newest = None, 0
    before, prose = None, 0
    stated: list[StatedCount] = []
    for number, line, fault in source.lines():
        if not line and not fault:
            continue
        found = () if fault or len(line) > 200 else parse_metadata_line(line)
        if found and (counted := stated_count(line)) is not None:
            stated.append(counted)
            continue
        if not found:
            before = None if line.strip() else before
            prose += len(URL.sub("", line)) if prose < HEADER_LENGTH else 0
            continue
        for one in found:
            if one.kind is MetadataKind.DATE:
                newest = max(newest, one.year or 0)
                is_header = (
                    before not in (MetadataKind.DOT, MetadataKind.AUTHORS)
                    and number <= MAX_PREAMBLE_LINES
                    and prose < HEADER_LENGTH
                    and not one.is_labelled
                )
                if dateline is None and is_header and len(found) == 1:
                    dateline = one
            before = one.kind
    page = page_header_of(source, dateline, newest)
    announced = count_of_page(stated, (line for _, line, _ in source.lines())) if stated else None
    return replace(page, header=replace(page.header, announced=announced))


def page_header_of(source: DumpInput, dateline: MetadataLine | None, newest: int) -> PageHeader:
    """Return the page's header, based on the page's date line, its latest year and its fetch date."""
    order = page_order(source.head)
    trending = order == "ranked"
    if (captured := capture_date(source.head)) is not None:
        return PageHeader(header=Header(date=captured, order=order), day=captured, is_trending=trending)
    if dateline is None:
        return PageHeader(header=Header(order=order), day=source.observed_on, is_trending=trending)
    if dateline.year is not None:
        day = clamped_date(dateline.year, dateline.month, dateline.day)
        return PageHeader(header=Header(date=day, order=order), day=day, is_trending=trending)
    day = latest_date_before(source.observed_on, dateline.month, dateline.day)
    if day.year <= newest:
        day = clamped_date(newest + 1, dateline.month, dateline.day)
    return PageHeader(header=Header(date=day, date_inferred=True, order=order), day=day, is_trending=trending)


def capture_date(head: str) -> date | None:
    """Return the capture date that the copying tool added to the page, or the date in the page's title."""
    if found := CAPTURE_DATE.search(head):
        return field_parsing.make_date(found[1], found[2], found[3])
    titled = TITLE_DATE.search(head[:TOP_LENGTH])
    named = parse_metadata_line(titled[1]) if titled else ()
    is_day = len(named) == 1 and named[0].kind is MetadataKind.DATE and named[0].year is not None
    return field_parsing.make_date(named[0].year, named[0].month, named[0].day) if is_day else None


def page_order(head: str) -> DumpOrder:
    """Return the order of a page's papers: relevance on search pages, rank on trending pages, else none."""
    if "/papers?" in head and re.search(r"huggingface\.co/papers\?\S{0,300}?\bq=", head):
        return "relevance"
    if "/papers/trending" in head and re.search(
        r"^.{0,40}\burl\b.{0,10}huggingface\.co/papers/trending", head, re.IGNORECASE | re.MULTILINE
    ):
        return "ranked"
    if re.search(r"^# Trending Papers *$", head, re.MULTILINE):
        return "ranked"
    if "Trending Papers" not in head:
        return "none"
    above = re.split(r"^(?:#* *)?by.{0,200}and the research community", head, maxsplit=1, flags=re.MULTILINE)[
        0
    ]
    named = re.findall(
        r"^(Daily|Trending) Papers *$", above, re.MULTILINE
    )  # elsewhere on the page, these words are only the text of a link
    return "ranked" if set(named) == {"Trending"} else "none"


def paper_date(found: MetadataLine, page: PageHeader) -> tuple[date, bool]:
    """Return a paper's date and whether its year was inferred from the page's date."""
    if found.year is not None:
        return clamped_date(found.year, found.month, found.day), False
    return latest_date_before(page.day, found.month, found.day), True


def latest_date_before(limit: date, month: int, day: int) -> date:
    """Return the latest date with this month and day, up to and including `limit`."""
    candidate = clamped_date(limit.year, month, day)
    return candidate if candidate <= limit else clamped_date(limit.year - 1, month, day)


def clamped_date(year: int, month: int, day: int) -> date:
    """Return the date, replacing a day after the end of the month (such as Feb 29) with its last day."""
    year = max(1, year)
    return date(year, month, min(day, monthrange(year, month)[1]))


def is_page(head: str) -> bool:
    """Return whether `head` begins like a Hugging Face paper page."""
    return bool(
        "Get trending papers in your email inbox" in head
        or "and the research community" in head
        or re.search(r"^(?:#* *)?(?:Daily|Trending) Papers *$", head, re.MULTILINE)
        or len(re.findall(r"^[ \t]*[•*-] \d+ authors$", head, re.MULTILINE)) > 1
    )


def alternates_title_and_abstract(head: str) -> bool:
    """Return whether short and long non-blank lines alternate, as titles and abstracts, at least four times."""
    lines = [line for line in head.splitlines()[:-1] if line.strip()]  # the last line may be incomplete
    pairs = list(zip(lines[::2], lines[1::2], strict=False))[:20]
    return len(pairs) >= 4 and all(len(a) <= LONGEST_TITLE < len(b) for a, b in pairs)


def without_leading_sign(title: str) -> str:
    """Return a title without a leading symbol or bullet."""
    if title[:1].isalnum():
        return title
    sign, _, rest = title.partition(" ")
    is_sign = sign and all(
        unicodedata.category(char) in ("So", "Mn", "Cf") or char in "•▪►‣◦" for char in sign
    )
    return rest.strip() if is_sign and rest.strip() else title


def without_number(title: str, expected: int) -> tuple[str, int]:
    """Return (title without its number, next number), or both unchanged if the number is not as expected."""
    found = None if title[:1].isalpha() else NUMBERED_TITLE.fullmatch(title)
    if found is None or int(found[1] or found[2]) != expected:
        return title, expected
    return found[3], expected + 1


def lines_below_menus(source: DumpInput) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a page after the site's menus, without the button's caption that joins the first title.

    A line that is longer than any abstract is yielded as faulty.
    """
    above = source.head.splitlines()[:MAX_PREAMBLE_LINES]
    first = next((n for n, line in enumerate(above, 1) if line.strip().startswith("Get trending papers")), 1)
    is_below_caption = False
    for number, line, fault in source.lines():
        if number < first:
            continue
        if len(line) > LONGEST_LINE:
            yield number, "", f"the line has {len(line):,} characters"
            continue
        yield number, GLUED_CAPTION.sub("", line) if is_below_caption else line, fault
        if line.strip():
            is_below_caption = number < MAX_PREAMBLE_LINES and line.startswith("Get trending papers")
