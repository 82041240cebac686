"""Parse the metadata lines of a page: counts, dates, numbers of authors, and the site's navigation.

The same value has many spellings: `Nov 3, 2026`, `3 Nov 2026`, `2026-11-03`; `3.29k` below a button,
after a star, or before a word. A line contains one value, or several values separated by
middle dots, bullets or bars.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from digest.dumps.formats import field_parsing
from digest.dumps.formats.page_counts import stated_count

NAVIGATION = frozenset(
    "new|Get trending papers in your email inbox once a day!|Get trending papers in your email inbox!|"
    "Subscribe|Daily Papers|Trending Papers|Daily|Weekly|Monthly|Log In|Sign Up|"
    "Previous|Next|Company|TOS|Privacy|About|Careers|Website|Models|Datasets|Spaces|Pricing|Docs|"
    "System theme|Back to top|arXiv Page|PDF|View all|Hugging Face|Community|Enterprise|Buckets|Collections|"
    "Abstract|References|Visible links|Hidden links|Organizations|Inference Endpoints|Project Page|...|…".casefold().split(
        "|"
    )
)
#: Two words that a copy joined, as in `TOSPrivacy` or `Previous1`.
GLUE = re.compile(r"[a-z!.][A-Z\d]|[A-Z]{2}[a-z]|\d[A-Z]")
#: The first three letters of menu words, of months, and of lines that state how many papers a page lists.
STARTS = frozenset(word[:3] for word in NAVIGATION) | frozenset(
    (
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        "sho", "dis", "vie", "fou", "all", "tot", "num", "res", "pap", "ent", "art", "pub", "pre",
    )
)  # fmt: skip
#: Menu words, page numbers and dates, with no spaces between them.
MENU = re.compile(
    "(?:"
    + "|".join(re.escape("".join(word.split())) for word in sorted(NAVIGATION, key=len, reverse=True))
    + r"|(?>\d+)|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?>\d+))+"
)
#: A text without a label; each value in a line of metadata has a digit, a sign or a word of a menu.
WORDS = re.compile(
    r"(?!(?i:by|submitted|https?:|(?:title|abstract|authors?|arxiv|doi|links?|urls?|pdf|paper|code|github|project|published|posted|date)[^:]{0,9}:))"
    r"[^\W\d_][^\d_·•|*@©\[\]<>]{12,200}(?<!logo)"
)
BYLINE = re.compile(r"by.{0,200}\band the research community")
SITE_LINE = re.compile(r"©.{0,60}|.{0,12}hugging face.{0,3} logo.{0,20}|submitted by .{1,60}")
#: A line that separates papers, or that underlines a title or the header of a table.
HORIZONTAL_RULE = re.compile(r"[-=*_~#—–]{3,}|(?:`{3,}|~{3,})\w*|(?:[-*_] ){2,}[-*_]|\|(?:\s*:?-+:?\s*\|)+")
NUMBER = r"\d[\d,]*(?:\.\d+)?[kKmM]?"
BULLET = r"(?:[-•*·▪►‣◦–]|\N{BUSTS IN SILHOUETTE}|\N{BUST IN SILHOUETTE}|\N{SPIRAL CALENDAR PAD}|\N{CALENDAR}|\N{TEAR-OFF CALENDAR})"
AUTHORS = re.compile(
    rf"(?:[\[\s\\]*{BULLET})*[\[\s\\]*(?:authors: )?(?P<number>[\d,]{{1,9}}) authors?"
    r"(?:\](?:\(\S*\)|\[\d+\]))?[\\\s]*",
    re.IGNORECASE,
)
LABEL = rf"(?P<label>(?:{BULLET}\s*)?(?:(?:published|submitted|posted|date)(?: on)?:? )?)"
YEAR = r"(?P<year>(?:19|20)\d\d)"
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
MONTH = rf"(?P<month>{field_parsing.MONTHS})"
DATE = re.compile(
    rf"{LABEL}{MONTH} {DAY}(?:,? {YEAR})?"
    r"(?:\s*\[\s*(?P<linked>[\d.,]+k?)\s*\](?:\(\S*\)|\[\d+\])|\s+(?P<comments>[\d.,]+k?))?",
    re.IGNORECASE,
)
DAY_FIRST = re.compile(rf"{LABEL}{DAY} {MONTH},? {YEAR}", re.IGNORECASE)
ISO = re.compile(rf"{LABEL}{YEAR}[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)", re.IGNORECASE)
COUNT = re.compile(r"(?:\[-\]\s*)?(?P<number>\d[\d,]*(?:\.\d+)?[kKmM]?|-)")
EMPHASIS = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=[\w.])[*_](?!\w)")
FIGURE_SIGNS = {"upvotes": "▲△⬆🔼↑👍❤🔥👏", "comments": "💬🗨", "stars": "⭐★☆🌟"}
SEPARATOR = re.compile(f"[·|•{''.join(FIGURE_SIGNS.values())}]")
PART_SEPARATOR = re.compile(rf"\s*[·|•]\s*|\s+(?=[{''.join(FIGURE_SIGNS.values())}])")
LINK_NUMBER = re.compile(r"\[\d{1,4}\](?=\w)")  #: the number that a text browser writes before a link
LABELLED_ADDRESS = re.compile(
    r"(?:[-*•]\s+)?(?:\*\*|__)?(?P<kind>arxiv|doi|links?|urls?|pdf|paper|code|github|project(?: page)?)"
    r"(?: (?:id|page|link))?(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<address>\[[^\[\]]*\]\(\S+\)|<?\S+>?)",
    re.IGNORECASE,
)
LONGEST_NAMES = 4_000
MAX_MENU_WORDS = 20
LONGEST_NAME = 120
MAX_LINE_LENGTH = 200  #: maximum number of characters in a line of metadata; a longer line is prose
LABELLED_LINE = re.compile(
    r"(?:[-*•]\s+)?(?:\*\*|__)?(?:by|(?:authors?|by)(?:\*\*|__)?\s*:)(?:\*\*|__)?\s+(?P<names>\S.*)"
    r"|(?:[-*•]\s+)?(?:\*\*|__)?title(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<title>\S.*)"
    r"|(?:[-*•]\s+)?(?:\*\*|__)?abstract(?:\*\*|__)?\s*:(?:\*\*|__)?\s+(?P<abstract>\S.*)",
    re.IGNORECASE,
)


def figure_pattern(signs: str, words: str) -> re.Pattern[str]:
    """Return the pattern for a number before or after its symbol or word."""
    named = rf"(?:[{signs}]|{words})"
    return re.compile(
        rf"(?:- )?\(?(?:{named}:? ?({NUMBER}|-)(?: arxiv page)?|({NUMBER}) ?{named})\)?", re.IGNORECASE
    )


class MetadataKind(Enum):
    """The kind of a line of metadata."""

    DOT = auto()
    AUTHORS = auto()
    DATE = auto()
    COUNT = auto()  #: a number without a label
    UPVOTE = auto()  #: the caption `Upvote` without a number
    SUBMITTER = auto()  #: a caption such as `Submitted by` without a name
    UPVOTES = auto()
    COMMENTS = auto()
    STARS = auto()
    NAVIGATION = auto()


CAPTIONS = {
    "upvote": MetadataKind.UPVOTE,
    "upvotes": MetadataKind.UPVOTE,
    "submitted by": MetadataKind.SUBMITTER,
}
FIGURES = {
    MetadataKind.UPVOTES: figure_pattern(FIGURE_SIGNS["upvotes"], "(?:up)?votes?|likes?"),
    MetadataKind.COMMENTS: figure_pattern(FIGURE_SIGNS["comments"], "comments?"),
    MetadataKind.STARS: figure_pattern(FIGURE_SIGNS["stars"], "github(?: stars?)?|(?:github )?stars?"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataLine:
    """One item of metadata and its numbers."""

    kind: MetadataKind
    number: float | None = None  #: the number of authors or comments, or an unlabelled count
    month: int = 0
    day: int = 0
    year: int | None = None
    is_labelled: bool = False  #: whether a label or a bullet precedes the date, as in `Published on ...`


@lru_cache(maxsize=2_000)  # several steps ask about the same line, and many lines occur again and again
def parse_metadata_line(line: str) -> tuple[MetadataLine, ...]:
    """Return the items of metadata on a line, separated by dots or bars; none if the line is prose."""
    if len(line) > MAX_LINE_LENGTH or is_plain(line):
        return ()
    if HORIZONTAL_RULE.fullmatch(line.strip()):
        return (MetadataLine(kind=MetadataKind.NAVIGATION),)
    text = without_emphasis(line)
    if found := parse_metadata(text):
        return (found,)
    if not SEPARATOR.search(text):
        return ()
    parts = [part for part in PART_SEPARATOR.split(text) if part]
    several = [parse_metadata(part) for part in parts] if parts != [text] else []
    return tuple(one for one in several if one) if several and all(several) else ()


def split_name_and_metadata(line: str) -> tuple[str, tuple[MetadataLine, ...]]:
    """Return (name, metadata) of a line with a name followed by a date and other metadata, else ("", ())."""
    if len(line) > MAX_LINE_LENGTH or not SEPARATOR.search(line):
        return "", ()
    text = without_emphasis(line)
    name, *rest = [part for part in PART_SEPARATOR.split(text) if part] or [""]
    behind = [parse_metadata(part) for part in rest]
    found = tuple(one for one in behind if one)
    is_whole = len(found) == len(rest) and any(one.kind is MetadataKind.DATE for one in found)
    if is_whole:
        return name, found
    has_dot = text.endswith("·") and not rest and len(name) < LONGEST_NAME
    return (name, (MetadataLine(kind=MetadataKind.DOT),)) if has_dot else ("", ())


def labelled_authors(line: str) -> tuple[str, ...]:
    """Return the authors on a line with a label such as `Authors:` or `by`."""
    labelled = LABELLED_LINE.fullmatch(line.strip()) if len(line) <= LONGEST_NAMES else None
    found = field_parsing.person_names(labelled["names"]) if labelled and labelled["names"] else ()
    return found if len(found) > 1 or ":" in line else ()  # `by Gradient Descent` names no author


def labelled_text(line: str) -> tuple[str, str]:
    """Return (label, text) of a line labelled `title` or `abstract`, else ("", "")."""
    labelled = LABELLED_LINE.fullmatch(line) if ":" in line[:20] else None
    if labelled is None or labelled["names"]:
        return "", ""
    return ("title", labelled["title"]) if labelled["title"] else ("abstract", labelled["abstract"])


def labelled_address(line: str) -> tuple[str, str]:
    """Return (label, URL or id) of a line such as `arXiv: 2611.01234`, else ("", "")."""
    labelled = LABELLED_ADDRESS.fullmatch(line.strip()) if len(line) < LONGEST_NAMES else None
    return (labelled["kind"].casefold(), labelled["address"]) if labelled else ("", "")


def without_emphasis(line: str) -> str:
    """Remove emphasis, the `> ` of quoted mail and invisible characters from a line."""
    if not line.isascii():
        line = "".join(char for char in line if unicodedata.category(char) not in ("Cf", "Mn"))
    return LINK_NUMBER.sub("", EMPHASIS.sub("", " ".join(line.split())).removeprefix("> "))


def parse_metadata(text: str) -> MetadataLine | None:  # noqa: PLR0911  (one return for each shape of line)
    """Return the single item of metadata that `text` consists of, or None."""
    if text == "·":
        return MetadataLine(kind=MetadataKind.DOT)
    if is_navigation(text):
        return MetadataLine(kind=MetadataKind.NAVIGATION)
    if caption := CAPTIONS.get(text.casefold()):
        return MetadataLine(kind=caption)
    if found := AUTHORS.fullmatch(text):
        return MetadataLine(kind=MetadataKind.AUTHORS, number=float(found["number"].replace(",", "")))
    for kind, pattern in FIGURES.items():
        if found := pattern.fullmatch(text):
            return MetadataLine(kind=kind, number=parse_figure(found[1] or found[2]))
    if found := COUNT.fullmatch(text):
        return MetadataLine(kind=MetadataKind.COUNT, number=parse_figure(found["number"]))
    return parse_date(text)


def parse_date(text: str) -> MetadataLine | None:
    """Return the date that `text` consists of, or None."""
    for pattern in (DATE, DAY_FIRST, ISO):
        found = pattern.fullmatch(text)
        if found is None:
            continue
        parts = found.groupdict()
        month = field_parsing.month_number(parts["month"])
        if 1 <= month <= 12 and 1 <= int(parts["day"]) <= 31:
            return MetadataLine(
                kind=MetadataKind.DATE,
                number=parse_figure(parts.get("linked") or parts.get("comments")),
                month=month,
                day=int(parts["day"]),
                year=int(parts["year"]) if parts["year"] else None,
                is_labelled=bool(parts["label"]),
            )
    return None


@lru_cache(maxsize=2_000)  # as above
def is_navigation(text: str) -> bool:
    """Return whether a line belongs to the site and not to a paper."""
    words = text.lstrip("# ").casefold()
    if words in NAVIGATION or BYLINE.fullmatch(text) or SITE_LINE.fullmatch(words):
        return True
    several = words.split()
    if 2 < len(several) <= MAX_MENU_WORDS and all(word in NAVIGATION for word in several):
        return True
    if not (words[:1].isdigit() or words[:3] in STARTS) or len(text) >= MAX_LINE_LENGTH:
        return False
    if stated_count(text) is not None:
        return True
    return GLUE.search(text) is not None and MENU.fullmatch("".join(text.casefold().split())) is not None


def is_plain(text: str) -> bool:
    """Return whether a line has nothing that metadata, a menu or a label has: a digit, a sign or a known beginning."""
    return WORDS.fullmatch(text) is not None and text[:3].casefold() not in STARTS


def parse_figure(text: str | None) -> float | None:
    """Return the number in `3.29k`, `110k` or `1,204`, 0 for `-`, and None if it is invalid or too large."""
    if text == "-":
        return 0.0
    number = field_parsing.parse_number(text)
    return None if number is None else round(number)
